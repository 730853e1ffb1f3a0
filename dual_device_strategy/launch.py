"""python -m dual_device_strategy.launch --workers=2 [FLAGS] [--] PROGRAM [ARGUMENTS]

Starts a program several times on this machine, as the workers of one training:

  python -m dual_device_strategy.launch --workers=2 program.py --its_flag=3
  python -m dual_device_strategy.launch --workers=2 -- -m package.module

PROGRAM and ARGUMENTS are what you would write after `python`.  Each worker finds the others in
TF_CONFIG, on free ports.  Its output is shown with its number in front, "[1] ...", a progress bar
only in its last state.  If one fails, the others are ended, one sentence names the first that
failed, and this command exits with its code (128 + N after signal N).  When one is done, the others
may finish.  SIGINT and SIGTERM go to all workers, so that they can save; a second one kills them.
No worker outlives this command, on Linux not even if it is killed by SIGKILL.

This command uses no device.  On several machines it is not needed: start the program once on each.

  SLURM: give the strategy cluster_resolver=tf.distribute.cluster_resolver.SlurmClusterResolver()
  in the program, then:

      srun --ntasks=2 --ntasks-per-node=1 --gpus-per-task=2 --kill-on-bad-exit=1 python PROGRAM

  Kubernetes: a StatefulSet of two pods with a headless service named "train", port 2222.  In the
  container, where the pod's name ends with its number:

      command: ["sh", "-c"]
      args:
      - >-
        TF_CONFIG='{"cluster": {"worker": ["train-0.train:2222", "train-1.train:2222"]},
        "task": {"type": "worker", "index": '${HOSTNAME##*-}'}}'
        exec python PROGRAM

  ssh, on each machine with its own index:

      ssh one 'TF_CONFIG="{\\"cluster\\": {\\"worker\\": [\\"one:2222\\", \\"two:2222\\"]},
               \\"task\\": {\\"type\\": \\"worker\\", \\"index\\": 0}}" python PROGRAM' &
      ssh two '... \\"index\\": 1}}" python PROGRAM'

There nothing ends the others when one fails, but they notice it within seconds.
"""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from dual_device_strategy import command

_WORKERS = flags.DEFINE_integer("workers", None, "How many workers to start, at least 1.")
_GPUS_PER_WORKER = flags.DEFINE_integer(
    "gpus_per_worker",
    None,
    "Number of GPUs for each worker alone, by CUDA_VISIBLE_DEVICES; if left out, every worker sees "
    "all GPUs.",
)
_GRACE_SECONDS = flags.DEFINE_float(
    "grace_seconds", 60.0, "How long workers may take to save and end before they are killed."
)
_FINISH_SECONDS = flags.DEFINE_float(
    "finish_seconds", 600.0, "How long the others may go on after the first worker is done."
)

# Runs before the program, in its process.  Not as a preexec_fn: this process has threads.
_END_WITH_LAUNCHER = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit("the launcher is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class _Worker:
    """One process of the program, in a process group of its own."""

    def __init__(self, index: int, program: Sequence[str], environment: dict[str, str]):
        self.index = index
        leash = [sys.executable, "-I", "-S", "-c", _END_WITH_LAUNCHER, str(os.getpid())]
        self.process = subprocess.Popen(
            [*leash, sys.executable, *program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,  # Ctrl-C in a terminal reaches it through the launcher only
        )
        self._readers = [
            threading.Thread(target=self._copy_lines, args=streams, daemon=True)
            for streams in ((self.process.stdout, sys.stdout), (self.process.stderr, sys.stderr))
        ]

    def _copy_lines(self, source, target) -> None:
        for line in source:
            shown = line.rstrip(b"\r\n").rpartition(b"\r")[2].decode(errors="replace")
            target.write(f"[{self.index}] {shown}\n")
            target.flush()

    def follow(self, events: queue.SimpleQueue) -> None:
        """Shows the worker's output; puts the worker into `events` when it has ended."""
        for reader in self._readers:
            reader.start()

        def wait():
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            self.send(signal.SIGKILL)  # what it has started itself; its group exists until now
            self.process.wait()
            for reader in self._readers:
                reader.join(5)
            events.put(self)

        threading.Thread(target=wait, daemon=True).start()

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(self.process.pid, number)

    @property
    def how_it_ended(self) -> str:
        code = self.process.returncode
        if code < 0:
            return f"worker {self.index} was killed by {signal.Signals(-code).name}"
        return f"worker {self.index} ended with exit code {code}"

    @property
    def exit_code(self) -> int:
        code = self.process.returncode
        return 128 - code if code < 0 else code


def launch(
    program: Sequence[str],
    workers: int,
    *,
    gpus_per_worker: int | None = None,
    grace_seconds: float = 60.0,
    finish_seconds: float = 600.0,
) -> int:
    """Runs `python PROGRAM...` as `workers` local workers; returns the exit code of them all.

    Call it from the main thread: it handles SIGINT, SIGTERM and SIGHUP until the last has ended.

    Raises:
      ValueError: for a mistake, before anything is started.
    """
    _check(program, workers)
    gpus = _gpus_of_each(workers, gpus_per_worker)
    sockets = [_held_port() for _ in range(workers)]
    addresses = [f"127.0.0.1:{held.getsockname()[1]}" for held in sockets]
    events: queue.SimpleQueue = queue.SimpleQueue()
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, lambda number, _: events.put(number)) for n in handled}
    started: list[_Worker] = []
    try:
        for index in range(workers):
            task = {"type": "worker", "index": index}
            config = json.dumps({"cluster": {"worker": addresses}, "task": task})
            started.append(_Worker(index, program, {"TF_CONFIG": config, **gpus[index]}))
        for worker in started:
            worker.follow(events)
        return _wait(started, events, grace_seconds, finish_seconds)
    finally:
        for worker in started:
            if worker.process.returncode is None:
                worker.send(signal.SIGKILL)
        for number, handler in before.items():
            signal.signal(number, handler)
        for held in sockets:
            held.close()


