"""python -m dual_device_strategy.validate [FLAGS]

Checks a set-up in five sections: prerequisites, configuration, placement, transfers, pipeline.
With several data or model GPUs there is a section on transfers for each pair of them, and one on
training with all. Every line passes, fails with a remedy, or informs; the exit code is 0 only if
every check passed.

With --on_hardware --report=FILE it goes on with checks that need two real GPUs, including an hour's
run, and writes a report to send. With --emulate_gpus=2 that is a rehearsal.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf
from absl import flags

from dual_device_strategy import command
from dual_device_strategy.devices import Devices
from dual_device_strategy.validate import (
    configuration,
    on_hardware,
    pipeline,
    placement,
    prerequisites,
    several,
    transfer,
)
from dual_device_strategy.validate.hardware_report import HardwareReport
from dual_device_strategy.validate.report import Report

flags.adopt_module_key_flags(command)
_JSON = flags.DEFINE_string("json", None, "Write the report to this file as JSON as well.")


_ON_HARDWARE = flags.DEFINE_boolean(
    "on_hardware", False, "Also run what only two real GPUs can show; needs --report."
)
_REPORT = flags.DEFINE_string(
    "report", None, "Write what --on_hardware finds to this new file (Markdown), as it goes."
)
_MINUTES = flags.DEFINE_float(
    "minutes",
    None,
    "Length of the long run of --on_hardware; 60 if left out, some seconds in a rehearsal.",
    lower_bound=0.0,
)


def main(_) -> None:
    if _ON_HARDWARE.value != (_REPORT.value is not None):
        sys.exit("--on_hardware and --report=FILE go together: give both, or neither.")
    command.start_emulation()
    if _ON_HARDWARE.value:
        with command.exit_on(ValueError):
            sys.exit(_validate_on_hardware(_REPORT.value))
    report, _ = validate()
    if _JSON.value:
        try:
            Path(_JSON.value).write_text(json.dumps(report.as_json(), indent=2))
        except OSError as error:
            sys.exit(
                f"--json={_JSON.value} cannot be written ({error.strerror}): name a file in a "
                "folder that exists."
            )
    sys.exit(1 if report.failed else 0)


def validate() -> tuple[Report, Devices | None]:
    """Runs the five sections with the devices of the flags, which are returned as well."""
    report = Report()
    devices = None
    with report.section("Prerequisites", "pip install 'dual-device-strategy[gpu]'"):
        prerequisites.check(report)
    with report.section("Configuration", "name GPUs that exist, or leave them out"):
        devices = configuration.check(
            report, lambda: command.configure_devices_from_flags(several=not _ON_HARDWARE.value)
        )
    if devices and devices.several:
        _validate_several(report, devices)
    elif devices:
        for title, section in (
            ("Model on the model device", placement),
            ("Transfer", transfer),
            ("Pipeline", pipeline),
        ):
            with report.section(title, "do what it says, or report it with the log above"):
                section.check(report, devices)
    print(report.summary())
    return report, devices


def _validate_several(report: Report, devices: Devices) -> None:
    remedy = "do what it says, or report it with the log above"
    for pair in several.pairs(devices):
        with report.section(f"Transfer {pair.data_device} -> {pair.model_device}", remedy):
            transfer.check(report, pair)
    with report.section("All devices", remedy):
        several.check(report, devices, command.make_strategy(devices))


def _validate_on_hardware(path: str) -> int:
    """Returns the exit code; raises ValueError if there is nothing to validate or to write to."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus < 2:
        raise ValueError(
            f"--on_hardware needs two GPUs and TensorFlow sees {gpus or 'none'}: run it where "
            "there are two, or rehearse it with --emulate_gpus=2."
        )
    written = HardwareReport(path, on_hardware.title())
    sections, devices = validate()
    if devices:
        on_hardware.run(written, sections, devices, on_hardware.Budget.of(_MINUTES.value))
    else:
        with written.check("Configuration", "two devices") as finding:
            finding.found(sections.lines[-1].remedy, False)
    print(f"{written.close()} The report is in {path}.")
    return 1 if written.unexpected else 0


if __name__ == "__main__":
    command.run(main)
