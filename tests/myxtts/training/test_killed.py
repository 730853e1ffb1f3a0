"""Real processes killed with SIGKILL at random moments, and continued with the same command."""

import json
from pathlib import Path

import pytest

from myxtts.corpus.prepare import Source, prepare
from myxtts.training.checkpoints import read_state
from myxtts.training.run_directory import RunDirectory
from myxtts.training.step_log import read_steps

KILLS = 10
SCRIPT = Path(__file__).with_name("killed_runs.py")


@pytest.mark.slow
def test_a_run_killed_ten_times_has_the_losses_of_one_that_was_not(
    spoken_directory, spoken_corpus, tmp_path, run_python
):
    prepared, _ = prepare(Source(spoken_directory), workers=1, progress=False)
    done = run_python([SCRIPT, prepared, tmp_path, KILLS], timeout=900, CUDA_VISIBLE_DEVICES="")
    logs = "".join(path.read_text()[-3000:] for path in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    said = json.loads(done.stdout.splitlines()[-1])
    assert len(said["hits"]) == KILLS, said
    assert any(hit.startswith("saving") for hit in said["hits"]), said
    calm, killed = (RunDirectory(tmp_path / name) for name in ("calm", "killed"))
    wanted, found = read_steps(calm.steps_file), read_steps(killed.steps_file)
    assert len(wanted) == said["config"]
    for one, other in zip(wanted, found, strict=True):
        for line in (one, other):
            line.pop("wait_seconds")
        assert one == other
    wanted, found = calm.result("tokenizer"), killed.result("tokenizer")
    assert wanted["held_out"] == found["held_out"]
    assert wanted["evaluations"] == found["evaluations"]
    best = [read_state(run.stage("tokenizer") / "best")["files"] for run in (calm, killed)]
    (name,) = [name for name in best[0] if name.startswith("weights.data")]
    assert best[0][name] == best[1][name]
    assert not list(killed.stage("tokenizer").glob("*.partial"))
