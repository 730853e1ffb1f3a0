"""The mistakes. A snippet is searched in the whole package (or folder), so files may move."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mistake:
    """What is put in the place of what, and where the tests are that must notice.

    `keyword` chooses among those tests, as `pytest -k`; where it chooses none, all are run.
    """

    name: str
    package: str
    right: str
    wrong: str
    tests: str
    keyword: str = ""


STRATEGY, TRAINER = "dual_device_strategy", "myxtts"

MISTAKES = (
    # What came out of the strategy's type specs and of its end of sequence.
    Mistake(
        "a function takes the first dataset's front end for all",
        STRATEGY,
        "return type(other) is type(self) and other._identity() == self._identity()",
        "return type(other) is type(self)",
        "tests/dual_device_strategy/test_same_results.py",
    ),
    Mistake(
        "the common type of several datasets is the first one's",
        STRATEGY,
        "return self if all(self.is_subtype_of(other) for other in others) else None",
        "return self",
        "tests/dual_device_strategy/test_same_results.py",
    ),
    Mistake(
        "all stages have the same number in the type",
        STRATEGY,
        "return self._dataset._staging.number, None if cardinality is None else int(cardinality)",
        "return 0, None if cardinality is None else int(cardinality)",
        "tests/dual_device_strategy/test_same_results.py",
    ),
    Mistake(
        "an OutOfRange in the front end ends the epoch",
        STRATEGY,
        "                _refuse_mark(others[0], failed)",
        "                pass",
        "tests/dual_device_strategy/test_out_of_range.py",
    ),
    Mistake(
        "skip behind state is let through",
        STRATEGY,
        "                _refuse_skip(op, functions)",
        "                pass",
        "tests/dual_device_strategy/test_same_results.py",
    ),
    # The strategy.
    Mistake(
        "front ends run in the wrong order",
        STRATEGY,
        "    for op in reversed(behind):",
        "    for op in behind:",
        "tests/dual_device_strategy/test_front_end.py",
    ),
    Mistake(
        "take behind the front end takes one more",
        STRATEGY,
        "host.take(compat.count_of(op))",
        "host.take(compat.count_of(op) + 1)",
        "tests/dual_device_strategy/test_front_end.py",
    ),
    Mistake(
        "one slot more than asked for",
        STRATEGY,
        "        ready = self.slots - 2\n",
        "        ready = self.slots - 1\n",
        "tests/dual_device_strategy/test_slots.py tests/dual_device_strategy/test_staging.py",
    ),
    Mistake(
        "data_scope changes nothing",
        STRATEGY,
        "        self._scopes.on_data_device = True\n",
        "        self._scopes.on_data_device = False\n",
        "tests/dual_device_strategy/test_strategy.py tests/dual_device_strategy/test_front_end.py",
    ),
    Mistake(
        "variables of a nested data_scope stay there",
        STRATEGY,
        "            self._scopes.on_data_device = before\n",
        "            pass\n",
        "tests/dual_device_strategy/test_strategy.py tests/dual_device_strategy/test_front_end.py",
    ),
    # Around it.
    Mistake(
        "the pair with the worst link is chosen",
        STRATEGY,
        "return min(itertools.combinations(sorted(among), 2), key=rank)",
        "return max(itertools.combinations(sorted(among), 2), key=rank)",
        "tests/dual_device_strategy",
        "pair_with_the_best_link or more_nvlinks or only_the_gpus",
    ),
    Mistake(
        "the card with less memory trains",
        STRATEGY,
        'lower_trains = "the card with more memory trains", memory[0] > memory[1]',
        'lower_trains = "the card with more memory trains", memory[0] < memory[1]',
        "tests/dual_device_strategy/devices",
    ),
    Mistake(
        "the same GPU twice is a pair",
        STRATEGY,
        "    if data_gpu == model_gpu:\n",
        "    if False:\n",
        "tests/dual_device_strategy",
        "every_mistake_ends_a_command",
    ),
    Mistake(
        "validation does not compare what arrived",
        STRATEGY,
        "            not bad,\n",
        "            True,\n",
        "tests/dual_device_strategy/test_validate.py",
        "damaged",
    ),
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
