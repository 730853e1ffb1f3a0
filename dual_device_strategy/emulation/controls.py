"""The library's C functions, see controls.h."""

import ctypes
from pathlib import Path


class Stats(ctypes.Structure):
    """EmulatedGpuStats of controls.h."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "compute_ns",
            "copy_ns",
            "bytes_in",
            "bytes_out",
            "bytes_pageable",
            "memory_live",
            "memory_peak",
            "memory_limit",
        )
    ]


class Controls:
    """The functions of one loaded library."""

    def __init__(self, path: Path):
        library = ctypes.CDLL(str(path))
        integer, pointer = ctypes.c_int, ctypes.c_void_p

        def function(name, result, arguments=()):
            bound = getattr(library, f"emulated_gpu_{name}")
            bound.restype, bound.argtypes = result, arguments
            return bound

        self._configure = function(
            "configure",
            None,
            [integer, ctypes.POINTER(ctypes.c_int64), *[ctypes.c_double] * 3, integer],
        )
        self._stats = function("stats", None, [integer, ctypes.POINTER(Stats)])
        self.set_memory_limit = function("set_memory_limit", None, [integer, ctypes.c_int64])
        self.begin_watch = function("begin_watch", pointer, [integer])
        self.watched_peak = function("watched_peak", ctypes.c_int64, [pointer])
        self.end_watch = function("end_watch", None, [pointer])
        self.register_with_tensorflow = function("register_with_tensorflow", integer)

    def configure(
        self,
        memory_limits: list[int],
        *,
        gbps: float,
        latency_us: float,
        pageable_gbps: float,
        peer_access: bool,
    ) -> None:
        limits = (ctypes.c_int64 * len(memory_limits))(*memory_limits)
        self._configure(
            len(memory_limits), limits, gbps, latency_us, pageable_gbps, int(peer_access)
        )

    def stats(self, gpu: int) -> Stats:
        stats = Stats()
        self._stats(gpu, ctypes.byref(stats))
        return stats
