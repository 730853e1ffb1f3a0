"""`train.py` as its users meet it: real processes, small networks.

The virtual environment they run in is the one of the tests; a fresh one, filled from the README's
own line, is what `.ci/run` sets up, tests in, and runs the README's first command in.
"""

import contextlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.train_command import ROOT, SMALL, TOY, Command


@pytest.fixture
def command(tmp_path, processes) -> Command:
    return Command(tmp_path, processes)


@pytest.fixture
def toy(command) -> Command:
    """The same with a toy for a stage: what is around a stage's steps is as in any training."""
    command.program = TOY
    return command


@pytest.fixture
def copied_speech(spoken_directory, tmp_path) -> Path:
    """Speech, to be changed."""
    return Path(shutil.copytree(spoken_directory, tmp_path / "corpus"))


def losses(run: Path) -> list[tuple]:
    lines = (json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines())
    return [(line["stage"], line["step"], line["loss"]) for line in lines]


@pytest.mark.slow
def test_a_run_that_was_interrupted_is_continued_to_its_end_and_explains_itself(
    toy, spoken_directory, copied_speech
):
    """It also refuses another corpus although nothing is left to train. Real stages, their samples
    and a voice that speaks: test_notebook. That the losses are those of a run that nobody stopped,
    under every strategy: test_trainer, test_killed and test_loop in tests/myxtts/training."""
    toy.rewrites_graphs = True
    small = [*SMALL, "--stage=tokenizer", "--max_steps=40"]
    flags = [f"--train_data={spoken_directory}", *small, "--deterministic"]
    run = toy.place / "voice"
    process = toy.start(*flags, f"--checkpoint_dir={run}")
    _wait_for_steps(process, run / "steps.jsonl", 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-2000:]
    assert "saved after SIGINT; to continue:" in out
    assert 2 <= len(losses(run)) < 40
    again = shlex.split(out.strip().splitlines()[-1])
    assert again[1:] == [str(TOY), *flags, f"--checkpoint_dir={run}"]
    out, err = toy.run(f"--flagfile={run}/flags.txt")
    assert [step[:2] for step in losses(run)] == [("tokenizer", step) for step in range(40)]
    assert err.count("data device CPU:0") >= 1 and "Traceback" not in err

    for name in ("report.md", "loss.png", "config.json", "vocabulary.json", "steps.jsonl"):
        assert (run / name).stat().st_size > 0, name
    assert (run / "manifests/training/manifest.tsv").read_text().count("\n") > 10
    held_out = (run / "manifests/held_out.txt").read_text().split()
    assert held_out and all(Path(path).exists() for path in held_out)
    assert list((run / "events").rglob("events*"))
    assert (run / "flags.txt").read_text().splitlines()[1:] == [*flags, f"--checkpoint_dir={run}"]
    assert "Held-out figures:" in out
    assert re.search(r"Overlap of the devices:\n +tokenizer +not watched: --deterministic", out)

    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    lines = (copied_speech / "metadata.csv").read_text().splitlines(keepends=True)
    (copied_speech / "metadata.csv").write_text("".join(lines[:-3]))
    _, err = toy.run(f"--train_data={copied_speech}", *small, "--checkpoint_dir=voice", code=1)
    assert f"error: {run} was begun on other clips than these; give the flags in" in err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def _wait_for_steps(process, path: Path, steps: int) -> None:
    for _ in range(15_000):
        with contextlib.suppress(FileNotFoundError):
            if path.read_text().count("\n") >= steps:
                return
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.02)
    raise AssertionError(f"{steps} steps were not made in five minutes")


@pytest.mark.slow
def test_all_mistakes_are_told_at_once_and_nothing_is_made(command):
    out, err = command.run(
        "--batch-size", "0", "--lr=fast", "--modelsize=big", "--data_gpu=0", "--slots=1", code=1
    )
    told = [line for line in err.splitlines() if line.startswith("error: ")]
    for part in (
        "--batch_size must be 1 or more, got 0",
        "--lr=fast: it must be a number",
        "--modelsize: there is no such flag; did you mean --model_size?",
        "--slots must be auto or a whole number of at least 2",
        "data_gpu=0 asks for two GPUs, but TensorFlow sees no GPU",
    ):
        assert sum(part in line for line in told) == 1, err
    assert len(told) == 5 and "Traceback" not in err and not out
    assert not list(command.place.iterdir())


