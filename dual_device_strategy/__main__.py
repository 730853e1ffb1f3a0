"""Commands of dual_device_strategy:

  validate   checks a set-up: driver, devices, placement, transfers, overlap
  profile    shows where the time of a training step goes
  compare    runs the same work under this strategy and under others
  whatif     computes which devices should prepare and which train, up to many machines
  example    a short training, with the strategy and without
  launch     starts the workers of a training on this machine
  data_service  starts a dispatcher or a worker that prepares batches elsewhere

python -m dual_device_strategy COMMAND --help lists the flags of one; after `pip install` the same
is dual-device COMMAND --help.
"""

import runpy
import sys

from dual_device_strategy import command

_MODULES = {
    "validate": "dual_device_strategy.validate.__main__",
    "profile": "dual_device_strategy.profile.__main__",
    "compare": "dual_device_strategy.compare.__main__",
    "whatif": "dual_device_strategy.whatif.__main__",
    "example": "dual_device_strategy.example",
    "launch": "dual_device_strategy.launch",
    "data_service": "dual_device_strategy.data_service.__main__",
}


def main() -> None:
    """Runs the command that the first argument names, or lists the commands."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in command.HELP:
        print(__doc__)
    elif name in _MODULES:
        del sys.argv[1]
        runpy.run_module(_MODULES[name], run_name="__main__", alter_sys=True)
    else:
        sys.exit(f"{name!r} is not a command: it is one of {', '.join(_MODULES)}")


if __name__ == "__main__":
    main()
