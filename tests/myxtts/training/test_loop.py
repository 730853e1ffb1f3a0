"""The loop, the optimizer and the guard against numbers that are not finite, on a toy stage."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, MirroredDataModelSplitStrategy
from myxtts.model.whole_batch import total
from myxtts.training.config import StageConfig, TrainConfig
from myxtts.training.loop import Loop
from myxtts.training.optimizer import AveragingAdamW, Learner, scheduled_rate
from myxtts.training.stages import Stage

LEARNING = StageConfig(0.2, 1.0, warm_up_steps=2, weight_decay=0.1, clip_norm=0.5, ema=0.9)


class Affine(keras.Model):
    """Has a state beside its weights, as a codebook is."""

    def __init__(self):
        super().__init__()
        self.kernel = self.add_weight(shape=(1, 1), initializer=keras.initializers.Constant(0.5))
        self.bias = self.add_weight(shape=(1,), initializer="zeros")
        self.seen = self.add_weight(
            shape=(), initializer="zeros", trainable=False, aggregation="only_first_replica"
        )
        self.built = True

    def call(self, x):
        return x @ self.kernel + self.bias


class Line(Stage):
    """Learns y = 2 x + 1."""

    name = "tokenizer"
    parts = ("loss", "seen")
    held_out = ("error",)

    def __init__(self, learning=LEARNING):
        self.network, self.helpers = Affine(), {}
        self.networks = {"line": self.network}
        self.learners = {"line": Learner([self.network], learning)}

    def losses(self, batch, seed, phase):
        seen = self.network.seen
        seen.assign_add(total(tf.reduce_sum(batch["x"])))
        loss = tf.reduce_mean(tf.square(self.network(batch["x"]) - 2 * batch["x"] - 1))
        return {"line": loss}, {"loss": loss, "seen": tf.convert_to_tensor(seen)}

    def evaluate(self, batch):
        return {"error": tf.reduce_mean(tf.abs(self.network(batch["x"]) - 2 * batch["x"] - 1))}


def batches(size=4, bad=(), count=64, bad_rows=()):
    """Batch i has the key (0, 0, i); the numbers of those in `bad` are not finite, nor those of
    the rows in `bad_rows`, counted through all batches."""

    def make(i):
        x = tf.random.stateless_uniform([size, 1], [3, tf.cast(i, tf.int32)])
        rows = i * size + tf.range(size, dtype=tf.int64)[:, None]
        x = tf.where(
            tf.reduce_any(rows == tf.constant([[*bad_rows, -1]], tf.int64), 1, True),
            float("nan"),
            x,
        )
        spoilt = tf.reduce_any(tf.constant([*bad, -1], tf.int64) == i)
        key = tf.stack([0, 0, tf.cast(i, tf.int32)])
        return {"x": tf.where(spoilt, float("nan"), x), "key": tf.tile(key[None], [size, 1])}

    return tf.data.Dataset.range(count).map(make)


def loop_of(strategy=None, precision="float32", stage=Line, **settings):
    strategy = strategy or tf.distribute.OneDeviceStrategy("CPU:0")
    config = TrainConfig(**{"log_steps": 32, "max_steps": 32, **settings})
    with strategy.scope():
        loop = Loop(strategy, stage(), config, precision)
    loop.planned.assign(32)
    return loop


def trained(loop, dataset, steps, phase=0):
    iterator = iter(loop.strategy.experimental_distribute_dataset(dataset))
    for count in steps:
        loop.run(iterator, count, phase)
    return loop.records(0, int(loop.step.numpy()))


def state_of(loop):
    learner = loop.stage.learners["line"]
    variables = [*loop.stage.network.variables, *learner.optimizer.variables]
    return [np.array(v) for v in variables if "learning_rate" not in v.path]


def test_the_loop_learns_and_says_which_batch_each_step_trained_on():
    loop = loop_of()
    records = trained(loop, batches(), [1, 7, 24])
    assert [record["batch"] for record in records] == list(range(32))
    assert all(record["counts"] == 1 for record in records)
    assert records[-1]["loss"] < 0.05 * records[0]["loss"]
    rates = [record["learning_rate"] for record in records]
    assert rates[0] == pytest.approx(0.1) and max(rates) == pytest.approx(0.2)
    assert rates[-1] == pytest.approx(0.0, abs=1e-6)
    error = loop.evaluate(iter(loop.strategy.experimental_distribute_dataset(batches())), 8)
    with loop.averaged_weights():
        averaged = loop.evaluate(iter(loop.strategy.experimental_distribute_dataset(batches())), 8)
    assert error["error"] < 0.2 and averaged["error"] != error["error"]


@pytest.mark.parametrize("kind", ["mirrored", "split", "none"])
def test_every_strategy_gives_the_same_figures_bit_for_bit(kind):
    wanted = trained(loop_of(), batches(bad=[5]), [4, 8])
    strategy = {
        "mirrored": lambda: tf.distribute.MirroredStrategy(["CPU:0"]),
        "split": lambda: DataModelSplitStrategy("CPU:1", "CPU:2"),
        "none": tf.distribute.get_strategy,
    }[kind]()
    with tf.device("CPU:0"):  # where what has no strategy is else on a GPU
        found = trained(loop_of(strategy), batches(bad=[5]), [3, 9])
    for one, other in zip(wanted, found, strict=True):
        one.pop("wait_seconds"), other.pop("wait_seconds")
        np.testing.assert_array_equal(list(one.values()), list(other.values()))


def several(kind="mirrored"):
    if kind == "mirrored":
        return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    return MirroredDataModelSplitStrategy(["CPU:2"], ["CPU:0", "CPU:1"])


@pytest.mark.parametrize("accumulated", [1, 2])
def test_two_replicas_have_the_figures_of_one(accumulated):
    """Also where only the second one's rows are not finite: both leave the step out."""
    only_second = [batch * 4 + 3 for batch in (5, 6)]
    settings = {"grad_accum": accumulated, "precision": "float16"}
    one = loop_of(**settings)
    wanted = trained(one, batches(bad_rows=only_second), [4, 8])
    two = loop_of(several("split"), **settings)
    found = trained(two, batches(bad_rows=only_second), [3, 9])
    assert {record["counts"] for record in wanted} == {0.0, 1.0}
    for record, other in zip(wanted, found, strict=True):
        record.pop("wait_seconds"), other.pop("wait_seconds")
        np.testing.assert_allclose(list(record.values()), list(other.values()), rtol=1e-5)
    for state, other in zip(state_of(one), state_of(two), strict=True):
        np.testing.assert_allclose(state, other, rtol=1e-5)
    held_out = batches(6, count=4)
    errors = [
        loop.evaluate(iter(loop.strategy.experimental_distribute_dataset(held_out)), 4)["error"]
        for loop in (one, two)
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-5)


