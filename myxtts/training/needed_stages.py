"""The trained networks that a stage works with: are they there, and still the same?"""

from collections.abc import Sequence

from myxtts import UserError
from myxtts.training.checkpoints import described
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_named
from myxtts.training.start import Start


class NeededStages:
    """What the stages of a run need of the stages before them (`Stage.needs`, `Stage.uses`)."""

    def __init__(self, run: RunDirectory, start: Start | None, form: str):
        self._run, self._start, self._form = run, start, form

    def digests(self, stage: str) -> dict[str, str | None]:
        """Which weights the stage works with, by the name of the stage they come from."""
        declared = stage_named(stage, self._form)
        return {needed: self._digest(needed) for needed in (*declared.needs, *declared.uses)}

    def refuse_missing(self, stages: Sequence[str]) -> None:
        """Raises `UserError` where one of the stages to train needs what is not there."""
        for stage in stages:
            declared = stage_named(stage, self._form)
            for needed, digest in self.digests(stage).items():
                if needed in stages:
                    continue
                if needed in declared.needs and digest is None:
                    raise UserError(
                        f"the stage {stage} needs the result of the stage {needed}, which is not "
                        f"in {self._run.stage(needed)}; train {needed} first"
                    )
                if needed in declared.uses:
                    self._refuse_unfit(stage, needed)

    def refuse_others(self, stage: str) -> None:
        """Raises `UserError` where the stage was trained with others than there are now."""
        record = self._run.record(stage)
        if record is None:
            return
        needs = stage_named(stage, self._form).needs
        for needed, digest in self.digests(stage).items():
            lacks = digest is None and needed in needs
            if lacks or record["identity"].get(needed) != digest:
                raise UserError(
                    f"the {stage} in {self._run.stage(stage)} was trained with another "
                    f"{needed} than the one there is now; delete that directory to train it anew"
                )

    def _refuse_unfit(self, stage: str, used: str) -> None:
        """Where a stage that is used is not done, or was not trained with those that it uses."""
        record = self._run.record(used)
        if record is not None and self._run.result(used) is None:
            raise UserError(
                f"the stage {stage} works with the {used}, whose training in "
                f"{self._run.stage(used)} was not finished; finish {used} first"
            )
        trained_with = record["identity"] if record is not None else {}
        for other, digest in self.digests(used).items():
            if digest is not None and trained_with.get(other) != digest:
                raise UserError(
                    f"the stage {stage} works with the {used}, which was not trained with the "
                    f"{other} that is in {self._run.stage(other)}; train {used} first"
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
