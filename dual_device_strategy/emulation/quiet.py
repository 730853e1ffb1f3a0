"""Leaves one message of TensorFlow's out of a command's stderr.

    quiet.leave_out_missing_cuda()

With emulated GPUs a build for CUDA asks CUDA about each of them before it optimises a function, and
prints an error each time: hundreds of lines that say nothing about the command. Another process
passes all other lines of TensorFlow's on, so the last words of a process that dies are not lost.
What Python writes goes to the same place directly, so that bars are still drawn in a terminal.
Call it only if the user has not set TF_CPP_MIN_LOG_LEVEL.
"""

import atexit
import contextlib
import os
import subprocess
import sys

_NOISE = b"Failed to get device properties, error code"


def leave_out_missing_cuda() -> None:
    """Leaves the message out from now on, until this process ends."""
    sys.stderr.flush()
    stderr = os.dup(2)
    how = {"encoding": sys.stderr.encoding, "errors": sys.stderr.errors, "buffering": 1}
    # In a session of its own: Ctrl-C is for the command, which may have something to say then.
    passing_on = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, start_new_session=True
    )
    os.dup2(passing_on.stdin.fileno(), 2)
    passing_on.stdin.close()
    sys.stderr = os.fdopen(stderr, "w", closefd=False, **how)
    atexit.register(_pass_the_rest_on, stderr, passing_on)


def _pass_the_rest_on(stderr: int, passing_on: subprocess.Popen) -> None:
    """Waits for the lines on their way, so that they come before what the shell prints next."""
    sys.stderr.flush()
    os.dup2(stderr, 2)
    with contextlib.suppress(subprocess.TimeoutExpired):  # a child of this process has the pipe
        passing_on.wait(timeout=1)


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        if _NOISE not in line:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
