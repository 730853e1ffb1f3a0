"""The trained networks that a stage works with: are they there, and still the same?"""

from collections.abc import Sequence

from myxtts import UserError
from myxtts.training.checkpoints import described
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_named
from myxtts.training.start import Start


class NeededStages:
    """What the stages of a run need of the stages before them (`Stage.needs`)."""

    def __init__(self, run: RunDirectory, start: Start | None, form: str):
        self._run, self._start, self._form = run, start, form

    def digests(self, stage: str) -> dict[str, str | None]:
        """Which weights the stage works with, by the name of the stage they come from."""
        return {needed: self._digest(needed) for needed in stage_named(stage, self._form).needs}

    def refuse_missing(self, stages: Sequence[str]) -> None:
        """Raises `UserError` where one of the stages to train needs what is not there."""
        for stage in stages:
            for needed, digest in self.digests(stage).items():
                if needed not in stages and digest is None:
                    raise UserError(
                        f"the stage {stage} needs the result of the stage {needed}, which is not "
                        f"in {self._run.stage(needed)}; train {needed} first"
                    )

    def refuse_others(self, stage: str) -> None:
        """Raises `UserError` where the stage was trained with others than there are now."""
        record = self._run.record(stage)
        if record is None:
            return
        for needed, digest in self.digests(stage).items():
            if digest is None or record["identity"].get(needed) != digest:
                raise UserError(
                    f"the {stage} in {self._run.stage(stage)} was trained with another "
                    f"{needed} than the one there is now; delete that directory to train it anew"
                )

    def _digest(self, stage: str) -> str | None:
        """Of the stage's result, or of what the run starts from."""
        result = self._run.result(stage)
        if result is not None:
            return result["weights"]
        first = self._run.init / stage
        if not first.is_dir() and self._start is not None:
            first = self._start.weights.get(stage)
        return described(first)["digest"] if first is not None and first.is_dir() else None
