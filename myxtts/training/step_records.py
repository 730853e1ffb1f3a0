"""The figures of the steps: from the device into the log, TensorBoard and the progress."""

import time

from absl import logging

from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData
from myxtts.training.loop import COLUMNS, Loop
from myxtts.training.reports import Bar, Board
from myxtts.training.stage_checkpoints import Progress
from myxtts.training.step_log import StepLog

_WHOLE = ("counts", "epoch", "batch")


class TrainingFailed(Exception):
    """The training itself went wrong (commands exit with code 2): numbers that are not finite."""


class StepRecords:
    """Fetches the figures of the steps made since the last time.

    Call `fetch` every `log_steps` steps at least, because the device keeps no more; it waits for
    the device.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        data: StageData,
        config: TrainConfig,
        progress: Progress,
        log: StepLog,
        board: Board,
        bar: Bar,
    ):
        self._loop, self._data, self._config, self._progress = loop, data, config, progress
        self._log, self._board, self._bar = log, board, bar
        self._stage = loop.stage
        self._until = progress.step
        self._since = time.perf_counter()

    def restart_clock(self) -> None:
        """Leaves out the time since the last `fetch`, in which no step was made."""
        self._since = time.perf_counter()

    def fetch(self, *, timed: bool = True) -> None:
        """`timed` is whether the time since the last fetch was spent on steps, not on tracing."""
        progress, first = self._progress, self._until
        if first == progress.step:
            return
        records = self._loop.records(first, progress.step)
        now = time.perf_counter()
        seconds, self._since, self._until = now - self._since, now, progress.step
        self._follow_position(records[-1])
        self._log.write(
            first,
            [{n: int(v) if n in _WHOLE else v for n, v in record.items()} for record in records],
        )
        waited = sum(record["wait_seconds"] for record in records)
        if timed:
            progress.waited += waited
            progress.stepping += seconds
        # Skipped steps say nothing about the others.
        counted = [record for record in records if record["counts"]] or records
        progress.recent = {
            name: sum(record[name] for record in counted) / len(counted)
            for name in self._loop.columns
            if name == "learning_rate" or name not in COLUMNS
        }
        share = waited / max(seconds, 1e-9)
        figures = dict(progress.recent)
        if timed:
            figures |= {"time/step_ms": 1e3 * seconds / len(records), "time/wait_share": share}
        self._look_for_skipped(first, records)
        self._board.figures(progress.step, {**figures, "skipped": progress.skipped})
        self._bar.show(progress.recent[self._stage.parts[0]], share)

    def _follow_position(self, last: dict) -> None:
        """Sets the position to that of the batch that the device has trained on."""
        progress, per_epoch = self._progress, self._data.plan.batches_per_epoch
        wanted = progress.step * self._config.grad_accum
        if self._config.data_service:  # its batches come in any order
            progress.trained_on = divmod(wanted - 1, per_epoch)
            return
        progress.trained_on = (int(last["epoch"]), int(last["batch"]))
        if progress.next_batch(per_epoch) != wanted:
            raise RuntimeError(
                f"step {progress.step} trained on batch {progress.trained_on}, after which comes "
                f"number {progress.next_batch(per_epoch)}, not {wanted}"
            )

    def _look_for_skipped(self, first: int, records: list[dict]) -> None:
        progress = self._progress
        for step, record in enumerate(records, first):
            if record["counts"]:
                progress.skipped_in_row = 0
                continue
            progress.skipped += 1
            progress.skipped_in_row += 1
            where = int(record["epoch"]), int(record["batch"])
            if progress.skipped_in_row == 1:
                logging.warning(
                    "%s: step %d was left out, its gradients are not finite (epoch %d, batch %d)",
                    self._stage.name,
                    step,
                    *where,
                )
            if progress.skipped_in_row >= self._config.max_skipped:
                raise TrainingFailed(self._failure(step, *where))

    def _failure(self, step: int, epoch: int, batch: int) -> str:
        clips = self._data.clips_of(epoch, batch)
        paths = [self._data.corpus.paths[clip] for clip in clips[:3]] + ["..."] * (len(clips) > 3)
        return (
            f"{self._stage.name}: {self._progress.skipped_in_row} steps in a row had gradients "
            f"that are not finite, the last one step {step} (epoch {epoch}, batch {batch}) with "
            f"the clips {', '.join(map(str, clips))} ({', '.join(paths)}); lower the learning "
            "rate, or look at these clips. The checkpoints are as they were"
        )
