"""What the commands of this package share: device flags, mistakes in one sentence, output files."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from absl import app, flags, logging

from dual_device_strategy import emulation
from dual_device_strategy.devices import Devices, configure_devices

_DATA_GPU = flags.DEFINE_integer(
    "data_gpu",
    None,
    "Physical index of the GPU that prepares batches, as tf.config.list_physical_devices "
    "counts, not the logical number in a name such as GPU:0; chosen if left out.",
)
_MODEL_GPU = flags.DEFINE_integer(
    "model_gpu",
    None,
    "Physical index of the GPU that trains the model; chosen if left out: the card with "
    "more memory, then the faster one, else the lower index.",
)
_DATA_GPU_MEMORY_MB = flags.DEFINE_integer(
    "data_gpu_memory_mb", None, "Memory limit of the data GPU in MB; without it memory grows."
)
_MODEL_GPU_MEMORY_MB = flags.DEFINE_integer(
    "model_gpu_memory_mb", None, "Memory limit of the model GPU in MB; without it memory grows."
)
_EMULATE_GPUS = flags.DEFINE_integer(
    "emulate_gpus", None, "Number of GPUs to emulate, on a machine that has none."
)


HELP = ("--help", "-help", "-h", "-?", "--helpshort")


def run(
    main: Callable[[Sequence[str]], int | None],
    arguments: bool = False,
    argv: Sequence[str] | None = None,
) -> None:
    """Parses the flags and runs `main`; --help and mistakes end the program here.

    The help is that of the module in which `main` is: its docstring and its key flags, to which it
    adopts the device flags by `flags.adopt_module_key_flags(command)`.  It logs at INFO, unless
    --verbosity says otherwise.

    Args:
      main: gets the program's name and what is no flag.
      arguments: whether it takes any that are not flags.
      argv: where it is not the whole `sys.argv`.
    """

    def parse(argv):
        if any(argument in HELP for argument in argv[1:]):
            print(_help(main.__module__))
            sys.exit(0)
        with exit_on(flags.Error, ending="; --help lists the flags"):
            rest = flags.FLAGS(argv)
            if len(rest) > 1 and not arguments:
                raise flags.Error(f"{rest[1]!r} is not a flag")
        return rest

    def main_with_log(rest):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.INFO)
        return main(rest)

    app.run(main_with_log, argv=argv, flags_parser=parse)


def _help(module: str) -> str:
    # absl knows the module that runs as a program by the name of the program.
    name = sys.argv[0] if module == "__main__" else module
    key_flags = flags.FLAGS.get_key_flags_for_module(name)
    lines = [sys.modules[module].__doc__ or "", "Flags:"]
    for flag in sorted(key_flags, key=lambda flag: flag.name):
        default = "" if flag.default is None else f" (default: {flag.default_as_str})"
        lines.append(
            flags.text_wrap(
                f"--{flag.name}: {flag.help}{default}", indent="      ", firstline_indent="  "
            )
        )
    return "\n".join(lines)


@contextlib.contextmanager
def exit_on(*errors: type[Exception], ending: str = "") -> Iterator[None]:
    """Ends the command with the message of such an error and exit code 1, without a traceback."""
    try:
        yield
    except errors as error:
        print(f"{error}{ending}", file=sys.stderr)
        sys.exit(1)


def start_emulation_from_flags() -> None:
    """Starts the GPUs of --emulate_gpus, if any; raises what `emulation.start` raises."""
    if _EMULATE_GPUS.value is not None:
        emulation.start(gpus=_EMULATE_GPUS.value)


def start_emulation() -> None:
    """Starts the GPUs of --emulate_gpus, if any; a mistake in the flag ends the command."""
    with exit_on(ValueError, RuntimeError):
        start_emulation_from_flags()


def configure_devices_from_flags() -> Devices:
    """`configure_devices` with the flags' values; raises what that raises."""
    return configure_devices(
        _DATA_GPU.value,
        _MODEL_GPU.value,
        data_gpu_memory_mb=_DATA_GPU_MEMORY_MB.value,
        model_gpu_memory_mb=_MODEL_GPU_MEMORY_MB.value,
    )


def start_devices() -> Devices:
    """Starts the emulation if asked to, and configures the devices; a mistake ends the command."""
    start_emulation()
    with exit_on(ValueError, RuntimeError):
        return configure_devices_from_flags()


@contextlib.contextmanager
def writable(paths: dict[str, str | None]) -> Iterator[None]:
    """Makes sure that the files named (flag -> path) can be written, and what they hold stays.

    Files that were not there before, and got nothing, are not left behind.

    Raises:
      ValueError: naming the flag whose file cannot be written.
    """
    made = []
    for flag, path in paths.items():
        if not path:
            continue
        existed = Path(path).exists()
        try:
            with open(path, "a"):
                pass
        except OSError as error:
            _remove_empty(made)
            raise ValueError(
                f"--{flag}={path} cannot be written ({error.strerror}): name a file in a folder "
                "that exists and is yours to write to"
            ) from None
        if not existed:
            made.append(Path(path))
    try:
        yield
    finally:
        _remove_empty(made)


def _remove_empty(paths):
    for path in paths:
        if path.exists() and not path.stat().st_size:
            path.unlink()
