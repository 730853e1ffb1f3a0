"""The notebook runs as it stands, on emulated GPUs with a small budget, and holds its outputs."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import soundfile

from tests import notebooks

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "examples/two_gpus.ipynb"
SMALL = {
    "INSTALL": "true",
    # The vocoder is not needed to speak; the README's line, in `.ci/run`, trains it.
    "BUDGET": "--model_config=tests/tiny_networks.json --stage=tokenizer,gpt --max_steps=2 "
    "--batch_size=4 --evaluation_clips=2 --embedded_minutes=1 --embedded_voices=2 "
    "--max_text_length=80 --precision=float32 --buckets=1",
    "PROFILED": "--stage=tokenizer --profile_steps=2",
    "EMULATED_GPUS": "2",
}


@pytest.mark.slow
def test_the_notebook_runs_as_it_stands(monkeypatch, tmp_path, run_python):
    """A training by train.py is in it, and the voice speaks."""
    for name in ("train.py", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for name, value in SMALL.items():
        monkeypatch.setenv(name, value)

    def run(command):
        """Python's commands in processes that have TensorFlow imported."""
        python, pipe, rest = command.replace("\\\n", " ").partition("|")
        if not python.startswith("python "):
            return notebooks.in_bash(command)
        done = run_python(shlex.split(python)[1:], cwd=tmp_path, UNOPTIMIZED_GRAPHS="1")
        if pipe and not done.returncode:
            found = subprocess.run(
                ["bash", "-c", rest], input=done.stdout, stdout=subprocess.PIPE, text=True
            )
            return found.returncode, found.stdout
        return done.returncode, done.stderr + done.stdout

    made = notebooks.executed(json.loads(NOTEBOOK.read_text(encoding="utf-8")), run)
    said = [text_of(cell) for cell in made["cells"] if cell["cell_type"] == "code"]
    for expected in ("PASS", "bottleneck", "data and model GPU:1", "# Training in", "<audio"):
        assert any(expected in text for text in said), expected
    (trained,) = [text for text in said if "Held-out figures:" in text]
    # The last line printed is a command to be pasted, and the one that the notebook goes on with.
    printed = shlex.split(trained.strip().splitlines()[-1])
    assert printed[1:3] == ["-m", "myxtts.synthesis"]
    flags = dict(word.split("=", 1) for word in printed[3:])
    assert Path(flags["--speaker_wav"]).exists() and flags["--checkpoint"] == "runs/two_gpus"
    assert flags.keys() == {"--checkpoint", "--language", "--text", "--speaker_wav", "--out"}
    for stage in ("tokenizer", "gpt"):
        assert list((tmp_path / "runs/two_gpus/samples" / stage).rglob("*.wav"))
    waveform, rate = soundfile.read(tmp_path / "own.wav")
    assert rate == 22050 and len(waveform) > 1000


def test_the_notebook_holds_real_outputs_and_nothing_of_the_machine():
    text = NOTEBOOK.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    commands = [cell for cell in cells if "!python" in "".join(cell["source"])]
    assert len(commands) >= 5 and all(text_of(cell) for cell in commands)
    assert not re.search(r"/(work|root|home|tmp|usr)/", text)


def text_of(cell) -> str:
    return "".join(
        line
        for output in cell["outputs"]
        for line in output.get("text") or output["data"]["text/html"]
    )
