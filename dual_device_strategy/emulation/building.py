"""Builds the library of the emulated GPUs on first use, and keeps it for later."""

import concurrent.futures
import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from absl import logging

try:
    import fcntl
except ImportError:  # not Linux
    fcntl = None

_SOURCE = Path(__file__).parent
_OPTIONS = ("-O2", "-fPIC", "-DNDEBUG", "-pthread")
_TENSORFLOWS = ((2, 18), (2, 21))  # the oldest and the newest that were tested


def library() -> Path:
    """The library built for this TensorFlow, source and compiler; builds it if need be."""
    _check_system()
    _check_tensorflow()
    compiler = _compiler()
    flags = tf.sysconfig.get_compile_flags()
    target = _cache() / _key(compiler, flags) / "libemulated_gpu.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent / "lock"):
            if not target.exists():  # another process may have built it meanwhile
                for stale in target.parent.glob("tmp*"):  # of a process that was killed
                    shutil.rmtree(stale)
                logging.info("Building the emulated GPUs in %s (once, some 15 s)", target.parent)
                _build(compiler, flags, target)
    return target


def _check_system() -> None:
    if fcntl is None or not sys.platform.startswith("linux"):
        raise RuntimeError(
            f"Emulated GPUs need Linux with Python's module fcntl, and this is {platform.system()} "
            f"{'without' if fcntl is None else 'with'} it: run on real GPUs or on logical CPUs."
        )


def _check_tensorflow() -> None:
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    oldest, newest = _TENSORFLOWS
    if not oldest <= version <= newest:
        raise RuntimeError(
            f"Emulated GPUs work with TensorFlow {oldest[0]}.{oldest[1]} to "
            f"{newest[0]}.{newest[1]}, this is {tf.__version__}: install one of those, "
            "or run without emulated GPUs."
        )


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "dual_device_strategy" / "emulation"


def _compiler() -> list[str]:
    """The command of the system's C++ compiler: $CXX, or else c++, g++ or clang++."""
    chosen = os.environ.get("CXX", "")
    for command in [shlex.split(chosen)] if chosen else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    missing = f"CXX={chosen} was not" if chosen else "none was"
    raise RuntimeError(
        f"Emulated GPUs need a C++ compiler, and {missing} found: install one "
        "(`apt install g++`, `dnf install gcc-c++`), or name it in CXX."
    )


def _key(compiler: list[str], flags: list[str]) -> str:
    """A name that is different for everything that could lead to a different library."""
    digest = hashlib.sha256()
    version = subprocess.run(
        [*compiler, "--version"], capture_output=True, text=True, check=True
    ).stdout
    for part in (
        tf.__version__,
        tf.version.GIT_VERSION,
        str(tf.sysconfig.get_build_info().get("is_cuda_build")),
        # Where TensorFlow is installed makes no difference.
        *(flag for flag in flags if not flag.startswith("-I")),
        *_OPTIONS,
        *compiler,
        version,
        platform.machine(),
    ):
        digest.update(f"{part}\n".encode())
    for path in sorted(_SOURCE.iterdir()):
        if path.suffix in (".cc", ".h", ".inc"):
            digest.update(path.name.encode() + b"\n" + path.read_bytes())
    return f"tensorflow-{tf.__version__}-{digest.hexdigest()[:16]}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, however we end
        yield


def _build(compiler: list[str], flags: list[str], target: Path) -> None:
    # Warnings from TensorFlow's own headers are of no use here.
    flags = [flag.replace("-I", "-isystem", 1) if flag.startswith("-I") else flag for flag in flags]
    with tempfile.TemporaryDirectory(dir=target.parent) as work:

        def compiled(source: Path) -> str:
            output = f"{work}/{source.stem}.o"
            _run([*compiler, *flags, *_OPTIONS, "-c", str(source), "-o", output])
            return output

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compiled, sorted(_SOURCE.glob("*.cc"))))
        built = f"{work}/{target.name}"
        tensorflow = [f"-L{tf.sysconfig.get_lib()}", "-l:libtensorflow_framework.so.2"]
        _run([*compiler, *_OPTIONS, "-shared", *objects, "-o", built, *tensorflow])
        os.replace(built, target)


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(
            f"The emulated GPUs could not be built: `{shlex.join(command)}` said\n{result.stderr}"
        )
