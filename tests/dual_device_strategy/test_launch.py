"""The launcher: local workers, which all end when one fails."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, wait_until

# Each worker tells who it is, then does what its argument says.
PROGRAM = """
import json, os, signal, socket, subprocess, sys, time
from pathlib import Path

config = json.loads(os.environ["TF_CONFIG"])
index = config["task"]["index"]

def save(number, _):
    Path(f"saved.{index}").touch()
    sys.exit(0)

how = sys.argv[1]
if how == "find":
    host, port = config["cluster"]["worker"][index].split(":")
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((host, int(port)))
    server.listen()
    sys.stdout.write("10 %\\r50 %\\rall\\n")
    print(index, len(set(config["cluster"]["worker"])), sys.argv[2:], file=sys.stderr)
    print("gpus", os.environ.get("CUDA_VISIBLE_DEVICES"))
    sys.exit(0)
if how == "fail" and index == 1:
    while not Path("up.0").exists():
        time.sleep(0.01)
    sys.exit(3)
if how == "saves":
    signal.signal(signal.SIGTERM, save)
    signal.signal(signal.SIGINT, save)
if how == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "300"])
Path(f"pids.{index}").write_text(f"{os.getpid()} {child.pid}")
Path(f"pids.{index}").rename(f"up.{index}")
if how == "done" and index == 1:
    sys.exit(0)
time.sleep(300)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def launched(processes, program):
    """Starts the launcher and waits until its workers are up."""
    launchers = []

    def start(*arguments, up=2):
        command = ["-m", "dual_device_strategy.launch", "--workers=2", *arguments]
        root = str(Path(__file__).resolve().parents[2])
        launchers.append(
            processes.start(command, cwd=program, env={**os.environ, "PYTHONPATH": root})
        )
        wait_until(
            lambda: len(list(program.glob("up.*"))) == up or launchers[-1].poll() is not None
        )
        return launchers[-1]

    yield start
    for launcher in launchers:
        launcher.kill()


def alive(folder) -> list[int]:
    """Of the workers that came up and what they started, those that still run."""
    found = []
    for file in folder.glob("up.*"):
        for pid in map(int, file.read_text().split()):
            with contextlib.suppress(FileNotFoundError):
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                found += [pid] if state not in "ZX" else []
    return found


def test_workers_find_each_other_on_ports_of_their_own_and_their_lines_are_numbered(launched):
    done = launched("--gpus_per_worker", "2", "program.py", "find", "--help", up=None)
    assert done.wait(PATIENCE) == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "[0] all",
        "[0] gpus 0,1",
        "[1] all",
        "[1] gpus 2,3",
    ]
    for index in range(2):
        assert f"[{index}] {index} 2 ['--help']" in done.stderr.splitlines()


def test_when_one_fails_the_others_are_ended_and_its_exit_code_is_that_of_all(launched, program):
    launcher = launched("program.py", "fail", up=None)
    assert launcher.wait(PATIENCE) == 3
    assert "launch: worker 1 ended with exit code 3; the others are ended" in launcher.stderr
    assert not alive(program)


def test_a_worker_killed_is_named_by_its_signal_and_a_deaf_one_is_killed(launched, program):
    launcher = launched("--grace_seconds=0.5", "--", "program.py", "deaf")
    os.kill(int((program / "up.0").read_text().split()[0]), signal.SIGKILL)
    assert launcher.wait(PATIENCE) == 128 + signal.SIGKILL
    assert "launch: worker 0 was killed by SIGKILL; the others are ended" in launcher.stderr
    assert "launch: still running, and now killed: worker 1" in launcher.stderr
    assert not alive(program)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_all_workers_so_that_they_can_save(launched, program, number):
    launcher = launched("program.py", "saves")
    launcher.send_signal(number)
    assert launcher.wait(PATIENCE) == 0, launcher.stderr
    assert {file.name for file in program.glob("saved.*")} == {"saved.0", "saved.1"}
    assert not alive(program)


def test_when_one_is_done_the_others_have_time_to_finish(launched, program):
    launcher = launched("--finish_seconds=0.5", "program.py", "done")
    assert launcher.wait(PATIENCE) == 128 + signal.SIGKILL
    assert "launch: still running, and now killed: worker 0" in launcher.stderr
    assert not alive(program)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux ends children with a parent")
def test_no_worker_outlives_a_launcher_that_was_killed(launched, program):
    launcher = launched("program.py", "deaf")
    workers = [int(file.read_text().split()[0]) for file in program.glob("up.*")]
    launcher.kill()
    wait_until(lambda: not set(workers) & set(alive(program)))
    for pid in alive(program):  # the workers' own children, which nothing told
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (["program.py"], {}, "--workers must be a whole number of at least 1, got None: write"),
        (["--workers=2"], {}, "no program was named: write what follows `python`, such as"),
        (["--workers=2", "none.py"], {}, "the program none.py does not exist: name a Python"),
        (["--workers=2", "program.py"], {"TF_CONFIG": "{}"}, "TF_CONFIG is set, so this is one"),
        (
            ["--workers=2", "--gpus_per_worker=2", "program.py"],
            {"CUDA_VISIBLE_DEVICES": "0,1,2"},
            "need 4 GPUs, but CUDA_VISIBLE_DEVICES=0,1,2 names 3",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_starts_nothing(
    run_python, program, arguments, environment, sentence
):
    done = run_python(["-m", "dual_device_strategy.launch", *arguments], cwd=program, **environment)
    assert done.returncode == 1
    assert sentence in done.stderr.splitlines()[-1]
    assert not done.stdout and "Traceback" not in done.stderr


def test_the_help_says_what_to_write_elsewhere(run_python):
    done = run_python(["-m", "dual_device_strategy", "launch", "--help"])
    assert done.returncode == 0
    for word in ("SLURM", "srun", "Kubernetes", "StatefulSet", "ssh", "--workers:"):
        assert word in done.stdout, word
