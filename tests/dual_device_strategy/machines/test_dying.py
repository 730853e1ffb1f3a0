"""Workers that are killed: the program of docs/machines.md goes on exactly."""

import os
import re
import shutil
import signal
import time

import pytest

from tests.dual_device_strategy.machines.conftest import ROOT, ended
from tests.waiting import PATIENCE, wait_for_output, wait_until

DOCUMENT = (ROOT / "docs/machines.md").read_text(encoding="utf-8")
(PROGRAM,) = (b for b in re.findall(r"```python\n(.*?)```", DOCUMENT, re.S) if "preemption" in b)
SERVER = """
import json, os, time
import tensorflow as tf
config = json.loads(os.environ["TF_CONFIG"])
tf.distribute.Server(config["cluster"], job_name="worker", task_index=config["task"]["index"])
print("listens", flush=True)
time.sleep(300)
"""
MEETING = """
import os, sys, threading
import tensorflow as tf
from dual_device_strategy import MultiWorkerDataModelSplitStrategy
strategy = MultiWorkerDataModelSplitStrategy(["CPU:0"], ["CPU:0"])
if strategy.worker_index == 1:
    os.kill(os.getpid(), int(sys.argv[2]))

def make_a_variable():
    try:
        with strategy.scope():
            tf.Variable(1.0)
    except tf.errors.OpError as error:
        raise RuntimeError("no variable") from error

if sys.argv[1] == "compare":
    strategy.refuse_differences({"the corpus": "one"})
else:
    thread = threading.Thread(target=make_a_variable)
    thread.start()
    thread.join()
"""
EMULATED = ({"EMULATED_GPUS": "2"},) * 2


def losses(*outputs):
    """{step: loss} of runs that followed one another; a step trained again is the same."""
    found = {}
    for line in "".join(outputs).splitlines():
        step, loss = line.split()
        assert found.setdefault(int(step), loss) == loss, f"step {step}"
    return found


def first_steps(workers):
    return [int(worker.stdout.split()[0]) for worker in workers]


def wait_for_step(worker, step):
    wait_for_output(worker, f"\n{step} ")


@pytest.fixture(scope="module")
def run(start_workers):
    """Starts both workers on the program of the document, a little slower than it is there.

    Behind step `slow_from` they are so slow that whoever waits for that step meets them in time.
    """

    def start(
        folder,
        slow_from=30,
        *,
        timeout_seconds=None,
        environments=EMULATED,
        arguments=("program.py",),
    ):
        slower = PROGRAM.replace(
            "    loss = preemption",
            f"    time.sleep(1.0 if number > {slow_from} else 0.03)\n    loss = preemption",
        )
        if timeout_seconds:
            options = "tf.distribute.experimental.CommunicationOptions(timeout_seconds={})"
            options = f"communication_options={options.format(timeout_seconds)}"
            slower = slower.replace('["GPU:1"], ["GPU:0"])', f'["GPU:1"], ["GPU:0"], {options})')
            # TensorFlow's handler of preemptions waits another ten seconds for the one that hangs.
            slower = slower.replace("preemption.run(step, batches)", "step(batches)")
        slower = "import time\n" + slower
        (folder / "program.py").write_text(slower)
        return start_workers(arguments, folder, environments)

    return start


@pytest.fixture(scope="module")
def not_killed(run, tmp_path_factory):
    workers = run(tmp_path_factory.mktemp("whole"))
    assert ended(workers) == [0, 0], workers[0].stderr[-2000:] + workers[1].stderr[-2000:]
    whole = losses(workers[0].stdout)
    assert whole == losses(workers[1].stdout) and sorted(whole) == list(range(1, 31))
    return whole


@pytest.mark.slow
def test_one_training_survives_sigterm_on_one_and_kill_9_of_each_and_goes_on_exactly(
    run, not_killed, tmp_path
):
    workers = run(tmp_path, slow_from=5)
    wait_for_step(workers[1], 5)
    os.kill(workers[1].pid, signal.SIGTERM)
    assert ended(workers) == [0, 0], workers[0].stderr[-2000:]
    saved = max(losses(workers[0].stdout))
    assert saved == max(losses(workers[1].stdout)) < 12
    outputs = [workers[0].stdout]
    for killed, step in ((0, 13), (1, 23)):
        workers = run(tmp_path, slow_from=step)
        wait_for_step(workers[killed], step)
        workers[killed].kill()
        other = workers[1 - killed]
        assert other.wait(60) == 1
        said = other.stderr.splitlines()[-1]
        assert re.fullmatch(rf"error: worker {killed} \(127.0.0.1:\d+\) is gone, .*", said)
        assert "Traceback" not in other.stderr
        assert first_steps(workers) == [saved + 1] * 2
        saved = step - 3  # it saves every tenth
        shutil.rmtree(tmp_path / "checkpoints-1")  # as if it had died before its own save
        outputs.append(other.stdout)
    workers = run(tmp_path)
    assert ended(workers) == [0, 0], workers[0].stderr[-2000:]
    assert first_steps(workers) == [saved + 1] * 2
    assert losses(*outputs, workers[0].stdout) == not_killed


