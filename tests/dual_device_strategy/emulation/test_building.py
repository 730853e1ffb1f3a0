"""The library is built once for a TensorFlow, source and compiler, and found again."""

import concurrent.futures
import stat
import sys

import pytest
import tensorflow as tf

from dual_device_strategy import emulation
from dual_device_strategy.emulation import building


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A compiler that writes down what it is asked, in a fresh cache."""
    log = tmp_path / "log"
    script = tmp_path / "c++"
    script.write_text(
        f"""#!{sys.executable}
import pathlib, sys, time
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("a compiler")
else:
    with open({str(log)!r}, "a") as file:
        file.write(" ".join(arguments) + "\\n")
    time.sleep(0.02)
    pathlib.Path(arguments[arguments.index("-o") + 1]).write_text("built")
"""
    )
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda: log.read_text().splitlines() if log.exists() else []


def test_it_is_built_once(compiler, tmp_path):
    path = building.library()
    assert path.is_relative_to(tmp_path / "cache" / "dual_device_strategy" / "emulation")
    assert path.read_text() == "built"
    commands = compiler()
    assert any("plugin.cc" in command for command in commands)
    assert commands[-1].count(".o ") == len(commands) - 1
    assert building.library() == path
    assert compiler() == commands
    assert [entry.name for entry in path.parent.iterdir() if entry.name != "lock"] == [path.name]


def test_what_a_killed_build_left_behind_is_cleared_away(compiler):
    path = building.library()
    path.unlink()
    (path.parent / "tmpleft").mkdir()
    (path.parent / "tmpleft" / "plugin.o").write_text("half")
    assert building.library() == path and path.exists()
    assert not (path.parent / "tmpleft").exists()


def test_it_is_built_anew_for_another_tensorflow(compiler, monkeypatch):
    path = building.library()
    once = len(compiler())
    monkeypatch.setattr(tf, "__version__", "2.20.1")
    other = building.library()
    assert other != path and len(compiler()) == 2 * once


def test_it_is_built_anew_for_another_source(compiler, monkeypatch, tmp_path):
    path = building.library()
    source = tmp_path / "source"
    source.mkdir()
    for file in building._SOURCE.iterdir():
        if file.suffix in (".cc", ".h", ".inc"):
            (source / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(building, "_SOURCE", source)
    assert building.library() == path
    with open(source / "stream.cc", "a") as file:
        file.write("// changed\n")
    assert building.library() != path


def test_several_that_want_it_at_once_build_it_once(compiler):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        paths = {future.result() for future in [pool.submit(building.library) for _ in range(6)]}
    assert len(paths) == 1
    assert sum("-shared" in command for command in compiler()) == 1


def test_without_a_compiler_a_sentence_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"need a C\+\+ compiler, and none was found: install"):
        building.library()
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(RuntimeError, match="CXX=no-such-compiler -m64 was not found"):
        building.library()


def test_a_compiler_s_complaint_is_passed_on_and_nothing_is_kept(compiler, monkeypatch, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "plugin.cc").write_text("this is no C++\n")
    monkeypatch.setattr(building, "_SOURCE", source)
    monkeypatch.delenv("CXX")
    with pytest.raises(RuntimeError, match=r"(?s)could not be built.*plugin.cc.*error"):
        building.library()
    assert not list((tmp_path / "cache").rglob("*.so"))


@pytest.mark.parametrize("version", ["2.17.1", "2.22.0", "3.0.0"])
def test_other_versions_of_tensorflow_are_refused_in_a_sentence(monkeypatch, version):
    monkeypatch.setattr(tf, "__version__", version)
    with pytest.raises(RuntimeError, match=rf"TensorFlow 2.18 to 2.21, this is {version}: install"):
        building.library()


def test_processes_that_start_at_once_in_an_empty_cache_all_get_their_gpus(
    processes, compiler, tmp_path, monkeypatch
):
    """The compiler that writes down what it is asked takes the real library from the real cache."""
    with monkeypatch.context() as real:
        real.delenv("CXX")
        real.delenv("XDG_CACHE_HOME")
        library = building.library()
    script = tmp_path / "c++"
    script.write_text(
        script.read_text().replace(
            'write_text("built")', f"write_bytes(pathlib.Path({str(library)!r}).read_bytes())"
        )
    )
    code = (
        "import tensorflow as tf; from dual_device_strategy import emulation; emulation.start(); "
        "print(len(tf.config.list_logical_devices('GPU')))"
    )
    started = [processes.start(["-c", code]) for _ in range(3)]
    assert [process.communicate(timeout=240)[0].strip() for process in started] == ["2"] * 3
    assert len(list((tmp_path / "cache").rglob("*.so"))) == 1
    assert sum("-shared" in command for command in compiler()) == 1
    assert emulation.active()
