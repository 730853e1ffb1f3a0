"""PyTorch's .pth files, read and written without PyTorch.

    file = PthFile("model.pth")
    file.content                    # nested dictionaries; a tensor in them is not read yet
    file.array(tensor, "name")      # the tensor as an array, mapped from the file
    write_pth("model.pth", {"model": arrays_by_name, "step": 3})

A .pth file is a zip archive of a pickle and one uncompressed entry for each storage. Tensors are
memory-mapped, read-only: a file of 2 GB opens in a moment and takes no memory until it is used.
"""

import os
import struct
import zipfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from myxtts import UserError
from myxtts.xtts_v2.pickled import Call, Global, Outside, describe

_STORAGES = {
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "DoubleStorage": "<f8",
    "BFloat16Storage": tf.bfloat16.as_numpy_dtype,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_NAME_OF = {np.dtype(kind): name for name, kind in _STORAGES.items()}
# The first bytes of files that torch.save wrote before version 1.6: two pickled numbers, no
# archive.
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_POINTER = b"version https://git-lfs"
_ALIGNMENT = 64  # alignment of a storage in the file, as PyTorch writes it


class PthFile:
    """A .pth file opened for reading; the module's docstring shows its use. A file that is not as
    expected is a UserError."""

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        try:
            with open(self.path, "rb") as file:
                start = file.read(max(len(_LEGACY), len(_POINTER)))
            if start.startswith(_POINTER):
                raise UserError(
                    f"{self.path} is a pointer of Git LFS, not the file itself; fetch the file "
                    "with `git lfs pull` in the clone that it is from"
                )
            if start.startswith(_LEGACY):
                raise UserError(
                    f"{self.path} was saved by PyTorch before 1.6 or in its old format; load it in "
                    "PyTorch and save it again with torch.save"
                )
            self._entries, contents = self._opened()
            self._bytes = np.memmap(self.path, np.uint8, "r")
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error.strerror}") from None
        self.content = describe(contents, self.path)

    def array(self, tensor: object, name: str) -> np.ndarray:
        """`tensor`, found in `content`, as a read-only array in the type it was stored in."""
        if _is_call(tensor, "_rebuild_parameter") and tensor.arguments:
            tensor = tensor.arguments[0]
        if not _is_call(tensor, "_rebuild_tensor_v2"):
            found = str(tensor.function) if isinstance(tensor, Call) else type(tensor).__name__
            raise UserError(f"{name} in {self.path} is no plain tensor but a {found}")
        try:
            storage, offset, shape, strides = tensor.arguments[:4]
            return self._view(self._storage(storage), offset, shape, strides)
        except (ValueError, TypeError, KeyError, struct.error) as error:
            raise UserError(
                f"{name} in {self.path} cannot be read ({error.args[0]}); "
                "the file is damaged or not whole, copy or download it again"
            ) from None

    def _opened(self) -> tuple[dict, bytes]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                entries = {entry.filename: entry for entry in archive.infolist()}
                tables = [name for name in entries if name.split("/")[1:] == ["data.pkl"]]
                if len(tables) != 1:
                    raise UserError(f"{self.path} is a zip archive, but not one of torch.save")
                self._root = tables[0].split("/")[0]
                order = entries.get(f"{self._root}/byteorder")
                if order is not None and archive.read(order)[:8] == b"big":
                    raise UserError(
                        f"{self.path} was saved on a big-endian machine; load it in PyTorch on "
                        "another one and save it again"
                    )
                if entries[tables[0]].compress_type != zipfile.ZIP_STORED:
                    raise UserError(f"{self.path} is compressed, which torch.save never does")
                return entries, archive.read(tables[0])
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, struct.error):
            raise UserError(
                f"{self.path} is no .pth file, or its end is missing: it cannot be opened as a zip "
                "archive; copy or download it again"
            ) from None

    def _storage(self, storage: object) -> np.ndarray:
        kind, type_name, key, _, count = (
            storage.name if isinstance(storage, Outside) else (None,) * 5
        )
        if kind != "storage" or not isinstance(type_name, Global):
            raise ValueError("it has no storage")
        if type_name.module != "torch" or type_name.name not in _STORAGES:
            raise ValueError(f"its type is {type_name}")
        dtype = np.dtype(_STORAGES[type_name.name])
        entry = self._entries.get(f"{self._root}/data/{key}")
        if entry is None:
            raise ValueError(f"its entry data/{key} is missing")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size < count * dtype.itemsize:
            raise ValueError(f"its entry data/{key} is too short")
        names = self._bytes[entry.header_offset + 26 : entry.header_offset + 30].tobytes()
        start = entry.header_offset + 30 + sum(struct.unpack("<HH", names))
        if start + count * dtype.itemsize > len(self._bytes):
            raise ValueError(f"its entry data/{key} ends behind the file")
        return self._bytes[start : start + count * dtype.itemsize].view(dtype)

    @staticmethod
    def _view(storage, offset, shape, strides) -> np.ndarray:
        if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
            raise ValueError("its shape or strides are no such")
        last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
        if all(shape) and last >= len(storage):
            raise ValueError("it lies outside its storage")
        steps = [step * storage.itemsize for step in strides]
        start = storage[offset:] if all(shape) else storage[:0]
        return np.lib.stride_tricks.as_strided(start, shape, steps, writeable=False)