def _wait(workers, events, grace_seconds, finish_seconds) -> int:
    left = set(workers)
    first_failed = signalled = deadline = None

    def send_all(number):
        for worker in left:
            worker.send(number)

    while left:
        try:
            patience = None if deadline is None else max(0.0, deadline - time.monotonic())
            event = events.get(timeout=patience)
        except queue.Empty:
            names = ", ".join(str(worker.index) for worker in sorted(left, key=lambda w: w.index))
            _say(f"still running, and now killed: worker {names}")
            send_all(signal.SIGKILL)
            deadline = None
            continue
        if not isinstance(event, _Worker):
            _say(
                f"{signal.Signals(event).name}: {'killing' if signalled else 'ending'} all workers"
            )
            send_all(signal.SIGKILL if signalled else event)
            deadline, signalled = time.monotonic() + grace_seconds, event
            continue
        left.remove(event)
        if event.exit_code and first_failed is None:
            first_failed = event
            if not signalled:
                _say(f"{event.how_it_ended}{'; the others are ended' if left else ''}")
                send_all(signal.SIGTERM)
                deadline = time.monotonic() + grace_seconds
        elif deadline is None:
            deadline = time.monotonic() + finish_seconds
    return first_failed.exit_code if first_failed else 0


def _say(sentence: str) -> None:
    print(f"launch: {sentence}", file=sys.stderr, flush=True)


def _check(program, workers) -> None:
    if workers is None or workers < 1:
        raise ValueError(
            f"--workers must be a whole number of at least 1, got {workers}: write "
            "python -m dual_device_strategy.launch --workers=2 program.py"
        )
    if not program:
        raise ValueError(
            "no program was named: write what follows `python`, such as "
            f"python -m dual_device_strategy.launch --workers={workers} program.py"
        )
    if not program[0].startswith("-") and not Path(program[0]).exists():
        raise ValueError(f"the program {program[0]} does not exist: name a Python file")
    if "TF_CONFIG" in os.environ:
        raise ValueError(
            "TF_CONFIG is set, so this is one worker of a cluster already: start the program "
            "itself here, or unset TF_CONFIG to start workers on this machine"
        )


def _gpus_of_each(workers: int, each: int | None) -> list[dict[str, str]]:
    if each is None:
        return [{}] * workers
    if each < 0:
        raise ValueError(f"--gpus_per_worker={each} is not a number of GPUs: give 0 or more")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = list(map(str, range(workers * each))) if visible is None else visible.split(",")
    if len(gpus) < workers * each:
        raise ValueError(
            f"--workers={workers} with --gpus_per_worker={each} need {workers * each} GPUs, but "
            f"CUDA_VISIBLE_DEVICES={visible} names {len(gpus)}: name more, or ask for fewer"
        )
    return [
        {"CUDA_VISIBLE_DEVICES": ",".join(gpus[i * each : (i + 1) * each]) or "-1"}
        for i in range(workers)
    ]


def _held_port() -> socket.socket:
    """A free port, bound as long as the socket is open, so that no other program is given it.

    It does not listen, so the worker, whose server reuses addresses, may.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def _own_arguments(argv: Sequence[str]) -> list[str]:
    """`argv` up to the program, whose flags (--help!) are not this command's."""
    own, values = [argv[0]], 0
    for argument in argv[1:]:
        if values:
            values -= 1
        elif argument == "--" or not argument.startswith("-"):
            break
        else:
            name = argument.lstrip("-")
            values = int(name in flags.FLAGS and not flags.FLAGS[name].boolean)
        own.append(argument)
    return own


def main(_) -> int:
    program = sys.argv[len(_own_arguments(sys.argv)) :]
    with command.exit_on(ValueError, OSError):
        return launch(
            program[1:] if program[:1] == ["--"] else program,
            _WORKERS.value,
            gpus_per_worker=_GPUS_PER_WORKER.value,
            grace_seconds=_GRACE_SECONDS.value,
            finish_seconds=_FINISH_SECONDS.value,
        )


if __name__ == "__main__":
    command.run(main, argv=_own_arguments(sys.argv))
