"""python -m dual_device_strategy.profile [--target=MODULE:FUNCTION] [FLAGS]

Measures each part of a pipeline alone and all of them together, prints a table and a verdict, and
writes a page, JSON and a Chrome trace where asked to.
"""

import contextlib
import importlib
import json
import sys
from pathlib import Path

import tensorflow as tf
from absl import flags

from dual_device_strategy import command, emulation, readings, workload_flags
from dual_device_strategy.profile import staged
from dual_device_strategy.profile.result import empty, profile
from dual_device_strategy.profile.staged import ProfileError
from dual_device_strategy.profile.tracing import write_trace
from dual_device_strategy.workload import Workload, fixed_times, part_times

flags.adopt_module_key_flags(command)
flags.adopt_module_key_flags(workload_flags)
_TARGET = flags.DEFINE_string(
    "target", None, "module:function returning (dataset, step); a built-in workload if left out."
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 16, "Batch size of the built-in workload.", lower_bound=1
)
_TEXT_LEN = flags.DEFINE_integer(
    "text_len", 200, "Tokens of a text in the built-in workload.", lower_bound=1
)
_MEL_FRAMES = flags.DEFINE_integer(
    "mel_frames", 400, "Spectrum frames of an element in the built-in workload.", lower_bound=1
)
_PART_MS = flags.DEFINE_list(
    "part_ms",
    ["10", "20", "20"],
    "On emulated GPUs and CPUs: how many ms host, front end and step of the built-in workload take "
    "for a batch of 16.",
)
_NUM_STEPS = flags.DEFINE_integer(
    "num_steps", 50, "Repetitions of each measurement.", lower_bound=2
)
_SLOTS = flags.DEFINE_integer("slots", 4, "Slots of the strategy.")
_HTML = flags.DEFINE_string("html", None, "Write a page to this file.")
_JSON = flags.DEFINE_string("json", None, "Write the figures to this file.")
_TRACE = flags.DEFINE_string(
    "trace", None, "Write a Chrome trace of a measured run to this file, for ui.perfetto.dev."
)


def main(_) -> None:
    with (
        command.exit_on(ValueError, OSError),
        command.writable({"html": _HTML.value, "json": _JSON.value, "trace": _TRACE.value}),
    ):
        ways = readings.parsed(workload_flags.READING.value)
        if command.shares() == "auto":
            raise ValueError(
                "--shares=auto chooses between epochs, and profile measures one: name the shares, "
                "such as --shares=0.7,0.3; whatif says which are the best."
            )
        sys.exit(_profile(command.start_devices(several=True), ways))


def _profile(devices, ways) -> int:
    with command.exit_on(ValueError, ProfileError):
        strategy = command.make_strategy(devices, slots=_SLOTS.value)
        with strategy.scope():
            dataset, step = _target() if _TARGET.value else _built_in(devices)
    result = empty(strategy)
    with contextlib.suppress(ProfileError):  # what was measured until then is shown
        profile(strategy, dataset, step, steps=_NUM_STEPS.value, readings=ways, result=result)
    print(result.table())
    if _JSON.value:
        Path(_JSON.value).write_text(json.dumps(result.as_json(), indent=1) + "\n")
    if _HTML.value:
        result.write_html(_HTML.value)
    if _TRACE.value and not result.failure:
        with command.exit_on(ProfileError):
            write_trace(strategy, dataset, step, _TRACE.value)
    if result.failure:
        print(result.failure, file=sys.stderr)
    return 1 if result.failure else 0


def _built_in(devices):
    first = devices.model[0] if devices.several else devices.model
    real = first.kind == "GPU" and not emulation.active()
    return Workload(
        _BATCH_SIZE.value,
        _TEXT_LEN.value,
        _MEL_FRAMES.value,
        part_ms=None if real else part_times(_PART_MS.value),
        fixed_ms=fixed_times(workload_flags.FIXED_MS.value),
    ).dataset_and_step()


def _target():
    sys.path.insert(0, str(Path.cwd()))  # as for `python -m`
    module, _, name = _TARGET.value.partition(":")
    with staged.as_profile_error(f"--target={_TARGET.value} cannot be used"):
        if not name:
            raise ValueError("write module:function")
        made = getattr(importlib.import_module(module), name)()
        if (
            not isinstance(made, tuple)
            or len(made) != 2
            or not isinstance(made[0], tf.data.Dataset)
            or not callable(made[1])
        ):
            raise ValueError(
                "the function must return a tf.data.Dataset and a step function, it returned "
                f"{made!r}"
            )
        return made


if __name__ == "__main__":
    command.run(main)
