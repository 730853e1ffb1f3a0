"""Mistakes in myxtts."""

from tests.mutations.mistake import Mistake

TRAINER = "myxtts"

MISTAKES = (
    # Training.
    Mistake(
        "a checkpoint's files are not compared with what was written",
        TRAINER,
        "        if _digest(path) != wanted:\n",
        "        if False:\n",
        "tests/myxtts/training/test_stage_run.py",
        "damaged",
    ),
    Mistake(
        "the best that was moved away is lost by a kill",
        TRAINER,
        "    if old.is_dir() and not best.exists():\n        os.rename(old, best)\n",
        "",
        "tests/myxtts/training/test_stage_run.py",
        "put_back",
    ),
    Mistake(
        "a resumed run begins its epoch anew",
        TRAINER,
        "        position = progress.next_batch(self.data.plan.batches_per_epoch)\n",
        "        position = 0\n",
        "tests/myxtts/training/test_killed.py tests/myxtts/training/test_stage_run.py",
    ),
    Mistake(
        "steps that are not finite are counted",
        TRAINER,
        "        counts = tf.cast(sane, tf.float32)\n",
        "        counts = tf.ones([])\n",
        "tests/myxtts/training/test_loop.py",
    ),
    Mistake(
        "accumulated gradients are added up, not averaged",
        TRAINER,
        "        scale = 1.0 / (self.config.grad_accum * self.loss_scale.scale)\n",
        "        scale = 1.0 / self.loss_scale.scale\n",
        "tests/myxtts/training/test_loop.py",
    ),
    Mistake(
        "the average follows its weight from the beginning as at the end",
        TRAINER,
        "share = 1.0 - tf.minimum(self.ema, passed / (9.0 + passed))",
        "share = 1.0 - tf.cast(self.ema, kind)",
        "tests/myxtts/training/test_loop.py",
    ),
    Mistake(
        "the warm-up may be longer than the run",
        TRAINER,
        "warm = tf.where(planned > 0, tf.minimum(warm, tf.maximum(1.0, planned / 5)), warm)",
        "warm = tf.identity(warm)",
        "tests/myxtts/training/test_loop.py",
    ),
    Mistake(
        "stages together make more steps than were asked for",
        TRAINER,
        "            limits.append(steps[at + 1] - steps[at])\n",
        "            limits.append(steps[at + 1] - steps[at] + 1)\n",
        "tests/myxtts/training/test_stage_run.py",
        "budget",
    ),
    Mistake(
        "a finished run takes another corpus for its own",
        TRAINER,
        "            if theirs.get(name) != getattr(self, name):\n",
        "            if False:\n",
        "tests/myxtts/training/test_stage_run.py",
        "another",
    ),
    Mistake(
        "a finished stage takes another batch size for its own",
        TRAINER,
        '    fixed["batches"]["batch_size"] = config.batch_size(stage)\n',
        "",
        "tests/myxtts/training/test_stage_run.py",
        "batch_size",
    ),
    Mistake(
        "the published optimizer's epsilon is Keras's",
        TRAINER,
        "epsilon * tf.sqrt(1.0 - beta_2_power) if self._as_torch else epsilon",
        "epsilon",
        "tests/myxtts/xtts_v2/test_optimizer.py",
    ),
    Mistake(
        "weight decay is for the vectors of published networks too",
        TRAINER,
        "self.optimizer.exclude_from_weight_decay(var_list=not_decaying)",
        "self.optimizer.exclude_from_weight_decay(var_list=not_decaying[:1])",
        "tests/myxtts/xtts_v2/test_optimizer.py",
    ),
    # Corpus and networks.
    Mistake(
        "held-out clips are trained on as well",
        TRAINER,
        "return self.subset(np.flatnonzero(~out)), self.subset(np.flatnonzero(out))",
        "return self, self.subset(np.flatnonzero(out))",
        "tests/myxtts/corpus",
        "held or split or side",
    ),
    Mistake(
        "an epoch leaves out clips that fill no batch of their length",
        TRAINER,
        "            rest = here[moving]\n",
        "            rest = here[moving][:0]\n",
        "tests/myxtts/corpus/test_plan.py",
    ),
    Mistake(
        "the seed of sampling is the same at every step",
        "myxtts/model",
        'tf.stack([settings["seed"], step]), minval=1e-20',
        'tf.stack([settings["seed"], 0]), minval=1e-20',
        "tests/myxtts/model/test_sampling.py",
    ),
    Mistake(
        "top_k keeps one code more",
        TRAINER,
        "(place < tf.where(top_k > 0, top_k, count))",
        "(place <= tf.where(top_k > 0, top_k, count))",
        "tests/myxtts/model/test_sampling.py",
    ),
)
