"""The notebook runs as it stands, on emulated GPUs with a small budget, and holds its outputs."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests import notebooks

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "examples/two_gpus.ipynb"
SMALL = {
    "INSTALL": "true",
    "BUDGET": "--model_config=tests/tiny_networks.json --max_steps=6 --batch_size=4 "
    "--evaluation_clips=4 --embedded_minutes=1 --embedded_voices=2 --vocoder_share=0.01 "
    "--max_text_length=80",
    "PROFILED": "--stage=tokenizer --profile_steps=2",
    "EMULATED_GPUS": "2",
}


@pytest.mark.slow
def test_the_notebook_runs_as_it_stands(monkeypatch, tmp_path):
    for name in ("train.py", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for name, value in {**SMALL, "PYTHONPATH": str(ROOT)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin", prepend=":")
    made = notebooks.executed(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    said = [text_of(cell) for cell in made["cells"] if cell["cell_type"] == "code"]
    for expected in ("PASS", "bottleneck", "data and model GPU:1", "# Training in", "<audio"):
        assert any(expected in text for text in said), expected


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
