"""Processes that begin with TensorFlow and Keras imported, for tests that need one of their own.

A server imports them once, and what else takes long (5 s of a core), and starts nothing; each
process is forked from it, so its devices, threads and environment are its own and it costs what it
does, not what it imports.

    processes = WarmProcesses()
    done = processes.run(["-c", "print(1)"], timeout=60, env={...})     # as subprocess.run
    child = processes.start(["train.py", "--epochs=1"], cwd=place)      # as subprocess.Popen

A process ends as the interpreter ends it: exit handlers, threads and destructors run. The
project's own modules are never in the server, so a process sees them as they are on disk, and
reads the environment when it imports them. What is not as in a new interpreter: third-party
modules are there already, and what they read from the environment was read by the server.

With UNOPTIMIZED_GRAPHS=1 in its environment a process runs graphs as they were traced, which takes
a fifth less where most of the time is tracing.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

_LIMIT = 1 << 18


class WarmProcess:
    """One process of the server; its output goes to files that anybody may read meanwhile."""

    def __init__(self, pid: int, ended: socket.socket, out, err, arguments: list[str]):
        self.pid = pid
        self.args = arguments
        self.returncode: int | None = None
        self._ended, self._out, self._err = ended, out, err

    def poll(self) -> int | None:
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        if self._wait(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        return self.stdout, self.stderr

    @property
    def stdout(self) -> str:
        return Path(self._out.name).read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return Path(self._err.name).read_text(errors="replace")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._ended.settimeout(timeout)
            try:
                said = self._ended.recv(64)
            except (BlockingIOError, TimeoutError):
                return None
            assert said, "the server of warm processes died"
            self.returncode = int(said)
            self._ended.close()
        return self.returncode


class WarmProcesses:
    """The server, started when the first process is."""

    def __init__(self):
        self._server: subprocess.Popen | None = None
        self._line: socket.socket | None = None

    def start(self, arguments, *, cwd=None, env=None) -> WarmProcess:
        """Runs `-c CODE`, `-m MODULE` or a script, with its arguments, like a new interpreter."""
        if self._server is None:
            self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * _LIMIT)
                self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _LIMIT)
                self._server = subprocess.Popen(
                    [sys.executable, __file__, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        arguments = [str(argument) for argument in arguments]
        request = {
            "arguments": arguments,
            "cwd": str(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
        }
        ours, theirs = socket.socketpair()
        out, err = (tempfile.NamedTemporaryFile(prefix="warm-") for _ in "12")  # noqa: SIM115
        with theirs:
            message = json.dumps(request).encode()
            assert len(message) < _LIMIT, "too long for one message"
            fds = [theirs.fileno(), out.fileno(), err.fileno()]
            socket.send_fds(self._line, [message], fds)
        ours.settimeout(300)  # the first waits for the server's imports
        pid = int(ours.recv(16))
        return WarmProcess(pid, ours, out=out, err=err, arguments=arguments)

    def run(self, arguments, *, timeout=None, cwd=None, env=None) -> subprocess.CompletedProcess:
        process = self.start(arguments, cwd=cwd, env=env)
        try:
            out, err = process.communicate(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def close(self) -> None:
        """Processes that still run are left alone."""
        if self._server:
            self._line.close()
            self._server.wait()
            self._server = None


def _serve(line: socket.socket) -> dict:
    """Returns in each process that is to run something, never in the server."""
    import keras  # noqa: F401
    import librosa.core.audio  # librosa alone imports none of its modules, nor numba
    import librosa.effects
    import librosa.feature.spectral
    import librosa.filters  # noqa: F401
    import num2words  # noqa: F401
    import soundfile  # noqa: F401
    import soxr  # noqa: F401
    import tensorboard.compat.proto.event_pb2  # noqa: F401
    import tensorflow  # noqa: F401

    gc.freeze()  # or a process would copy every page of it when it collects its garbage
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        message, fds, _, _ = socket.recv_fds(line, _LIMIT, 3)
        if not message:
            os._exit(0)
        if not os.fork():
            line.close()
            _watch_or_return(fds)
            return json.loads(message)
        for fd in fds:
            os.close(fd)


def _reap(*_) -> None:
    """Also adds the time of the processes that ended to the server's, and so to pytest's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch_or_return(fds: list[int]) -> None:
    """Forks once more: the parent waits and tells how the child ended; the child returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)  # until its id is told
        os.close(read)
        os.dup2(fds[1], 1)
        os.dup2(fds[2], 2)
        for fd in fds:
            os.close(fd)
        return
    answers = socket.socket(fileno=fds[0])
    answers.send(f"{child:<16d}".encode())
    os.close(read)
    os.close(write)
    _, status = os.waitpid(child, 0)
    answers.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(request: dict) -> None:
    """What a new interpreter would be before its first line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if os.environ.get("UNOPTIMIZED_GRAPHS"):
        import tensorflow as tf

        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    sys.path[0:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))


def _run(arguments: list[str]) -> None:
    import runpy
    import types

    kind, rest = arguments[0], arguments[1:]
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(kind).resolve().parent))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    _request = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(_request)
    _run(_request["arguments"])
