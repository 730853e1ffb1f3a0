"""TensorFlow's start-up messages, which say nothing about the command, are left out of stderr.

    start_up.quieten()
    import tensorflow
    ...                     # until its devices are configured
    start_up.as_usual()

Everything else on stderr goes through, even the last lines of a process that dies, because another
process passes them on. If the user has set TF_CPP_MIN_LOG_LEVEL, nothing is left out.
"""

import os
import subprocess
import sys

_NOISE = (
    b"All log messages before absl::InitializeLog() is called are written to STDERR",
    b"oneDNN custom operations are on",
    b"This TensorFlow binary is optimized to use available CPU instructions",
    b"To enable the following instructions:",
    b"Could not find cuda drivers on your machine",
    b"failed call to cuInit",
    b"Attempting to register factory for plugin",
    b"Unable to register cu",
)
_kept: list = []  # the stderr that was there, and the process that filters


def is_terminal() -> bool:
    """Whether a person reads stderr, also while its lines go through the other process."""
    return os.isatty(_kept[0]) if _kept else sys.stderr.isatty()


def quieten() -> None:
    """Leaves TensorFlow's start-up messages out from now on."""
    if _kept or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    sys.stderr.flush()
    # In a session of its own: Ctrl-C is for the command, which may have something to say then.
    filtering = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, start_new_session=True
    )
    _kept[:] = os.dup(2), filtering
    os.dup2(filtering.stdin.fileno(), 2)
    filtering.stdin.close()


def say_loading() -> None:
    """Says in a terminal that TensorFlow is being loaded, which takes seconds."""
    if is_terminal() and not any(one.strip("-")[:4] in ("h", "help") for one in sys.argv[1:]):
        print("loading TensorFlow", file=sys.stderr)


def as_usual() -> bool:
    """Lets everything through again, once what was written so far has been passed on. Returns
    whether anything was left out; nothing is where the user has set TF_CPP_MIN_LOG_LEVEL."""
    if not _kept:
        return False
    stderr, filtering = _kept
    _kept.clear()
    sys.stderr.flush()
    os.dup2(stderr, 2)
    os.close(stderr)
    filtering.wait()
    return True


def _filter() -> None:
    for line in sys.stdin.buffer:
        if not any(noise in line for noise in _NOISE):
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()


if __name__ == "__main__":
    _filter()
