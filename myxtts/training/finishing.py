"""What comes after the last step of a stage: its figures, samples, checkpoint and result."""

import itertools
import json
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from absl import logging

from myxtts.config import to_json, write_whole
from myxtts.training.networks import parameters
from myxtts.training.reports import Parts

if TYPE_CHECKING:
    from myxtts.training.stage_run import StageRun

# Clips by which a stage is judged: two vocoders differ by more than these leave open, and
# Griffin-Lim takes half a second for each.
_JUDGED = 8


def finish(run: "StageRun", reason: str) -> dict:
    """Ends the stage and returns its result, which is also in finished.json then.

    Of several workers the chief judges and writes; the others wait for it, and read.
    `reason`: why it ends.
    """
    began = time.perf_counter()
    run.shares.end(run.progress.step)
    with Parts(f"{run.stage.name}, after its steps", 4, run.bar_shown) as parts:
        parts.begin("held-out clips")
        run.evaluate()
        parts.begin("samples")
        run.show()
        parts.begin("checkpoint")
        run.save()
        if run.held_out is None:
            run.progress.best_step = run.progress.step
            run.checkpoints.save_best(run.progress)
        if run.workers.chief:
            _judge(run, reason, began, parts)
        run.workers.wait()
    return run.run.result(run.stage.name)


def _judge(run: "StageRun", reason: str, began: float, parts: Parts) -> None:
    """Writes finished.json."""
    progress, stage = run.progress, run.stage
    weights = run.checkpoints.load_best()["digest"]
    parts.begin("judging")
    judged = stage.judge(_judged(run))
    untrained = _untrained(run)
    figures = progress.best_figures or progress.recent
    complaints = [*filter(None, [untrained]), *stage.complaints(run.config, figures)]
    if untrained:
        logging.warning("%s: %s", stage.name, untrained)
    result = {
        "stage": stage.name,
        "steps": progress.step,
        "reason": reason,
        "seconds": round(run.seconds(), 1),
        "seconds_before": round(progress.preparing, 1),
        "seconds_in_steps": round(progress.stepping, 1),
        "seconds_after": round(time.perf_counter() - began, 1),
        "wait_share": progress.waited / max(progress.stepping, 1e-9),
        "skipped": progress.skipped,
        "untrained": untrained is not None,
        "complaints": complaints,
        "best_step": progress.best_step,
        "held_out": progress.best_figures,
        "evaluations": progress.evaluations,
        "training": progress.recent,
        "devices": run.monitor and run.monitor.report(),
        "shares": run.shares.chosen,
        "parameters": {n: parameters(net) for n, net in stage.networks.items()},
        "weights": weights,
        "identity": run.checkpoints.identity,
        "config": to_json(run.config),
        **judged,
    }
    text = json.dumps(result, indent=1)
    write_whole(run.run.stage(stage.name) / "finished.json", text + "\n")


def _untrained(run: "StageRun") -> str | None:
    """The sentence for a stage that has hardly begun to learn."""
    # In a short stage the rate rises sooner: after 134 steps a vocoder's loss is three quarters of
    # the first one.
    needed = run.config.stage(run.stage.name).warm_up_steps // 2
    begun = run.run.init.exists()  # with weights that somebody trained
    if begun or run.progress.step >= needed:
        return None
    return (
        f"it is untrained: it made {run.progress.step:,} steps, fewer than {needed:,} (half of "
        f"--lr_warm_up_steps); give it more time (--max_minutes) or a larger "
        f"--{run.stage.name}_share"
    )


def _judged(run: "StageRun") -> Iterable[Mapping]:
    """Whole held-out clips, from the batches of the shortest ones and of middle length."""
    if run.held_out is None:
        return [run.exhibits.clips]
    count = run.held_out.plan.batches_per_epoch
    batches = run.held_out.batches(None, augmented=False, count=count)
    each = _JUDGED // min(2, count)
    chosen = (batch for number, batch in enumerate(batches) if number in (0, count // 2))
    chosen = itertools.islice(chosen, 2)
    return ({name: value[:each] for name, value in batch.items()} for batch in chosen)
