"""Real processes that end by SIGKILL at chosen moments, and are started again."""

import json
import signal
from pathlib import Path

import pytest

from myxtts.corpus.prepare import Source, prepare
from myxtts.training.checkpoints import read_state
from myxtts.training.run_directory import RunDirectory
from myxtts.training.step_log import read_steps

SCRIPT = Path(__file__).with_name("killed_runs.py")


@pytest.mark.slow
def test_a_run_killed_at_every_kind_of_moment_has_the_losses_of_one_that_was_not(
    spoken_directory, spoken_corpus, tmp_path, run_python
):
    prepared, _ = prepare(Source(spoken_directory), workers=1, progress=False)
    done = run_python([SCRIPT, prepared, tmp_path], CUDA_VISIBLE_DEVICES="")
    logs = "".join(path.read_text()[-3000:] for path in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    ended = json.loads(done.stdout.splitlines()[-1])
    moments = ended.keys() - {"calm", "killed"}
    assert len(moments) == 8
    wanted = {"calm": 0, **dict.fromkeys(moments, signal.SIGKILL), "killed": 0}
    assert ended == wanted, logs
    calm, killed = (RunDirectory(tmp_path / name) for name in ("calm", "killed"))
    wanted, found = read_steps(calm.steps_file), read_steps(killed.steps_file)
    assert [line["step"] for line in wanted] == list(range(40))
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
