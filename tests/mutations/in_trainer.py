"""Mistakes in myxtts."""

from tests.mutations.mistake import Mistake

TRAINER = "myxtts"

MISTAKES = (
    # Training.
    Mistake(
        "a checkpoint's files are not compared with what was written",
        TRAINER,
        right="        if _digest(path) != wanted:\n",
        wrong="        if False:\n",
        tests="tests/myxtts/training/test_stage_checkpoints.py",
        keyword="damaged",
    ),
    Mistake(
        "the best that was moved away is lost by a kill",
        TRAINER,
        right="    if old.is_dir() and not best.exists():\n        os.rename(old, best)\n",
        wrong="",
        tests="tests/myxtts/training/test_stage_checkpoints.py",
        keyword="put_back",
    ),
    Mistake(
        "a resumed run begins its epoch anew",
        TRAINER,
        right="        position = functools.partial(progress.next_batch, per_epoch)\n",
        wrong="        position = 0\n",
        tests="tests/myxtts/training/test_killed.py tests/myxtts/training/test_stage_run.py",
    ),
    Mistake(
        "a signal that comes while workers meet is lost",
        TRAINER,
        right="            agreed = self.workers.meet(interruption.signal)\n",
        wrong="            agreed = interruption.signal = self.workers.meet(interruption.signal)\n",
        tests="tests/myxtts/training/test_stage_run.py",
        keyword="meet",
    ),
    Mistake(
        "steps that are not finite are counted",
        TRAINER,
        right="        counts = tf.cast(sane, tf.float32)\n",
        wrong="        counts = tf.ones([])\n",
        tests="tests/myxtts/training/test_loop.py",
    ),
    Mistake(
        "accumulated gradients are added up, not averaged",
        TRAINER,
        right="        scale = 1.0 / (self.config.grad_accum * self.loss_scale.scale)\n",
        wrong="        scale = 1.0 / self.loss_scale.scale\n",
        tests="tests/myxtts/training/test_loop.py",
    ),
    Mistake(
        "the average follows its weight from the beginning as at the end",
        TRAINER,
        right="(1.0 - tf.minimum(self.ema, passed / (9.0 + passed))) * counts",
        wrong="(1.0 - self.ema) * counts",
        tests="tests/myxtts/training/test_loop.py",
    ),
    Mistake(
        "the warm-up may be longer than the run",
        TRAINER,
        right="warm = tf.where(planned > 0, tf.minimum(warm, tf.maximum(1.0, planned / 5)), warm)",
        wrong="warm = tf.identity(warm)",
        tests="tests/myxtts/training/test_loop.py",
    ),
    Mistake(
        "stages together make more steps than were asked for",
        TRAINER,
        right="            limits.append(steps[at + 1] - steps[at])\n",
        wrong="            limits.append(steps[at + 1] - steps[at] + 1)\n",
        tests="tests/myxtts/training/test_stage_minutes.py",
        keyword="budget",
    ),
    Mistake(
        "a finished run takes another corpus for its own",
        TRAINER,
        right="            if theirs.get(name) != getattr(self, name):\n",
        wrong="            if False:\n",
        tests="tests/myxtts/training/test_stage_run.py",
        keyword="another",
    ),
    Mistake(
        "a finished stage takes another batch size for its own",
        TRAINER,
        right='    fixed["batches"]["batch_size"] = config.batch_size(stage)\n',
        wrong="",
        tests="tests/myxtts/training/test_stage_run.py",
        keyword="batch_size",
    ),
    Mistake(
        "the published optimizer's epsilon is Keras's",
        TRAINER,
        right="epsilon * tf.sqrt(1.0 - beta_2_power) if self._as_torch else epsilon",
        wrong="epsilon",
        tests="tests/myxtts/xtts_v2/test_optimizer.py",
    ),
    Mistake(
        "weight decay is for the vectors of published networks too",
        TRAINER,
        right="self.optimizer.exclude_from_weight_decay(var_list=not_decaying)",
        wrong="self.optimizer.exclude_from_weight_decay(var_list=not_decaying[:1])",
        tests="tests/myxtts/xtts_v2/test_optimizer.py",
    ),
    # Corpus and networks.
    Mistake(
        "held-out clips are trained on as well",
        TRAINER,
        right="return self.subset(np.flatnonzero(~out)), self.subset(np.flatnonzero(out))",
        wrong="return self, self.subset(np.flatnonzero(out))",
        tests="tests/myxtts/corpus",
        keyword="held or split or side",
    ),
    Mistake(
        "an epoch leaves out clips that fill no batch of their length",
        TRAINER,
        right="            rest = here[moving]\n",
        wrong="            rest = here[moving][:0]\n",
        tests="tests/myxtts/corpus/test_plan.py",
    ),
    Mistake(
        "the seed of sampling is the same at every step",
        "myxtts/model",
        right='tf.stack([settings["seed"], step]), minval=1e-20',
        wrong='tf.stack([settings["seed"], 0]), minval=1e-20',
        tests="tests/myxtts/model/test_sampling.py",
    ),
    Mistake(
        "top_k keeps one code more",
        TRAINER,
        right="kept = ordered >= ordered[:, top_k - 1, None]",
        wrong="kept = ordered >= ordered[:, tf.minimum(top_k, count - 1), None]",
        tests="tests/myxtts/model/test_sampling.py",
    ),
)
