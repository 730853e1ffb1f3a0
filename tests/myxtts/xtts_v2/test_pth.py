"""Files of PyTorch are read without PyTorch, and nothing in them is executed."""

import collections
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.xtts_v2.pth import PthFile, write_pth

MADE_BY_TORCH = Path(__file__).parent / "torch_made.pth"


@pytest.fixture(scope="module")
def torch_file():
    return PthFile(MADE_BY_TORCH)


def zipped(path, pickled, **entries):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, data in entries.items():
            archive.writestr(f"archive/{name}", data)
    return path


@pytest.mark.parametrize(
    "name, expected",
    [
        ("whole", np.arange(24.0).reshape(4, 6)),
        ("transposed", np.arange(24.0).reshape(4, 6).T),
        ("middle", [[8, 9, 10], [14, 15, 16]]),
        ("every_other", np.arange(1.0, 24, 2)),
        ("expanded", np.full([3, 2], 7.0)),
        ("parameter", [0, 1, 2]),
        ("half", np.arange(24.0)),
        ("bfloat16", np.arange(24.0)),
        ("double", np.arange(24.0)),
        ("counted", 5),
        ("empty", np.zeros([0, 3])),
        ("flags", [True, False]),
    ],
)
def test_tensors_that_torch_wrote_are_read(torch_file, name, expected):
    array = torch_file.array(torch_file.content["model"][name], name)
    assert array.shape == np.shape(expected)
    np.testing.assert_array_equal(array.astype(np.float64), expected)


def test_objects_of_other_packages_are_inert_and_plain_values_are_themselves(torch_file):
    assert str(torch_file.content["config"].function) == "TTS.tts.configs.xtts_config.XttsConfig"
    assert torch_file.content["step"] == 1000
    with pytest.raises(UserError, match=r"config in .* is no plain tensor but a TTS"):
        torch_file.array(torch_file.content["config"], "config")


def test_arrays_come_from_the_file_and_cannot_be_changed(torch_file):
    array = torch_file.array(torch_file.content["model"]["whole"], "whole")
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_what_is_written_is_read_back_equal(tmp_path):
    content = {
        "model": {
            "half": np.arange(5, dtype=np.float16),
            "brain": np.arange(5).astype(tf.bfloat16.as_numpy_dtype),
            "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
            "counted": np.array(7),
            "empty": np.zeros([0, 2], np.float32),
        },
        "plain": {"a": None, "b": True, "c": -(2**40), "d": 0.1, "e": "ü", "f": [False, 128]},
    }
    write_pth(tmp_path / "a.pth", content)
    file = PthFile(tmp_path / "a.pth")
    assert file.content["plain"] == content["plain"]
    for name, wanted in content["model"].items():
        found = file.array(file.content["model"][name], name)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
        assert found.ctypes.data % 64 == 0 or not found.size
    assert os.listdir(tmp_path) == ["a.pth"]