@pytest.mark.slow
def test_a_gpu_that_does_not_exist_is_told_with_those_that_do(command):
    _, err = command.run("--emulate_gpus=2", "--data_gpu=0", "--model_gpu=5", code=1)
    assert "model_gpu=5 does not exist: TensorFlow sees 2 GPUs, 0 to 1" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_bad_clips_are_listed_and_too_many_of_them_end_the_command(command, copied_speech):
    lines = (copied_speech / "metadata.csv").read_text().splitlines()
    clips = [copied_speech / line.split("|")[0] for line in lines]
    clips[0].write_bytes(b"no audio")
    clips[1].unlink()
    flags = [f"--train_data={copied_speech}", *SMALL, "--dry_run", "--checkpoint_dir=run"]
    out, _ = command.run(*flags)
    assert re.search(r"rejected +2 \([\d.]+%\)\n +1  [a-z ]+\n +1  [a-z ]+\n", out), out
    for clip in clips[2 : len(clips) // 2]:
        clip.write_bytes(b"")
    _, err = command.run(*flags, code=1)
    assert re.search(r"error: \d+% of the clips of .* are bad, allowed are 20%", err)
    assert "rejected.tsv" in err and "--max_rejected" in err and "Traceback" not in err


@pytest.mark.slow
def test_the_dry_run_tells_everything_and_trains_nothing(command, spoken_directory):
    out, _ = command.run(
        f"--train_data={spoken_directory}", "--emulate_gpus=2", "--batch_size=2000", "--buckets=40",
        "--num_workers=100", "--host_prefetch=1000000", "--checkpoint_dir=run", "--epochs=1000",
        "--embedded_voices=2", "--dry_run",
    )  # fmt: skip
    for part in (
        '"batch_size": 2000',
        "data device GPU:1 (physical GPU 1, emulated GPU, memory grows)",
        "model device GPU:0 (physical GPU 0, emulated GPU, memory grows)",
        "languages  2: ",
        "held out",
        "vocabulary ",
        "a batch of 2000 needs about",
        "--num_workers=100 on ",
        "--host_prefetch=1000000 holds",
        "--buckets=40 without --static_shapes",
        "--embedded_voices has no effect",
        "--epochs=1000 without --patience",
        "clips make 0 batches of 2000",
    ):
        assert part in out, part
    for stage, network in (("tokenizer", "speaker"), ("gpt", "gpt"), ("vocoder", "vocoder")):
        assert re.search(rf"{stage} +{network} +\d+\.\d\d M", out)
    for role in ("data", "model"):
        assert re.search(rf"{role} +GPU:\d +gpt +batches of 2000 clips: +\d+\.\d\d GB of 4\.", out)
    assert "Nothing was trained" in out and not (command.place / "run").exists()


@pytest.mark.slow
def test_the_profile_is_of_this_very_job_on_these_very_devices(toy, spoken_directory):
    out, _ = toy.run(
        f"--train_data={spoken_directory}", *SMALL, "--emulate_gpus=2", "--data_gpu=1",
        "--model_gpu=0,1", "--shares=0.75,0.25", "--slots=4", "--stage=tokenizer", "--profile",
        "--profile_steps=3", "--checkpoint_dir=run",
    )  # fmt: skip
    assert "data device GPU:1, model devices GPU:0, GPU:1, slots=4" in out
    assert re.search(r"front end +\d+\.\d\d", out) and "bottleneck: " in out
    assert (toy.place / "run/profile-tokenizer.html").stat().st_size > 5000
    assert not (toy.place / "run/checkpoints").exists()


@pytest.mark.slow
def test_the_gpu_that_was_named_is_the_one_that_trains(run_python, spoken_directory, tmp_path):
    """By what the emulated GPUs counted: whose memory held the weights, and who computed."""
    code = """
import json, sys
compiling = ("librosa", "numba", "sklearn")  # the process that forked this one has loaded them
for name in [name for name in sys.modules if name.partition(".")[0] in compiling]:
    del sys.modules[name]
from myxtts.command.main import run
try:
    run(["train.py", *sys.argv[1:]])
except SystemExit as ended:
    assert ended.code in (0, None), ended.code
assert not set(compiling) & set(sys.modules), "training without resampling needs none of them"
from dual_device_strategy import emulation
used = [emulation.stats(gpu) for gpu in (0, 1)]
print(json.dumps([[u.memory_peak, u.compute_seconds] for u in used]))
"""
    networks = json.loads((ROOT / "tests/tiny_networks.json").read_text())
    networks["tokenizer"]["width"] = 256  # so that it is more to hold and to compute than batches
    (tmp_path / "networks.json").write_text(json.dumps(networks))
    flags = [
        f"--train_data={spoken_directory}", f"--model_config={tmp_path}/networks.json",
        "--batch_size=2", "--stage=tokenizer", "--max_steps=12", "--validation_share=0",
        "--sample_steps=1000", "--emulate_gpus=2", "--data_gpu=1", "--model_gpu=0",
        "--steps_per_call=2", f"--checkpoint_dir={tmp_path}/run",
    ]  # fmt: skip
    done = run_python(["-c", code, *flags], UNOPTIMIZED_GRAPHS="1")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "data device GPU:1 (physical GPU 1" in done.stderr
    assert re.search(r"tokenizer +a step took [\d.]+ ms, [\d.]+% of them waiting", done.stdout)
    (model_memory, model_busy), (data_memory, data_busy) = json.loads(
        done.stdout.strip().splitlines()[-1]
    )
    # Weights, both moments and averages of 1.9 million parameters.
    assert model_memory > 4 * 4 * 1.9e6 > data_memory
    assert model_busy > data_busy > 0


@pytest.mark.slow
def test_a_directory_that_cannot_be_written_is_told_before_anything_starts(
    command, spoken_directory
):
    (command.place / "file").write_text("")
    began = time.monotonic()
    _, err = command.run(f"--train_data={spoken_directory}", "--checkpoint_dir=file/run", code=1)
    assert "--checkpoint_dir=file/run cannot be made" in err and "Traceback" not in err
    assert time.monotonic() - began < 60


@pytest.fixture
def small_disk(tmp_path):
    """A file system of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_one_sentence(toy, spoken_directory, small_disk):
    """Twice: while the run directory is filled, and while a corpus is prepared."""
    _, err = toy.run(
        f"--train_data={spoken_directory}", *SMALL, "--max_steps=40", "--stage=tokenizer",
        f"--checkpoint_dir={small_disk}/run", "--checkpoint_steps=1", "--keep_checkpoints=1000",
        code=1,
    )  # fmt: skip
    (told,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert str(small_disk) in told and "Traceback" not in err
    shutil.rmtree(small_disk / "run")
    _, err = toy.run(f"--embedded_dir={small_disk}/corpus", *SMALL, code=1)
    (told,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "No space left on device" in told and "Traceback" not in err


@pytest.mark.slow
def test_starting_train_py_as_a_module_starts_no_runtime(run_python):
    done = run_python(
        "import train\n"
        "import myxtts.command.training, myxtts.command.dry_run, myxtts.command.profiling\n"
        "from dual_device_strategy import compat\n"
        "print(compat.runtime_started())\n"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_a_training_that_fails_ends_with_exit_code_2_and_the_clips(toy, spoken_directory):
    _, err = toy.run(
        f"--train_data={spoken_directory}", *SMALL, "--stage=tokenizer", "--max_steps=40",
        "--lr=1e39", "--lr_warm_up_steps=0", "--max_skipped=3", "--checkpoint_dir=run", code=2,
    )  # fmt: skip
    assert "a learning rate of 1e+39 in the tokenizer stage will diverge: 0.001" in err
    (told,) = [line for line in err.splitlines() if line.startswith("training failed: ")]
    assert "3 steps in a row had gradients that are not finite" in told and ".wav" in told
    assert "Traceback" not in err
