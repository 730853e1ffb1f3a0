"""Shares work among processes. Results come in order; memory does not grow with the number of
tasks.

A worker is `python -m MODULE SETTINGS` that answers one JSON line with another (see `serve`).
multiprocessing would do too, but its workers import the user's main script again (TensorFlow and
all), outlive a parent that was killed, and cannot tell which task brought a worker down.
"""

import collections
import contextlib
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[2]


class WorkerDied(Exception):
    """A process ended while it worked on this task, and so did the process of the second try."""


def default_workers() -> int:
    """One process for each core that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def in_order(
    module: str, settings: dict, tasks: Iterable[tuple[object, dict | None]], workers: int
) -> Iterator[tuple[object, dict | WorkerDied | None]]:
    """Yields (item, answer) for every (item, request), in the order of `tasks`.

    An item whose request is None is passed through with the answer None. No process starts before
    there is work. At most 32 items per worker are held at a time.
    """
    pool = _Pool(module, json.dumps(settings), workers)
    waiting: collections.deque = collections.deque()
    try:
        for item, request in tasks:
            waiting.append((item, None if request is None else pool.submit(request)))
            while waiting and (
                len(waiting) > 32 * workers or waiting[0][1] is None or waiting[0][1].done()
            ):
                yield _answer(*waiting.popleft())
        while waiting:
            yield _answer(*waiting.popleft())
    finally:
        pool.close()


def _answer(item, future):
    if future is None:
        return item, None
    try:
        return item, future.result()
    except WorkerDied as died:
        return item, died


class _Pool:
    def __init__(self, module: str, settings: str, workers: int):
        self._command = [sys.executable, "-m", module, settings]
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="corpus-worker")
        self._of_thread = threading.local()
        self._processes: list[subprocess.Popen] = []
        self._closed = False

    def submit(self, request: dict):
        return self._threads.submit(self._ask, request)

    def _start(self) -> subprocess.Popen:
        paths = [str(_PACKAGES), os.environ.get("PYTHONPATH", "")]
        one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # decoders print what rejected.tsv will say
            env={
                **os.environ,
                **one_thread,
                "PYTHONPATH": os.pathsep.join(p for p in paths if p),
            },
        )
        self._processes.append(process)
        return process

    def _ask(self, request: dict) -> dict:
        line = json.dumps(request).encode() + b"\n"
        for _ in range(2):
            process = getattr(self._of_thread, "process", None)
            if process is None:
                process = self._of_thread.process = self._start()
            try:
                process.stdin.write(line)
                process.stdin.flush()
                answer = process.stdout.readline()
            except (BrokenPipeError, ValueError):
                answer = b""
            if answer:
                result = json.loads(answer)
                if "failed" in result:
                    raise RuntimeError(f"in {' '.join(self._command[1:3])}:\n{result['failed']}")
                return result
            self._of_thread.process = None
            if self._closed:
                break
        raise WorkerDied

    def close(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        # A thread may still be about to read the end of file, so the pipes are closed only after
        # that.
        self._threads.shutdown(wait=True)
        for process in self._processes:
            with contextlib.suppress(BrokenPipeError):  # a request that will not be answered
                process.stdin.close()
            process.stdout.close()


def serve(answer: Callable[[dict], dict]) -> None:
    """The worker's side: answers requests until the parent closes the pipe or is gone."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    for line in sys.stdin.buffer:
        try:
            result = answer(json.loads(line))
        except Exception:
            result = {"failed": traceback.format_exc()}
        try:
            answers.write(json.dumps(result).encode() + b"\n")
            answers.flush()
        except BrokenPipeError:
            return
