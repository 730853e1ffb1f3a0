"""The example, run as a user runs it."""

import re


def test_the_example_trains_to_the_same_loss_with_and_without_the_strategy(run_python):
    done = run_python(
        ["-m", "dual_device_strategy.example", "--emulate_gpus=2", "--steps=12", "--signals=4"]
    )
    assert done.returncode == 0, done.stderr[-2000:]
    losses = re.findall(r"loss (\d+\.\d+)", done.stdout)
    assert len(losses) == 2 and abs(float(losses[0]) - float(losses[1])) < 1e-3
    assert "front end on GPU:1, step on GPU:0" in done.stdout
    assert "emulated" in done.stdout


def test_a_wrong_flag_is_told_in_one_sentence(run_python):
    done = run_python(["-m", "dual_device_strategy.example", "--emulate_gpus=2", "--data_gpu=7"])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and "data_gpu" in done.stderr
