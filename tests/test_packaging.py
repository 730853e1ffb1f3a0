"""What is installed: a wheel that trains outside the repository, commands, versions.

The wheel is unpacked into a directory and run from there, with the tests' own libraries, because
installing TensorFlow once more would take minutes.
"""

import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tensorflow as tf

import myxtts
from myxtts.__main__ import COMMANDS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The unpacked wheel; it is built from a copy, so that nothing is left in the repository."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    ignored = shutil.ignore_patterns(".*", "runs", "build", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, source, ignore=ignored)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    done = subprocess.run([*build, "-w", place, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = place.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(place / "installed")
    return place / "installed"


@pytest.mark.slow
def test_a_wheel_holds_what_the_packages_need_and_says_what_it_is(installed):
    (about,) = importlib.metadata.distributions(path=[str(installed)])
    assert about.version == myxtts.__version__
    assert about.metadata["Description-Content-Type"] == "text/markdown"
    assert about.metadata.get_payload().startswith("# ")
    assert {entry.name: entry.value for entry in about.entry_points}["myxtts"] == (
        "myxtts.__main__:main"
    )
    for name in ("dual_device_strategy", "myxtts"):
        assert (installed / name / "py.typed").exists()
        of_package = {path.relative_to(ROOT) for path in (ROOT / name).rglob("*") if path.is_file()}
        kept = {path for path in of_package if path.suffix not in (".pyc", ".md")}
        assert not [path for path in kept if not (installed / path).exists()]


# What `python -m myxtts` does, with a toy for a stage.
_TOY = """
import runpy
import myxtts
assert "/installed/" in myxtts.__file__
from myxtts.training.stages import STAGES
from tests.myxtts.training.toy_stage import Toy
STAGES["tokenizer"] = Toy
runpy.run_module("myxtts", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_a_wheel_trains_outside_the_repository_and_says_how_to_go_on(
    installed, run_python, spoken_directory, tmp_path
):
    done = run_python(
        [
            "-c", _TOY, "train", f"--train_data={spoken_directory}", "--stage=tokenizer",
            f"--model_config={ROOT}/tests/tiny_networks.json", "--batch_size=4", "--max_steps=2",
            "--steps_per_call=1", "--evaluation_clips=2", "--checkpoint_dir=run",
        ],
        cwd=tmp_path, PYTHONPATH=f"{installed}:{ROOT}", UNOPTIMIZED_GRAPHS="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done. Everything is in" in done.stdout
    first, *flags = (tmp_path / "run/flags.txt").read_text().splitlines()
    assert "python -m myxtts train --flagfile=THIS_FILE" in first and "--stage=tokenizer" in flags


def test_the_bounds_of_tensorflow_end_behind_the_release_the_tests_run_with():
    from packaging.specifiers import SpecifierSet

    text = (ROOT / "setup.py").read_text()
    (bounds,) = [line.split('"')[1] for line in text.splitlines() if line.startswith("TENSORFLOW")]
    assert tf.__version__ in SpecifierSet(bounds)
    upper = bounds.partition("<")[2]
    major, minor = (int(part) for part in upper.split("."))
    assert f"{major}.{minor - 1}" in (ROOT / "docs/conformance.md").read_text()
    assert "2.15.1" not in SpecifierSet(bounds) and upper not in SpecifierSet(bounds)


def test_the_commands_are_listed_and_a_misspelt_one_is_an_error(capsys, monkeypatch):
    from myxtts.__main__ import main

    monkeypatch.setattr(sys, "argv", ["myxtts"])
    main()
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)
    monkeypatch.setattr(sys, "argv", ["myxtts", "trian"])
    with pytest.raises(SystemExit, match=r"there is no command 'trian'; did you mean train\?"):
        main()
