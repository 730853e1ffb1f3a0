"""The commands: one list of them, their help, and mistakes in one sentence."""

import importlib
import re
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parent.parent.parent / "setup.py"


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_package_lists_its_commands(run_python, arguments):
    done = run_python(["-m", "dual_device_strategy", *arguments])
    assert done.returncode == 0, done.stderr
    for command in ("validate", "profile", "compare", "whatif", "example", "launch"):
        assert re.search(rf"^  {command} +\S", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize(
    ("command", "own"),
    [
        (["dual_device_strategy.validate"], "--json"),
        (["dual_device_strategy.profile"], "--target"),
        (["dual_device_strategy.compare"], "--batch_sizes"),
        (["dual_device_strategy.example"], "--steps"),
        (["dual_device_strategy", "validate"], "--json"),
    ],
    ids=" ".join,
)
def test_help_shows_a_commands_flags_and_the_devices_and_exits_with_0(run_python, command, own):
    done = run_python(["-m", *command, "--help"])
    assert done.returncode == 0, done.stderr
    for flag in (own, "--data_gpu", "--model_gpu", "--data_gpu_memory_mb", "--emulate_gpus"):
        assert re.search(rf"^ +{re.escape(flag)}:", done.stdout, re.MULTILINE), flag
    assert "--logtostderr" not in done.stdout and "--verbosity" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["prove"], "'prove' is not a command: it is one of validate, profile,"),
        (["validate", "--gpu=1"], "Unknown command line flag 'gpu'; --help lists the flags"),
        (["validate", "--data_gpu=one"], "flag --data_gpu=one: it must be the index of a GPU, or"),
        (["profile", "--emulate_gpus=on"], "flag --emulate_gpus=on: it must be the number of GPUs"),
        (["profile", "--shares=half"], "flag --shares=half: it must be auto, or a number for each"),
        (["profile", "--shares=1"], "--shares=1.0 was given, but there is one model GPU"),
        (["profile", "--shares=auto"], "--shares=auto chooses between epochs, and profile"),
        (["profile", "--data_gpu=1", "--model_gpu=0,1"], "GPU 1 is to prepare and to train: give"),
        (["example", "--model_gpu=0,1"], "--model_gpu=0,1 names several GPUs, and this command"),
        (["compare", "--logs", "one.jsonl"], "--logs compares two files, 1 were given"),
        (["validate", "1"], "'1' is not a flag; --help lists the flags"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_1(run_python, arguments, sentence):
    done = run_python(["-m", "dual_device_strategy", *arguments])
    assert done.returncode == 1
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and "FATAL" not in done.stderr


def test_the_installed_command_is_the_one_that_lists_them():
    (target,) = re.findall(r'"dual-device = ([\w.:]+)"', SETUP.read_text())
    module, _, name = target.partition(":")
    assert module == "dual_device_strategy.__main__"
    assert callable(getattr(importlib.import_module(module), name))
