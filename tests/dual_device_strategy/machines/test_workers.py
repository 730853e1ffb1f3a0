"""Two real workers: the numbers of MultiWorkerMirroredStrategy, and workers that differ."""

import json
import os
from pathlib import Path

import pytest

from tests.dual_device_strategy.machines.conftest import ended, free_ports

PROGRAM = str(Path(__file__).parent / "program.py")


@pytest.fixture(scope="module")
def figures(start_workers, tmp_path_factory):
    """What both workers printed, under our strategy and under TensorFlow's."""
    folder = tmp_path_factory.mktemp("workers")
    found = {}
    for kind in ("ours", "theirs"):
        workers = start_workers([PROGRAM, kind], folder)
        assert ended(workers) == [0, 0], workers[0].stderr + workers[1].stderr
        found[kind] = [json.loads(worker.stdout.splitlines()[-1]) for worker in workers]
    return found


@pytest.mark.parametrize("loop", ["eager", "of_unknown_length", "in_a_function", "from_a_function"])
def test_losses_and_weights_are_those_of_tensorflows_strategy_bit_for_bit(figures, loop):
    first, second = (worker[loop] for worker in figures["ours"])
    assert first == second and len(first) >= 5
    assert first == figures["theirs"][0][loop]


def test_fit_and_evaluate_of_keras_3_work_and_all_workers_report_the_same(figures):
    first, second = (worker["fit"] for worker in figures["ours"])
    assert first == second and set(first) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert 0 < first["loss"] < 20


def test_variables_of_the_data_scope_begin_with_the_first_workers_values(figures):
    first, second = (worker["of_the_data_device"] for worker in figures["ours"])
    assert first == second and first[0] == "CPU:1"


def test_signal_handlers_that_were_there_before_still_work(figures):
    assert [worker["handler kept"] for worker in figures["ours"]] == [True, True]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("MACHINES_SLOTS", "the workers do not agree: slots is {} on worker {} (127.0.0.1:"),
        ("MACHINES_CORPUS", "the workers do not agree: the corpus is {} on worker {} (127.0.0.1:"),
    ],
)
def test_workers_that_differ_are_refused_on_all_of_them(start_workers, tmp_path, name, sentence):
    workers = start_workers([PROGRAM, "ours"], tmp_path, ({name: "3"}, {name: "5"}))
    assert ended(workers) == [1, 1]
    for index, mine in ((0, "3"), (1, "5")):
        assert sentence.format(mine, index) in workers[index].stderr.splitlines()[-1]
        assert "Traceback" not in workers[index].stderr


def test_slurm_says_who_the_workers_are(start_workers, tmp_path):
    stand_in = tmp_path / "scontrol"
    stand_in.write_text("#!/bin/sh\necho 127.0.0.1\n")
    stand_in.chmod(0o755)
    (base,) = free_ports(1)
    step = {
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "127.0.0.1",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PORT_BASE": str(base),
        "MACHINES_CORPUS": "",
    }
    of_each = [{**step, "SLURM_PROCID": str(i), "MACHINES_CORPUS": str(i)} for i in range(2)]
    workers = start_workers([PROGRAM, "ours"], tmp_path, of_each, tf_config=False)
    assert ended(workers) == [1, 1]  # found each other, and that they differ
    for index in range(2):
        said = workers[index].stderr.splitlines()[-1]
        assert f"the corpus is {index} on worker {index} (127.0.0.1:{base + index})" in said
