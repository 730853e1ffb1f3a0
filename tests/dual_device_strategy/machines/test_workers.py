"""Two real workers: the numbers of MultiWorkerMirroredStrategy, and workers that differ."""

import json
import os
from pathlib import Path

import pytest

from tests.dual_device_strategy.machines.conftest import ended, free_ports

PROGRAM = str(Path(__file__).parent / "program.py")


LOOPS = ["eager", "of_unknown_length", "in_a_function", "from_a_function"]
REWRITTEN = {"UNOPTIMIZED_GRAPHS": ""}  # as a user's graphs are
ONE = {
    "ours": {
        **REWRITTEN,
        "EMULATED_GPUS": "2",
        "MACHINES_DATA": "GPU:1",
        "MACHINES_MODEL": "GPU:0",
    },
    "theirs": {**REWRITTEN, "EMULATED_GPUS": "1"},
}
# Two replicas on each worker: ours with two data devices beside them, and COPYING slots.
LOOPS_OF_SEVERAL = ["of_unknown_length", "from_a_function"]
SEVERAL = {
    "ours": {
        "EMULATED_GPUS": "4",
        "MACHINES_DATA": "GPU:2,GPU:3",
        "MACHINES_MODEL": "GPU:0,GPU:1",
        "MACHINES_SLOTS": "6",
    },
    "theirs": {"EMULATED_GPUS": "2"},
}


def printed(start_workers, folder, environment, loops):
    """What both workers printed, under our strategy and under TensorFlow's."""
    found = {}
    for kind in ("ours", "theirs"):
        of_each = {**environment[kind], "MACHINES_LOOPS": ",".join(loops)}
        workers = start_workers([PROGRAM, kind], folder, (of_each,) * 2)
        assert ended(workers) == [0, 0], workers[0].stderr + workers[1].stderr
        found[kind] = [json.loads(worker.stdout.splitlines()[-1]) for worker in workers]
    return found


@pytest.fixture(scope="module")
def figures(start_workers, tmp_path_factory):
    return printed(start_workers, tmp_path_factory.mktemp("workers"), ONE, LOOPS)


@pytest.fixture(scope="module")
def of_several(start_workers, tmp_path_factory):
    return printed(start_workers, tmp_path_factory.mktemp("several"), SEVERAL, LOOPS_OF_SEVERAL)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_losses_and_weights_are_those_of_tensorflows_strategy_bit_for_bit(figures, loop):
    first, second = (worker[loop] for worker in figures["ours"])
    assert first == second and len(first) >= 5
    assert first == figures["theirs"][0][loop]


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS_OF_SEVERAL)
def test_with_two_replicas_on_each_worker_they_are_the_same_but_for_the_order_of_adding(
    figures, of_several, loop
):
    first, second = (worker[loop] for worker in of_several["ours"])
    assert first == second and len(first) >= 5
    assert first == pytest.approx(of_several["theirs"][0][loop], rel=1e-6)
    if loop != "from_a_function":  # which has as many batches a step as replicas
        assert first == pytest.approx(figures["ours"][0][loop], rel=1e-5)


def test_fit_and_evaluate_of_keras_3_work_and_all_workers_report_the_same(figures, of_several):
    first, second = (worker["fit"] for worker in figures["ours"])
    assert first == second and set(first) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert 0 < first["loss"] < 20
    first, second = (worker["fit"] for worker in of_several["ours"])
    assert first == second and 0 < first["loss"] < 20


def test_a_fit_that_was_stopped_goes_on_from_the_first_workers_backup(figures):
    for worker in figures["ours"]:
        assert worker["fit again"] == {**worker["fit"], "batches": 2 * 4 - 3}


def test_variables_of_the_data_scope_begin_with_the_first_workers_values(figures, of_several):
    first, second = (worker["of_the_data_device"] for worker in figures["ours"])
    assert first == second and [device for device, _ in first] == ["GPU:1"]
    first, second = (worker["of_the_data_device"] for worker in of_several["ours"])
    assert first == second and [device for device, _ in first] == ["GPU:2", "GPU:3"]
    assert first[0][1] == first[1][1]


def test_signal_handlers_that_were_there_before_still_work(figures):
    assert [worker["handler kept"] for worker in figures["ours"]] == [True, True]


@pytest.mark.parametrize(
    ("environments", "sentence"),
    [
        (
            ({"MACHINES_SLOTS": "3"}, {"MACHINES_SLOTS": "5", "MACHINES_MODEL": "CPU:2,CPU:0"}),
            "3 on worker 0 (127.0.0.1:",
        ),
        (
            ({"MACHINES_CORPUS": "one"}, {"MACHINES_CORPUS": "other"}),
            "one on worker 0 (127.0.0.1:",
        ),
    ],
)
def test_workers_that_differ_are_refused_on_all_of_them(
    start_workers, tmp_path, environments, sentence
):
    workers = start_workers([PROGRAM, "ours"], tmp_path, environments)
    assert ended(workers) == [1, 1]
    for worker in workers:
        said = worker.stderr.splitlines()[-1]
        assert said.startswith("the workers do not agree: ")
        assert sentence in said
        if "MACHINES_SLOTS" in environments[0]:
            assert "the number of model devices is " in said
        assert "Traceback" not in worker.stderr


def test_slurm_says_who_the_workers_are(start_workers, tmp_path):
    stand_in = tmp_path / "scontrol"
    stand_in.write_text("#!/bin/sh\necho 127.0.0.1\n")
    stand_in.chmod(0o755)
    base, _ = free_ports(2)
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