def _is_call(value: object, function: str) -> bool:
    return isinstance(value, Call) and value.function == Global("torch._utils", function)


def write_pth(path: str | os.PathLike, content: object) -> None:
    """Writes nested dictionaries, lists and tuples of arrays and plain values, as torch.save does;
    torch.load(weights_only=True) can read it. An incomplete file never appears under this name."""
    arrays: list[np.ndarray] = []
    pickled = b"\x80\x02" + b"".join(_written(content, arrays)) + b"."
    partial = f"{os.fspath(path)}.{os.getpid()}.partial"
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "archive/data.pkl", pickled)
        _add(archive, "archive/byteorder", b"little")
        for number, array in enumerate(arrays):
            _add(archive, f"archive/data/{number}", np.ascontiguousarray(array).tobytes())
        _add(archive, "archive/version", b"3\n")
    os.replace(partial, path)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name)  # dated 1980, so that equal contents give equal files
    start = archive.fp.tell() + 30 + len(name) + 4
    padding = -start % _ALIGNMENT
    entry.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    archive.writestr(entry, data)


def _written(value: object, arrays: list) -> Iterator[bytes]:
    """The pickle of `value`; its arrays are added to `arrays`."""
    if isinstance(value, dict):
        yield b"}("
        for key, item in value.items():
            yield from _written(key, arrays)
            yield from _written(item, arrays)
        yield b"u"
    elif isinstance(value, list | tuple):
        yield b"]("
        for item in value:
            yield from _written(item, arrays)
        yield b"e"
    elif isinstance(value, np.ndarray):
        yield from _tensor(value, arrays)
    elif value is None or isinstance(value, bool):
        yield {None: b"N", True: b"\x88", False: b"\x89"}[value]
    elif isinstance(value, int):
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        yield b"\x8a" + struct.pack("<B", len(data)) + data
    elif isinstance(value, float):
        yield b"G" + struct.pack(">d", value)
    elif isinstance(value, str):
        data = value.encode()
        yield b"X" + struct.pack("<I", len(data)) + data
    else:
        raise TypeError(f"a .pth file cannot hold a {type(value).__name__}")


def _tensor(array: np.ndarray, arrays: list) -> Iterator[bytes]:
    kind = _NAME_OF.get(array.dtype.newbyteorder("<"))
    if kind is None:
        raise TypeError(f"a .pth file cannot hold an array of {array.dtype}")
    strides = [int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim)]
    yield b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage" + f"ctorch\n{kind}\n".encode()
    yield from _written(str(len(arrays)), arrays)
    yield b"X\3\0\0\0cpu"
    arrays.append(array)
    for part in (array.size, b"tQ", 0, b"(", *array.shape, b"t(", *strides, b"t"):
        yield from [part] if isinstance(part, bytes) else _written(part, arrays)
    yield b"\x89ccollections\nOrderedDict\n)RtR"