def test_a_step_that_is_not_finite_changes_nothing_and_is_counted():
    loop = loop_of()
    iterator = iter(loop.strategy.experimental_distribute_dataset(batches(bad=[3, 4])))
    loop.run(iterator, 3, 0)
    before = state_of(loop)
    loop.run(iterator, 2, 0)
    for one, other in zip(before, state_of(loop), strict=True):
        np.testing.assert_array_equal(one, other)
    loop.run(iterator, 1, 0)
    assert [record["counts"] for record in loop.records(0, 6)] == [1, 1, 1, 0, 0, 1]
    assert any((a != b).any() for a, b in zip(before, state_of(loop), strict=True))


def test_accumulating_gradients_is_training_on_the_batches_together():
    two = loop_of(grad_accum=2)
    records = trained(two, batches(4), [3, 5])
    assert [record["batch"] for record in records] == [1, 3, 5, 7, 9, 11, 13, 15]

    def joined(i):
        parts = [batches(4).skip(2 * i + k).take(1).get_single_element() for k in range(2)]
        return {name: tf.concat([part[name] for part in parts], 0) for name in parts[0]}

    together = [joined(i) for i in range(8)]
    dataset = tf.data.Dataset.from_tensor_slices(
        {name: tf.stack([batch[name] for batch in together]) for name in together[0]}
    )
    one = loop_of()
    wanted = trained(one, dataset, [8])
    np.testing.assert_allclose(
        [record["loss"] for record in records], [record["loss"] for record in wanted], rtol=1e-5
    )
    np.testing.assert_allclose(state_of(one)[0], state_of(two)[0], rtol=1e-4)


def test_a_step_of_several_batches_is_left_out_if_one_of_them_is_bad():
    loop = loop_of(grad_accum=2)
    records = trained(loop, batches(bad=[2]), [4])
    assert [record["counts"] for record in records] == [1, 0, 1, 1]
    assert np.isfinite(records[-1]["loss"])


