"""What the commands of this package share: device flags, mistakes in one sentence, output files."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence

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


def run(main: Callable[[Sequence[str]], int | None]) -> None:
    """Parses the flags, logs at INFO unless --verbosity says otherwise, and runs `main`."""

    def main_with_log(arguments):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.INFO)
        return main(arguments)

    app.run(main_with_log)


@contextlib.contextmanager
def mistakes_told(*errors: type[Exception]) -> Iterator[None]:
    """Ends the command with the message of such an error and exit code 1, without a traceback."""
    try:
        yield
    except errors as error:
        print(f"{error}", file=sys.stderr)
        sys.exit(1)


def start_emulation_from_flags() -> None:
    """Starts the GPUs of --emulate_gpus, if any; raises what `emulation.start` raises."""
    if _EMULATE_GPUS.value is not None:
        emulation.start(gpus=_EMULATE_GPUS.value)


def start_emulation() -> None:
    """Starts the GPUs of --emulate_gpus, if any; a mistake in the flag ends the command."""
    with mistakes_told(ValueError, RuntimeError):
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
    with mistakes_told(ValueError, RuntimeError):
        return configure_devices_from_flags()
