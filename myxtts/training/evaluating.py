"""How good the averaged weights are on the held-out clips, now and then while a stage trains."""

from typing import TYPE_CHECKING

import tensorflow as tf
from absl import logging

if TYPE_CHECKING:
    from myxtts.training.stage_run import StageRun


def evaluate(run: "StageRun") -> None:
    """Notes the figures in the run's progress; the best weights are kept."""
    run.fetch()
    progress, stage = run.progress, run.stage
    if run.held_out is None:
        _complain(run, progress.recent)
        return
    if progress.evaluations and progress.evaluations[-1]["step"] == progress.step:
        return
    run.says("held-out clips")
    count = run.held_out.plan.batches_per_epoch
    if run.held_out_batches is None:
        run.held_out_batches = _distributed(run, count)
    batches = iter(run.held_out_batches)
    with run.loop.averaged_weights():
        figures = run.loop.evaluate(batches, count)
    progress.evaluations.append({"step": progress.step, **figures})
    run.board.figures(progress.step, figures, held_out=True)
    logging.info(
        "%s: step %d, held out: %s",
        stage.name,
        progress.step,
        ", ".join(f"{name} {value:.4f}" for name, value in figures.items()),
    )
    _complain(run, figures)
    value = figures[stage.held_out[0]]
    progress.evaluations_since_best += 1
    if progress.best is None or value < progress.best:
        progress.best, progress.best_step, progress.best_figures = value, progress.step, figures
        progress.evaluations_since_best = 0
        run.checkpoints.save_best(progress)
    run.records.restart_clock()


def _distributed(run: "StageRun", count: int):
    """The held-out batches; every worker has the same number of parts of each."""
    options = {"augmented": False, "count": count}
    if run.config.data_service is None or run.workers.count == 1:
        return run.distributed(run.held_out, 0, **options)

    def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        each = context.num_replicas_in_sync // context.num_input_pipelines
        first = each * context.input_pipeline_id
        parts = first, first + each, context.num_replicas_in_sync
        with run.strategy.scope():
            return run.held_out.batches(run.stage, parts=parts, **options)

    # If all share one dataset, the service gives one worker more batches than another.
    return run.strategy.distribute_datasets_from_function(of_worker)


def _complain(run: "StageRun", figures: dict) -> None:
    for sentence in run.stage.complaints(run.config, figures):
        logging.warning("%s: step %d: %s", run.stage.name, run.progress.step, sentence)
