"""Shared by the commands of this package: device flags, errors in one sentence, output files."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tensorflow as tf
from absl import app, flags, logging

from dual_device_strategy import emulation
from dual_device_strategy.data_service import DataService
from dual_device_strategy.devices import Devices, configure_devices
from dual_device_strategy.emulation import quiet
from dual_device_strategy.flag_parsers import (
    EmulatedGpusParser,
    GpusParser,
    ListSerializer,
    SharesParser,
)
from dual_device_strategy.replicas import MirroredDataModelSplitStrategy
from dual_device_strategy.strategy import DataModelSplitStrategy

_DATA_GPU = flags.DEFINE(
    GpusParser(),
    "data_gpu",
    None,
    "Physical index of the GPU that prepares batches, as tf.config.list_physical_devices "
    "counts, not the logical number in a name such as GPU:0; chosen if left out. "
    "Several with commas: 6,7.",
    serializer=ListSerializer(),
)
_MODEL_GPU = flags.DEFINE(
    GpusParser(),
    "model_gpu",
    None,
    "Physical index of the GPU that trains the model; chosen if left out: the card with "
    "more memory, then the faster one, else the lower index. Several with commas: 0,1,2.",
    serializer=ListSerializer(),
)
_SHARES = flags.DEFINE(
    SharesParser(),
    "shares",
    None,
    "Share of the rows of each of several model GPUs, such as 0.7,0.3, or auto; a data GPU that "
    "is in --model_gpu too trains its share. All have the same if left out.",
    serializer=ListSerializer(),
)
_DATA_GPU_MEMORY_MB = flags.DEFINE_integer(
    "data_gpu_memory_mb", None, "Memory limit of the data GPU in MB; without it memory grows."
)
_MODEL_GPU_MEMORY_MB = flags.DEFINE_integer(
    "model_gpu_memory_mb", None, "Memory limit of the model GPU in MB; without it memory grows."
)
_EMULATE_GPUS = flags.DEFINE(
    EmulatedGpusParser(),
    "emulate_gpus",
    None,
    "Number of GPUs to emulate, on a machine that has none.",
    serializer=flags.ArgumentSerializer(),
)


HELP = ("--help", "-help", "-h", "-?", "--helpshort")


def run(
    main: Callable[[Sequence[str]], int | None],
    arguments: bool = False,
    argv: Sequence[str] | None = None,
) -> None:
    """Parses the flags and runs `main`; --help and mistakes end the program here.

    The help comes from `main`'s module: its docstring and its key flags.  The module adds the
    device flags to them with `flags.adopt_module_key_flags(command)`.  The program logs at INFO
    unless --verbosity is given.

    Args:
      main: gets the program's name and the arguments that are not flags.
      arguments: whether such arguments are allowed.
      argv: the command line, if it is not `sys.argv`.
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
    if _EMULATE_GPUS.value is not None and "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
        quiet.leave_out_missing_cuda()


def configure_devices_from_flags(several: bool = False, shares_needed: bool = True) -> Devices:
    """`configure_devices` with the flags' values; raises what that raises.

    Args:
      several: whether the command supports more than one data GPU and one model GPU.
      shares_needed: whether a GPU that both prepares and trains needs shares; it does not under
        TensorFlow's own strategies.
    """
    lists = any(isinstance(flag.value, tuple) for flag in (_DATA_GPU, _MODEL_GPU))
    if lists and not several:
        raise ValueError(
            f"{_asked()} names several GPUs, and this command uses one that prepares and one that "
            "trains: name one of each."
        )
    if _SHARES.value is not None and not lists:
        raise ValueError(
            f"--shares={ListSerializer().serialize(_SHARES.value)} was given, but there is one "
            "model GPU, which trains all rows: name several, such as --data_gpu=1 "
            "--model_gpu=0,1, or leave the shares out."
        )
    both = set(_listed(_DATA_GPU.value)) & set(_listed(_MODEL_GPU.value)) if lists else set()
    if both and shares_needed and _SHARES.value is None:
        raise ValueError(
            f"{_asked()}: GPU {min(both)} is to prepare and to train: give the shares of the rows "
            "as well, one for each of --model_gpu, such as --shares=0.7,0.3, or --shares=auto."
        )
    return configure_devices(
        _DATA_GPU.value,
        _MODEL_GPU.value,
        data_gpu_memory_mb=_DATA_GPU_MEMORY_MB.value,
        model_gpu_memory_mb=_MODEL_GPU_MEMORY_MB.value,
    )


def _listed(gpus) -> tuple[int, ...]:
    return gpus if isinstance(gpus, tuple) else () if gpus is None else (gpus,)


def _asked():
    given = {"data_gpu": _DATA_GPU.value, "model_gpu": _MODEL_GPU.value}
    return " ".join(
        f"--{name}={ListSerializer().serialize(value)}"
        for name, value in given.items()
        if value is not None
    )


def start_devices(several: bool = False) -> Devices:
    """Starts the emulation if asked to, and configures the devices; a mistake ends the command."""
    start_emulation()
    with exit_on(ValueError, RuntimeError):
        return configure_devices_from_flags(several)


def shares() -> tuple[float, ...] | str | None:
    """The value of --shares."""
    return _SHARES.value


def make_strategy(
    devices: Devices,
    *,
    slots: int | str = 4,
    warm_up: bool = False,
    data_service: DataService | None = None,
    weighs_rows: bool = False,
) -> tf.distribute.Strategy:
    """The strategy for these devices, one of each or several, with the flag's shares.

    `weighs_rows` is the argument of `MirroredDataModelSplitStrategy`.

    Raises:
      ValueError: if slots or shares do not fit.
    """
    options = {"slots": slots, "warm_up": warm_up, "data_service": data_service}
    if not devices.several:
        return DataModelSplitStrategy(devices, **options)
    return MirroredDataModelSplitStrategy(
        devices.data_device,
        devices.model_device,
        shares=_SHARES.value,
        weighs_rows=weighs_rows,
        **options,
    )


@contextlib.contextmanager
def writable(paths: dict[str, str | None]) -> Iterator[None]:
    """Makes sure that the files named (flag -> path) can be written, and keeps their contents.

    A new file that nothing was written to is removed.

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
