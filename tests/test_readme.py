"""The README is true: its Python blocks and its commands are run, its table is what is estimated.

The commands that train run with a small budget; `runs/voice` and the corpus DATA are made small.
The command that runs these tests is not run from here; `.ci/run` runs it, in the fresh virtual
environment that the README sets up.
"""

import os
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALL = (
    "--model_config=tests/tiny_networks.json --max_steps=2 --batch_size=4 --evaluation_clips=4 "
    "--embedded_minutes=1 --embedded_voices=2 --max_text_length=80 --stage=tokenizer"
)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, re.S)


def side(diff: str, mark: str) -> str:
    """The script before ("-") or after ("+")."""
    return "".join(
        f"{line[1:]}\n" for line in diff.splitlines() if not line or line[0] in (" ", mark)
    )


def numbers(text: str) -> list[float]:
    return [float(number) for number in text.split()]


@pytest.mark.parametrize("script", blocks("python"), ids=range(len(blocks("python"))))
def test_python_blocks_run_as_they_stand(run_python, script):
    # A block that starts the emulation itself cannot have it started from the environment.
    environment = {} if "emulation.start" in script else {"EMULATED_GPUS": "2"}
    done = run_python(script, **environment)
    assert done.returncode == 0, done.stderr[-2000:]


def printed_losses(run_python, script: str) -> list[float]:
    done = run_python(script, EMULATED_GPUS="2")
    assert done.returncode == 0, done.stderr[-2000:]
    return numbers(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("diff", blocks("diff"), ids=["keras", "own loop"])
def test_a_script_gives_the_same_losses_before_and_after_and_under_other_strategies(
    run_python, diff
):
    before, after = side(diff, "-"), side(diff, "+")
    losses = printed_losses(run_python, before)
    assert len(losses) >= 2
    assert printed_losses(run_python, after) == pytest.approx(losses, rel=1e-4)
    if "strategy.run" in after:
        ours = "strategy = DataModelSplitStrategy(devices.data_device, devices.model_device)"
        assert ours in after and len(losses) == 4
        for line in (
            "strategy = tf.distribute.MirroredStrategy(['GPU:1'])",
            "strategy = tf.distribute.get_strategy()",
        ):
            script = after.replace(ours, line)
            assert printed_losses(run_python, script) == pytest.approx(losses, rel=1e-4)


def commands() -> list[str]:
    """The commands of the README, without the setting up of the virtual environment."""
    lines = [line for block in blocks("sh") for line in block.strip().splitlines()]
    return [line.split(" && ")[-1] for line in lines]


def test_every_command_begins_in_the_virtual_environment():
    assert len(commands()) >= 8
    for command in commands():
        assert command.startswith(".venv/bin/python "), command


@pytest.mark.slow
def test_the_commands_run_one_after_the_other(run_python, finished_run, tmp_path):
    """As a newcomer would: train, then train on a corpus of one's own, then speak.

    Only the first stage is trained; who speaks is a voice of random networks. That a whole training
    ends in a voice that speaks, by the command it prints, is shown in test_train.py.
    """
    for name in ("train.py", "myxtts", "dual_device_strategy", "tests"):
        os.symlink(ROOT / name, tmp_path / name)
    ran = []
    for command in commands():
        if "pytest" in command:
            continue
        words = shlex.split(command)
        if words[1] == "train.py":
            words += SMALL.split()
            words += ["--profile_steps=2"] if "--profile" in words else []
            words += ["--emulate_gpus=2"] if "--data_gpu=0" in words else []
            if "--train_data=DATA" in words:
                words = [w for w in words if not w.startswith(("--embedded", "--model_size"))]
        elif "validate" in command and "--emulate_gpus=2" not in words:
            words.append("--emulate_gpus=2")
        elif "example" in command:
            words += ["--steps=4", "--signals=4"]
        elif "synthesis" in command:
            assert (tmp_path / "runs/voice/checkpoints/tokenizer/best").is_dir()
            shutil.rmtree(tmp_path / "runs/voice")
            shutil.copytree(finished_run.path, tmp_path / "runs/voice")
        recordings = sorted((tmp_path / "runs/embedded_corpus/wavs").glob("*.wav"))
        if recordings and not (tmp_path / "DATA").exists():
            os.symlink(tmp_path / "runs/embedded_corpus", tmp_path / "DATA")
            os.symlink(recordings[0], tmp_path / "VOICE.wav")
        done = run_python(words[1:], cwd=tmp_path, timeout=600)
        assert done.returncode == 0, f"{command}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
        ran.append(command)
    assert (tmp_path / "own.wav").stat().st_size > 1000
    assert (tmp_path / "runs/mine/report.md").exists()
    assert (tmp_path / "runs/mine/profile-tokenizer.html").stat().st_size > 5000
    assert len(ran) == len(commands()) - 1


def test_the_table_of_settings_is_what_is_estimated():
    printed = runpy.run_path(str(ROOT / "tests/benchmarks/settings_table.py"))["rows"]()
    assert "\n".join(printed) in README
    assert "\n".join(printed[2:-1]) in (ROOT / "README.fa.md").read_text(encoding="utf-8")


def test_the_commands_of_ci_are_those_of_the_readme():
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for name in ("python -m pytest", "python train.py"):
        assert f"grep -m1 '{name}' README.md" in ci
        first = next(line for line in README.splitlines() if name in line)
        assert first.startswith("python3 -m venv .venv && .venv/bin/pip install"), first


@pytest.mark.parametrize("name", ["README.md", "README.fa.md"])
def test_flags_that_are_named_exist(name):
    from myxtts.command import older_spellings, run_flags

    text = (ROOT / name).read_text(encoding="utf-8")
    known = {flag.name for flag in run_flags.ALL} | {"help", "flagfile"}
    elsewhere = {"checkpoint", "text", "speaker_wav", "out", "logdir"}
    elsewhere |= {"batch_sizes", "part_ms", "host_slowdown"}  # of the comparison
    for flag in set(re.findall(r"(?<![\w-])--([a-z_]+(?:-[a-z]+)*)", text)):
        older = flag.replace("-", "_")
        assert (
            flag in known | elsewhere
            or older in older_spellings.RENAMED
            or older in (*older_spellings.WITH_VALUE, *older_spellings.SWITCHES)
            or older in known
        ), flag
