"""An XTTS voice-cloning trainer on TensorFlow: any speech corpus in, a voice out.

Nothing in this package names a device. `dual_device_strategy.on_data_device` gets what should run
on the data device; everything else runs where the strategy's scope puts it.
"""


__version__ = "0.1.0"


class UserError(Exception):
    """A mistake that the user can fix; commands print it as one sentence and exit with code 1."""
