"""safetensors files: a JSON table of names, types, shapes and places, then the bytes."""

import json
import os
import struct

import numpy as np
import tensorflow as tf

from myxtts import UserError

_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": tf.bfloat16.as_numpy_dtype,
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}


def is_safetensors(path: str | os.PathLike) -> bool:
    """Whether a file is one, judged by its first bytes, not by its name."""
    with open(path, "rb") as file:
        start = file.read(9)
    return len(start) == 9 and start[8:] == b"{"


def read_safetensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """All tensors by name, mapped from the file; UserError names what cannot be read."""
    path = os.fspath(path)
    data = np.memmap(path, np.uint8, "r")
    (size,) = struct.unpack("<Q", data[:8].tobytes())
    try:
        if 8 + size > len(data):
            raise ValueError("it is longer than the file")
        table = json.loads(data[8 : 8 + size].tobytes())
    except ValueError as error:
        raise UserError(
            f"{path} is damaged or not whole: its table of contents cannot be read ({error}); "
            "copy or download it again"
        ) from None
    table.pop("__metadata__", None)
    return {name: _tensor(data[8 + size :], row, name, path) for name, row in table.items()}


def _tensor(data: np.ndarray, row: dict, name: str, path: str) -> np.ndarray:
    try:
        kind, shape, (begin, end) = row["dtype"], row["shape"], row["data_offsets"]
        dtype = np.dtype(_TYPES[kind])
        if not 0 <= begin <= end <= len(data):
            raise ValueError("its bytes lie outside the file")
        return data[begin:end].view(dtype).reshape(shape)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{name} in {path} cannot be read ({error}); the file is damaged or not whole, "
            "copy or download it again"
        ) from None
