"""python -m dual_device_strategy.compare [FLAGS]
python -m dual_device_strategy.compare --logs A.jsonl B.jsonl

Runs the same work under this strategy and under others, at several batch sizes; or compares the
logs of two monitored runs.
"""

import contextlib
import importlib.util
import json
import logging
import sys
from pathlib import Path

import tensorflow as tf
from absl import flags

from dual_device_strategy import command, emulation, readings, workload_flags
from dual_device_strategy.compare import plot, report
from dual_device_strategy.compare.contenders import OURS, Setting
from dual_device_strategy.compare.logs import compare_logs
from dual_device_strategy.compare.rounds import Comparison, compare_at
from dual_device_strategy.devices import total_memory
from dual_device_strategy.workload import Workload, fixed_times, part_times

flags.adopt_module_key_flags(command)
flags.adopt_module_key_flags(workload_flags)
_BATCH_SIZES = flags.DEFINE_list(
    "batch_sizes", ["8", "12", "16", "20", "24", "28", "32"], "Batch sizes to compare at."
)
_PART_MS = flags.DEFINE_multi_string(
    "part_ms",
    ["10,20,20"],
    "On emulated GPUs and CPUs: how many ms host, front end and step take for a batch of 16; "
    "repeat the flag for several cases.",
)
_TEXT_LEN = flags.DEFINE_integer("text_len", 200, "Tokens of a text.", lower_bound=1)
_MEL_FRAMES = flags.DEFINE_integer(
    "mel_frames", 400, "Spectrum frames of an element.", lower_bound=1
)
_STEP_MB = flags.DEFINE_float(
    "step_mb", 8, "Memory that the emulated step takes for each element of a batch, in MB."
)
_NUM_STEPS = flags.DEFINE_integer("num_steps", 20, "Steps of each round.", lower_bound=2)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Alternating rounds.", lower_bound=1)
_SLOTS = flags.DEFINE_integer("slots", 4, "Slots of our strategy.", lower_bound=2)
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
    comparisons: list[Comparison] = []
    with (
        command.exit_on(OSError, ValueError),
        command.writable({"json": _JSON.value, "plot": _PLOT.value}),
    ):
        sizes, cases = _batch_sizes(), [part_times(text.split(",")) for text in _PART_MS.value]
        ways = readings.parsed(workload_flags.READING.value)
        fixed_ms = fixed_times(workload_flags.FIXED_MS.value)
        _check_plot()
        # TensorFlow logs every strategy that is made, at every round.
        tf.get_logger().setLevel(logging.WARNING)
        devices = _start_devices()
        setting = Setting(
            devices.data_device,
            devices.model_device,
            slots=_SLOTS.value,
            host_slowdown=_HOST_SLOWDOWN.value,
            shares=command.shares(),
        )
        workloads = _workloads(sizes, cases, fixed_ms, setting)
        try:
            _compare(workloads, ways, setting, comparisons)
        finally:  # a run interrupted after an hour still shows an hour's figures
            _show(comparisons, setting)
    sys.exit(0 if any(c.step_ms(OURS) for c in comparisons) else 1)


def _workloads(sizes, cases, fixed_ms, setting) -> list[list[Workload]]:
    """For each case, the work at each batch size."""
    real = "GPU" in setting.model_devices[0] and not emulation.active()
    return [
        [
            Workload(
                batch_size=size,
                text_len=_TEXT_LEN.value,
                mel_frames=_MEL_FRAMES.value,
                part_ms=case,
                fixed_ms=fixed_ms,
                step_mb=0 if real else _STEP_MB.value,
            )
            for size in sizes
        ]
        for case in ([None] if real else cases)
    ]


def _compare(workloads, ways, setting, comparisons):
    memory = total_memory(setting.model_devices[0])
    memory_mb = memory and memory / (1 << 20)
    for of_case in workloads:
        without, case_comparisons = set(), []
        for workload in of_case:
            compared = compare_at(
                workload,
                setting,
                steps=_NUM_STEPS.value,
                rounds=_ROUNDS.value,
                without=without,
                readings=ways,
            )
            # What did not fit will not fit with larger batches either.
            without |= {row.name for row in compared.rows if row.problem == "does not fit"}
            case_comparisons.append(compared)
            comparisons.append(compared)
            print(report.table(compared) + "\n", flush=True)
        print(report.verdict(case_comparisons))
        print(report.recommendation(case_comparisons, setting.slots, memory_mb) + "\n", flush=True)


def _show(comparisons, setting):
    if not comparisons:
        return
    print(report.summary(comparisons), flush=True)
    for name, size in report.first_that_do_not_fit(comparisons).items():
        print(f"{name}: batch size {size} is the first that does not fit")
    if _JSON.value:
        figures = report.as_json(comparisons, setting, bool(emulation.active()))
        Path(_JSON.value).write_text(json.dumps(figures, indent=1) + "\n")
    if _PLOT.value and _PLOT.value.endswith(".png"):
        plot.write_png(comparisons, _PLOT.value)
    elif _PLOT.value:
        Path(_PLOT.value).write_text(plot.page(comparisons, bool(emulation.active())))


def _check_plot():
    path = _PLOT.value
    if path and not path.endswith((".png", ".html")):
        raise ValueError(f"--plot={path} must be a .png or an .html file")
    if path and path.endswith(".png") and not importlib.util.find_spec("matplotlib"):
        raise ValueError(
            f"--plot={path} needs matplotlib: pip install 'dual-device-strategy[demo]', or name "
            "an .html file"
        )


def _start_devices():
    """The devices of the flags, or an emulated pair where there are no GPUs."""
    flag = flags.FLAGS["emulate_gpus"]
    if flag.value is None and not emulation.active() and not tf.config.list_physical_devices("GPU"):
        flag.value = 2
    return command.start_devices(several=True)


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
    if table:
        print(table)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    command.run(main, arguments=True)