@pytest.mark.slow
def test_a_worker_that_is_started_again_alone_does_no_harm(run, not_killed, tmp_path):
    """As a supervisor does that starts what has ended, whatever the others do meanwhile."""
    workers = run(tmp_path, slow_from=13)
    outputs = []
    wait_for_step(workers[1], 13)
    config = [worker.environment for worker in workers]
    os.kill(workers[0].pid, signal.SIGSTOP)  # so that the first one still has its old place
    workers[1].kill()
    workers[1].wait(60)
    outputs.append(workers[1].stdout)
    (workers[1],) = run(tmp_path, environments=[config[1]])
    time.sleep(3)
    os.kill(workers[0].pid, signal.SIGCONT)
    end = time.monotonic() + PATIENCE
    while {worker.poll() for worker in workers} != {0}:
        assert time.monotonic() < end, [worker.stderr[-2000:] for worker in workers]
        for index, worker in enumerate(workers):
            if worker.poll():
                assert worker.returncode == 1 and "Traceback" not in worker.stderr, worker.stderr
                assert worker.stderr.splitlines()[-1].startswith("error: "), worker.stderr
                outputs.append(worker.stdout)
                (workers[index],) = run(tmp_path, environments=[config[index]])
        time.sleep(0.02)
    assert losses(*outputs, *(worker.stdout for worker in workers)) == not_killed


def test_another_process_in_the_place_of_a_worker_ends_the_other_with_one_sentence(run, tmp_path):
    """It answers before it has joined the training, as one does that is just starting."""
    workers = run(tmp_path, slow_from=3)
    wait_for_step(workers[1], 3)
    os.kill(workers[0].pid, signal.SIGSTOP)  # so that it does not notice the kill
    workers[1].kill()
    workers[1].wait(60)
    (server,) = run(tmp_path, environments=[workers[1].environment], arguments=["-c", SERVER])
    try:
        wait_for_output(server, "listens")
        os.kill(workers[0].pid, signal.SIGCONT)
        assert workers[0].wait(60) == 1
    finally:
        workers[0].kill()
        server.kill()
    said = workers[0].stderr.splitlines()[-1]
    assert re.match(
        r"error: worker 1 \(127.0.0.1:\d+\) was started again while this one ran; ", said
    )
    assert "Traceback" not in workers[0].stderr


@pytest.mark.parametrize(
    ("where", "number", "sentence"),
    [
        ("compare", signal.SIGKILL, r"worker 1 \(127.0.0.1:\d+\) is gone, "),
        pytest.param("compare", signal.SIGSTOP, "a worker hangs, ", marks=pytest.mark.slow),
        ("in a thread", signal.SIGKILL, r"worker 1 \(127.0.0.1:\d+\) is gone, "),
    ],
)
def test_a_worker_that_others_wait_for_before_the_first_step_ends_them_with_one_sentence(
    start_workers, tmp_path, where, number, sentence
):
    workers = start_workers(["-c", MEETING, where, str(int(number))], tmp_path)
    try:
        assert workers[0].wait(60) == 1, workers[0].stderr
    finally:
        workers[1].kill()
    assert re.match(f"error: {sentence}", workers[0].stderr.splitlines()[-1]), workers[0].stderr
    assert "Traceback" not in workers[0].stderr
    # TensorFlow's heartbeats would tell more than ten seconds later.
    assert number == signal.SIGSTOP or "heartbeats" not in workers[0].stderr


@pytest.mark.parametrize("timeout_seconds", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_a_worker_that_hangs_is_noticed_within_the_stated_time(run, tmp_path, timeout_seconds):
    workers = run(tmp_path, slow_from=3, timeout_seconds=timeout_seconds)
    wait_for_step(workers[1], 3)
    os.kill(workers[1].pid, signal.SIGSTOP)
    try:
        # On a quiet machine three seconds more, of which two go by in asking the other one.
        assert workers[0].wait((timeout_seconds or 14) + 20) == 1
    finally:
        workers[1].kill()
    said = workers[0].stderr.splitlines()[-1]
    assert said.startswith("error: a worker hangs, was started again or cannot be reached any more")
    assert "Traceback" not in workers[0].stderr


def test_a_worker_that_comes_alone_waits_and_says_for_whom(start_workers, tmp_path):
    code = (
        "from dual_device_strategy import MultiWorkerDataModelSplitStrategy\n"
        "MultiWorkerDataModelSplitStrategy(['CPU:0'], ['CPU:0'])\n"
    )
    first, second = start_workers(["-c", code], tmp_path, ({}, {"TF_CONFIG": "{"}))
    assert second.wait(60) == 1 and "TF_CONFIG is not JSON" in second.stderr
    wait_until(
        lambda: " waits for worker 1 (127.0.0.1:" in first.stderr or first.poll() is not None
    )
    assert first.poll() is None, first.stderr
    first.kill()
