"""The stages of a published XTTS v2 on two replicas with unequal shares: the losses of one."""

import pytest

from dual_device_strategy import MirroredDataModelSplitStrategy
from myxtts.training.run_directory import RunDirectory
from myxtts.training.start import start_of
from myxtts.training.step_log import read_steps
from tests.myxtts.training.fine_tuning import trainer

STEPS = 2  # the second one is made with weights that the first one changed


@pytest.mark.slow
@pytest.mark.usefixtures("no_samples")
@pytest.mark.parametrize(
    ("stage", "settings", "rel"), [("gpt", {"rank": 2}, 1e-5), ("vocoder", {}, 1e-4)]
)
def test_two_replicas_have_the_losses_of_one(
    start_directory, clips, tmp_path, stage, settings, rel
):
    start, alone = start_of(start_directory), (clips[0], None)
    two = MirroredDataModelSplitStrategy(["CPU:3"], ["CPU:1", "CPU:2"], shares=(0.75, 0.25))
    found = []
    for name, strategy in (("one", None), ("two", two)):
        path = tmp_path / name
        made = trainer(
            path, start, alone, strategy=strategy, max_steps=STEPS, dropout=0.0, **settings
        )
        made.run([stage])
        found.append(list(read_steps(RunDirectory(path).steps_file)))
    assert len(found[0]) == len(found[1]) == STEPS
    for one, other in zip(*found, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=rel)
        norms = [name for name in one if name.endswith("_norm")]
        for name in norms:
            assert other[name] == pytest.approx(one[name], rel=100 * rel), name
