"""`train.py --strategy=multi_worker`, with a toy for a stage, as two real processes over gRPC."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.dual_device_strategy.data_service.test_servers import Service
from tests.dual_device_strategy.machines.conftest import ended, free_ports
from tests.train_command import ROOT, SMALL, TOY
from tests.waiting import wait_until

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "UNOPTIMIZED_GRAPHS": "1"}
STEPS = 40
FLAGS = [
    *SMALL,
    "--stage=tokenizer",
    f"--max_steps={STEPS}",
    "--checkpoint_steps=3",
    "--evaluate_steps=20",
    "--checkpoint_dir=run",
    "--embedded_minutes=1",
    "--embedded_voices=2",
    "--embedded_dir=speech",
]


@pytest.fixture(scope="module")
def start(processes, tmp_path_factory):
    """start(["--batch_size=8"]): two workers in one directory, the flags being the second one's,
    or both workers' (`same`)."""
    place = tmp_path_factory.mktemp("workers")

    def start(more=(), run="run", same=False):
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        started = []
        for index, own in enumerate((more if same else [], more)):
            task = {"type": "worker", "index": index}
            config = json.dumps({"cluster": {"worker": addresses}, "task": task})
            flags = [*FLAGS, "--strategy=multi_worker", f"--checkpoint_dir={run}", *own]
            env = {**ENVIRONMENT, "TF_CONFIG": config}
            started.append(processes.start([TOY, *flags], cwd=place, env=env))
        return started

    start.place = place
    return start


def losses(run: Path) -> dict[int, float]:
    file = run / "steps.jsonl"
    whole = file.read_text().splitlines(keepends=True) if file.exists() else []
    lines = [json.loads(line) for line in whole if line.endswith("\n")]
    return {line["step"]: line["loss"] for line in lines}


def wait_for_step(workers, run: Path, step: int) -> None:
    wait_until(lambda: step in losses(run) or any(w.poll() is not None for w in workers))
    assert all(w.poll() is None for w in workers), [w.stderr[-2000:] for w in workers]


@pytest.mark.slow
def test_two_workers_that_are_killed_and_signalled_have_the_losses_of_one_process(start, processes):
    """Without held-out clips; with some: the next test."""
    fixed = ["--validation_share=0"]
    run = start.place / "run"
    workers = start(fixed, same=True)
    wait_for_step(workers, run, 4)
    workers[0].kill()  # the one that writes; the other one: machines/test_dying.py
    assert workers[1].wait(60) == 1
    (said,) = [line for line in workers[1].stderr.splitlines() if line.startswith("error: ")]
    assert re.match(r"error: worker 0 \(127.0.0.1:\d+\) is gone, ", said)
    assert "Traceback" not in workers[1].stderr

    workers = start(fixed, same=True)
    wait_for_step(workers, run, 9)
    workers[1].send_signal(signal.SIGTERM)
    assert ended(workers) == [0, 0], workers[0].stderr[-2000:] + workers[1].stderr[-2000:]
    assert all("saved after SIGTERM" in w.stdout for w in workers), [w.stdout for w in workers]
    assert max(losses(run)) < STEPS - 1

    workers = start(fixed, same=True)
    assert ended(workers) == [0, 0], workers[0].stderr[-2000:] + workers[1].stderr[-2000:]
    assert "Done." in workers[0].stdout and "worker 0 has written" in workers[1].stdout

    alone = [*FLAGS, *fixed, "--strategy=one_device", "--checkpoint_dir=alone"]
    done = processes.start([TOY, *alone], cwd=start.place, env=ENVIRONMENT)
    assert done.wait(240) == 0, done.stderr[-2000:]
    assert losses(run) == pytest.approx(losses(start.place / "alone"), rel=1e-5)


@pytest.mark.slow
def test_workers_that_share_a_data_service_hold_out_the_same_clips_as_one_process(start, processes):
    service = Service(processes, 2)
    fixed = ["--tokenizer_lr=1e-12", "--max_steps=2", "--evaluate_steps=2"]  # weights stay equal
    given = [*fixed, f"--data_service={service.address}"]
    try:
        workers = start(given, run="served", same=True)
        assert ended(workers, 300) == [0, 0], workers[0].stderr[-2000:] + workers[1].stderr[-2000:]
    finally:
        service.end(signal.SIGKILL)
    alone = [*FLAGS, *fixed, "--strategy=one_device", "--checkpoint_dir=not_served"]
    done = processes.start([TOY, *alone], cwd=start.place, env=ENVIRONMENT)
    assert done.wait(240) == 0, done.stderr[-2000:]
    assert sorted(losses(start.place / "served")) == [0, 1]
    served, expected = (
        json.loads((start.place / run / "checkpoints/tokenizer/finished.json").read_text())
        for run in ("served", "not_served")
    )
    assert served["held_out"] == pytest.approx(expected["held_out"], rel=1e-5)


@pytest.mark.slow
def test_workers_that_were_given_different_flags_end_with_one_sentence_each(start):
    workers = start(["--batch_size=8"], run="other")
    assert ended(workers) == [1, 1]
    for worker in workers:
        (said,) = [line for line in worker.stderr.splitlines() if line.startswith("error: ")]
        assert "the workers do not agree: --batch_size is " in said and "worker 1" in said
    assert not (start.place / "other").exists()
