"""The example of the README, run as a user runs it."""

import re
from pathlib import Path

import pytest


def test_the_example_trains_to_the_same_loss_with_and_without_the_strategy(run_python):
    done = run_python(
        ["-m", "dual_device_strategy.example", "--emulate_gpus=2", "--steps=12", "--signals=4"]
    )
    assert done.returncode == 0, done.stderr[-2000:]
    losses = re.findall(r"loss (\d+\.\d+)", done.stdout)
    assert len(losses) == 2 and abs(float(losses[0]) - float(losses[1])) < 1e-3
    assert "front end on GPU:0, step on GPU:1" in done.stdout
    assert "emulated" in done.stdout


def test_a_wrong_flag_is_told_in_one_sentence(run_python):
    done = run_python(["-m", "dual_device_strategy.example", "--emulate_gpus=2", "--data_gpu=7"])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and "data_gpu" in done.stderr


README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_script_of_the_readme_gives_the_same_losses_under_any_strategy(run_python):
    script = re.search(r"```python\n(import tensorflow.*?)```", README.read_text(), re.S).group(1)
    ours = "strategy = DataModelSplitStrategy(devices.data_device, devices.model_device)"
    assert ours in script
    losses = []
    for line in (
        ours,
        "strategy = tf.distribute.MirroredStrategy(['GPU:1'])",
        "strategy = tf.distribute.get_strategy()",
    ):
        done = run_python(script.replace(ours, line), EMULATED_GPUS="2")
        assert done.returncode == 0, done.stderr[-2000:]
        losses.append([float(x) for x in done.stdout.split()])
    assert len(losses[0]) == 4
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[2] == pytest.approx(losses[0], rel=1e-5)
