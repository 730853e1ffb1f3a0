"""The command: contenders across batch sizes, or two logs."""

import contextlib
import json
import sys

from absl import flags

from dual_device_strategy import command, emulation
from dual_device_strategy.compare import report
from dual_device_strategy.compare.contenders import OURS, Setting
from dual_device_strategy.compare.logs import compare_logs
from dual_device_strategy.compare.rounds import compare_at
from dual_device_strategy.workload import Workload, stage_times

_BATCH_SIZES = flags.DEFINE_list(
    "batch_sizes", ["8", "12", "16", "20", "24", "28", "32"], "Batch sizes to compare at."
)
_STAGE_MS = flags.DEFINE_multi_string(
    "stage_ms",
    ["10,20,20"],
    "On emulated GPUs and CPUs: what host, front end and step take in ms for a batch of 16; "
    "several times for several cases.",
)
_TEXT_LEN = flags.DEFINE_integer("text_len", 200, "Of the workload.", lower_bound=1)
_MEL_FRAMES = flags.DEFINE_integer("mel_frames", 400, "Of the workload.", lower_bound=1)
_STEP_MB = flags.DEFINE_float(
    "step_mb", 8, "Memory that the emulated step takes for each element of a batch, in MB."
)
_NUM_STEPS = flags.DEFINE_integer("num_steps", 20, "Steps of each round.", lower_bound=2)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Alternating rounds.", lower_bound=1)
_SLOTS = flags.DEFINE_integer("slots", 3, "Slots of our strategy.", lower_bound=2)
_HOST_SLOWDOWN = flags.DEFINE_float(
    "host_slowdown", 1.0, "How many times longer the emulated front end takes on a host's core."
)
_JSON = flags.DEFINE_string("json", None, "Write the figures to this file.")
_PLOT = flags.DEFINE_string("plot", None, "Write a plot to this .png or .html file.")
_LOGS = flags.DEFINE_boolean(
    "logs", False, "Compare two finished runs: --logs A.jsonl B.jsonl, written by their monitors."
)


def main(arguments) -> None:
    if _LOGS.value:
        sys.exit(_compare_logs(arguments[1:]))
    with contextlib.ExitStack() as files, command.mistakes_told(OSError, ValueError):
        sizes, cases = _batch_sizes(), [stage_times(text.split(",")) for text in _STAGE_MS.value]
        if _PLOT.value and not _PLOT.value.endswith((".png", ".html")):
            raise ValueError(f"--plot={_PLOT.value} must be a .png or an .html file")
        # Before anything is measured.
        outputs = {
            path: files.enter_context(open(path, "w"))
            for path in (_JSON.value, _PLOT.value)
            if path
        }
        comparisons, setting = _compare(sizes, cases)
        if _JSON.value:
            figures = report.as_json(comparisons, setting, bool(emulation.active()))
            json.dump(figures, outputs[_JSON.value], indent=1)
        if _PLOT.value and _PLOT.value.endswith(".png"):
            report.write_png(comparisons, _PLOT.value)
        elif _PLOT.value:
            outputs[_PLOT.value].write(report.html_page(comparisons))
    ours = [row for c in comparisons for row in c.rows if row.name == OURS]
    sys.exit(0 if any(row.step_ms for row in ours) else 1)


def _compare(sizes, cases):
    devices = _start_devices()
    setting = Setting(devices.data_device, devices.model_device, _SLOTS.value, _HOST_SLOWDOWN.value)
    real = devices.model.kind == "GPU" and not emulation.active()
    comparisons, case_comparisons = [], []
    for case in [None] if real else cases:
        without, case_comparisons = set(), []
        for size in sizes:
            workload = Workload(
                size, _TEXT_LEN.value, _MEL_FRAMES.value, case, 0 if real else _STEP_MB.value
            )
            compared = compare_at(workload, setting, _NUM_STEPS.value, _ROUNDS.value, without)
            # What did not fit will not fit with larger batches either.
            without |= {row.name for row in compared.rows if row.problem == "does not fit"}
            case_comparisons.append(compared)
            host_ms = None
            if case:
                host_ms = workload.scaled_ms()[1] * setting.host_slowdown
            print(report.table(compared, setting, host_ms) + "\n", flush=True)
        print(report.recommendation(case_comparisons, setting.slots) + "\n", flush=True)
        comparisons += case_comparisons
    for name, size in report.first_that_do_not_fit(comparisons).items():
        print(f"{name}: batch size {size} is the first that does not fit")
    return comparisons, setting


def _start_devices():
    """The devices of the flags, or an emulated pair where there are no GPUs."""
    import tensorflow as tf

    flag = flags.FLAGS["emulate_gpus"]
    if flag.value is None and not emulation.active() and not tf.config.list_physical_devices("GPU"):
        flag.value = 2
    return command.start_devices()


def _batch_sizes():
    with contextlib.suppress(ValueError):
        sizes = sorted({int(text) for text in _BATCH_SIZES.value})
        if sizes and sizes[0] > 0:
            return sizes
    raise ValueError(
        f"--batch_sizes={','.join(_BATCH_SIZES.value)} must be whole numbers from 1 on, such as "
        "--batch_sizes=8,16,32"
    )


def _compare_logs(paths) -> int:
    if len(paths) != 2:
        print(
            f"--logs compares two files, {len(paths)} were given: --logs A.jsonl B.jsonl",
            file=sys.stderr,
        )
        return 1
    table, problems = compare_logs(paths)
    print(table)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    command.run(main)