def test_the_scale_of_float16_falls_after_bad_steps_and_grows_after_good_ones():
    loop = loop_of(precision="float16")
    start = float(loop.loss_scale.scale)
    trained(loop, batches(bad=[0, 1]), [3])
    assert float(loop.loss_scale.scale) == start / 4
    loop.loss_scale.well.assign(1999.0)
    trained(loop, batches(), [1])
    assert float(loop.loss_scale.scale) == start / 2
    plain = loop_of()
    wanted = trained(plain, batches(), [8])
    found = trained(loop_of(precision="float16"), batches(), [8])
    np.testing.assert_allclose(
        [record["loss"] for record in found], [record["loss"] for record in wanted], rtol=1e-5
    )


def test_one_trace_serves_every_shape_and_number_of_steps():
    traces = []

    class Counting(Line):
        def losses(self, batch, seed, phase):
            traces.append(phase)
            return super().losses(batch, seed, phase)

    def shaped(i):
        size = tf.cast(i % 3 + 2, tf.int32)
        key = tf.stack([0, 0, tf.cast(i, tf.int32)])
        return {"x": tf.ones([size, 1]), "key": tf.tile(key[None], [size, 1])}

    loop = loop_of(DataModelSplitStrategy("CPU:1", "CPU:2"), stage=Counting)
    trained(loop, tf.data.Dataset.range(64).map(shaped), [1, 2, 5, 9])
    assert len(traces) <= 2  # the loop's body may be traced once more to learn its shapes


def test_adamw_is_keras_adamw():
    mine, theirs = (
        keras.Variable(np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)) for _ in range(2)
    )
    settings = {"learning_rate": 0.01, "weight_decay": 0.1, "beta_2": 0.99}
    one = AveragingAdamW(ema=0.0, **settings)
    other = keras.optimizers.AdamW(**settings)
    for step in range(5):
        gradient = tf.random.stateless_normal([3, 4], [7, step])
        one.apply([gradient], [mine])
        other.apply([gradient], [theirs])
    np.testing.assert_allclose(mine, theirs, rtol=2e-6)


def test_averages_follow_faster_in_the_beginning():
    optimizer = AveragingAdamW(ema=0.99, learning_rate=0.1, weight_decay=0.0)
    weight = keras.Variable(np.float32([[1.0]]))
    optimizer.build([weight])
    seen, average = [], None
    for step in range(20):
        optimizer.apply([tf.constant([[1.0]])], [weight])
        seen.append(float(weight.numpy()[0, 0]))
        decay = min(0.99, step / (9 + step))
        average = seen[-1] if average is None else decay * average + (1 - decay) * seen[-1]
        assert float(optimizer.averages[0].numpy()[0, 0]) == pytest.approx(average, abs=1e-6)


@pytest.mark.parametrize("schedule", ["cosine", "noam", "constant"])
def test_rates_rise_and_then_follow_the_schedule(schedule):
    config = dataclasses.replace(LEARNING, schedule=schedule, warm_up_steps=10)
    rates = [
        float(scheduled_rate(config, tf.constant(i, tf.int64), tf.constant(100, tf.int64)))
        for i in range(100)
    ]
    assert np.argmax(rates) == 9 and rates[9] == pytest.approx(0.2)
    assert np.all(np.diff(rates[:10]) > 0)
    ends = {"cosine": 0.0, "noam": 0.2 * (10 / 100) ** 0.5, "constant": 0.2}
    assert rates[-1] == pytest.approx(ends[schedule], abs=1e-6)


def test_the_warm_up_does_not_depend_on_a_plan_that_is_not_made_yet():
    config = dataclasses.replace(LEARNING, warm_up_steps=10)
    for step in range(10):
        rates = [
            float(scheduled_rate(config, tf.constant(step, tf.int64), tf.constant(n, tf.int64)))
            for n in (0, 1000)
        ]
        assert rates[0] == rates[1]


def test_the_warm_up_takes_at_most_a_fifth_of_a_short_plan():
    config = dataclasses.replace(LEARNING, warm_up_steps=100, schedule="constant")
    rates = [float(scheduled_rate(config, tf.constant(i), tf.constant(25))) for i in range(25)]
    assert rates[3] < 0.2 and rates[4:] == pytest.approx([0.2] * 21)
