"""The command: sections in order, exit code 0 only if every check passed."""

import contextlib
import json
import sys

from absl import flags

from dual_device_strategy import command
from dual_device_strategy.validate import (
    configuration,
    pipeline,
    placement,
    prerequisites,
    transfer,
)
from dual_device_strategy.validate.report import Report

_JSON = flags.DEFINE_string("json", None, "Write the report to this file as JSON as well.")


def main(_) -> None:
    with contextlib.ExitStack() as files:
        if _JSON.value:
            with command.mistakes_told(OSError):
                file = files.enter_context(open(_JSON.value, "w"))
        command.start_emulation()
        report = validate()
        if _JSON.value:
            json.dump(report.as_json(), file, indent=2)
    sys.exit(1 if report.failed else 0)


def validate() -> Report:
    """Runs the five sections with the devices of the flags."""
    report = Report()
    devices = None
    with report.section("Prerequisites", "pip install 'dual-device-strategy[gpu]'"):
        prerequisites.check(report)
    with report.section("Configuration", "name GPUs that exist, or leave them out"):
        devices = configuration.check(report, command.configure_devices_from_flags)
    if devices:
        for title, section in (
            ("Model on the model device", placement),
            ("Transfer", transfer),
            ("Pipeline", pipeline),
        ):
            with report.section(title, "report this with the log above"):
                section.check(report, devices)
    print(report.summary())
    return report


if __name__ == "__main__":
    command.run(main)
