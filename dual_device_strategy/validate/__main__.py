"""python -m dual_device_strategy.validate [FLAGS]

Proves a set-up in five sections: prerequisites, configuration, placement, transfers, pipeline.
Every line passes, fails with a remedy, or informs; the exit code is 0 only if every check passed.
"""

import json
import sys
from pathlib import Path

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

flags.adopt_module_key_flags(command)
_JSON = flags.DEFINE_string("json", None, "Write the report to this file as JSON as well.")


def main(_) -> None:
    command.start_emulation()
    report = validate()
    if _JSON.value:
        try:
            Path(_JSON.value).write_text(json.dumps(report.as_json(), indent=2))
        except OSError as error:
            sys.exit(
                f"--json={_JSON.value} cannot be written ({error.strerror}): name a file in a "
                "folder that exists."
            )
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
            with report.section(title, "do what it says, or report it with the log above"):
                section.check(report, devices)
    print(report.summary())
    return report


if __name__ == "__main__":
    command.run(main)
