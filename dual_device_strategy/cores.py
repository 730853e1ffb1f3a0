"""How many cores of the host this process may use."""

import os


def usable_cores() -> int:
    """The cores that the system lets this process use; all there are where it does not say."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1