class Attack:
    def __init__(self, function, *arguments):
        self.made = function, arguments

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize(
    "function, named",
    [
        (os.system, "posix.system"),
        (os.makedirs, "os.makedirs"),
        (eval, "builtins.eval"),
        (getattr, "builtins.getattr"),
        (__import__, "builtins.__import__"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_global_of_another_package_refuses_the_file_by_its_name(
    tmp_path, function, named, protocol
):
    mark = tmp_path / "executed"
    argument = str(mark) if function is os.makedirs else f"touch {mark}"
    path = zipped(tmp_path / "a.pth", pickle.dumps({"x": Attack(function, argument)}, protocol))
    named = named.replace("builtins", "__builtin__") if protocol == 2 else named
    with pytest.raises(UserError, match=f"asks for {named},"):
        PthFile(path)
    assert not mark.exists()


def test_a_global_of_an_allowed_package_is_not_imported_or_called(tmp_path):
    # numpy.load would complain of a file that does not exist.
    path = zipped(tmp_path / "a.pth", pickle.dumps({"x": Attack(np.load, "no such file")}, 2))
    assert PthFile(path).content["x"].arguments == ("no such file",)


def test_state_and_items_of_inert_objects_change_nothing(tmp_path):
    counted = collections.Counter("abca")
    ordered = collections.OrderedDict(a=1)
    ordered.remark = "metadata, as torch has it"
    path = zipped(tmp_path / "a.pth", pickle.dumps([counted, ordered, {1, 2}], 2))
    inert, dictionary, _ = PthFile(path).content
    assert str(inert.function) == "collections.Counter"
    assert dictionary == {"a": 1} and type(dictionary) is dict


@pytest.mark.parametrize(
    "pickled, told",
    [
        (pickle.dumps({"a": 1}, 2)[:-3], "table of contents"),
        (b"\x80\x02R.", "table of contents"),
        (b"\x80\x02h\x07.", "table of contents"),
        (b"\x80\x02]]\x85s.", "table of contents"),
        (pickle.dumps(3, 0), "uses INT"),
        (b"\x80\x02\x82\x01.", "uses EXT1"),
        (b"", "table of contents"),
    ],
)
def test_a_damaged_pickle_is_refused_in_a_sentence(tmp_path, pickled, told):
    with pytest.raises(UserError, match=told):
        PthFile(zipped(tmp_path / "a.pth", pickled))


def test_a_file_that_is_cut_off_is_refused_whatever_is_missing(tmp_path):
    whole, path = MADE_BY_TORCH.read_bytes(), tmp_path / "a.pth"
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"a\.pth is no \.pth file, or its end is missing"):
            PthFile(path)


def test_a_pointer_of_git_lfs_is_refused_with_the_command_that_fetches_the_file(tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:10f92b55\nsize 1867929118\n"
    (tmp_path / "model.pth").write_text(pointer)
    with pytest.raises(UserError, match=r"model\.pth is a pointer of Git LFS.*`git lfs pull`"):
        PthFile(tmp_path / "model.pth")


def test_a_missing_or_short_storage_is_refused_by_the_name_of_its_tensor(tmp_path):
    write_pth(tmp_path / "a.pth", {"x": np.arange(4.0)})
    with zipfile.ZipFile(tmp_path / "a.pth") as archive:
        pickled = archive.read("archive/data.pkl")
    for entries, told in (({}, "data/0 is missing"), ({"data/0": b"short"}, "data/0 is too short")):
        file = PthFile(zipped(tmp_path / "b.pth", pickled, **entries))
        with pytest.raises(UserError, match=f"x in .*b.pth cannot be read .its entry {told}"):
            file.array(file.content["x"], "x")


@pytest.mark.parametrize("shape, strides, offset", [(4, 1, 1), (2, 4, 0), (2, -1, 3), (1, 1, -1)])
def test_a_tensor_outside_its_storage_is_refused(tmp_path, shape, strides, offset):
    write_pth(tmp_path / "a.pth", {"x": np.arange(4.0)})
    file = PthFile(tmp_path / "a.pth")
    storage = file.content["x"].arguments[0]
    file.content["x"].arguments = (storage, offset, (shape,), (strides,))
    with pytest.raises(UserError, match=r"x in .* cannot be read"):
        file.array(file.content["x"], "x")


def test_other_kinds_of_file_are_refused_by_what_they_are(tmp_path):
    path = tmp_path / "a.pth"
    path.write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2))
    with pytest.raises(UserError, match=r"PyTorch before 1\.6"):
        PthFile(path)
    with pytest.raises(UserError, match="big-endian"):
        PthFile(zipped(path, pickle.dumps({}, 2), byteorder="big"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no tensors")
    with pytest.raises(UserError, match=r"not one of torch\.save"):
        PthFile(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": "b" * 99}, 2))
    with pytest.raises(UserError, match="compressed"):
        PthFile(path)
    with pytest.raises(UserError, match="cannot be read"):
        PthFile(tmp_path / "missing.pth")


def test_numbers_of_any_size_are_written_as_torch_reads_them(tmp_path):
    # LONG1 is followed by its length and the number in two's complement.
    write_pth(tmp_path / "a.pth", {"n": 255})
    with zipfile.ZipFile(tmp_path / "a.pth") as archive:
        assert struct.pack("<BBh", 0x8A, 2, 255) in archive.read("archive/data.pkl")
        assert pickle.loads(archive.read("archive/data.pkl")) == {"n": 255}
