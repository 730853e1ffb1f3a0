"""`shares="auto"`: epochs are timed, and the shares follow."""

import functools
import time
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    MirroredDataModelSplitStrategy,
    data_scope,
    emulation,
    on_data_device,
)
from dual_device_strategy.replicas import share_tuning
from dual_device_strategy.replicas.plans import Costs, Plan, Roles, best, equal, fitted, step_ms
from tests.dual_device_strategy.test_mirrored import front_end, signals, train
from tests.share_times import pretend

ROLES = Roles(("B",), ("A", "B"))
SHARED = (["CPU:1"], ["CPU:2", "CPU:1"])


@pytest.mark.parametrize(
    ("costs", "rows", "all_prepare"),
    [
        (Costs(0, 0, 0, 40), (12, 12), False),
        (Costs(20, 0, 0, 60), (16, 8), False),
        (Costs(25, 5, 5, 60), (17, 7), False),
        (Costs(25, 5, 5, 40), (20, 4), False),
        (Costs(4, 0, 0, 80), (12, 12), True),
        (Costs(30, 0, 0, 20), (12, 12), True),
    ],
)
def test_the_best_plan_follows_from_the_costs(costs, rows, all_prepare):
    plans = [best(ROLES, costs, 24, all_prepare=kind) for kind in (False, True)]
    assert min(plans, key=lambda plan: step_ms(ROLES, costs, plan)) == Plan(all_prepare, rows)


def test_no_other_rows_would_be_faster():
    roles = Roles(("A", "B"), ("B", "C", "D"))
    costs = Costs(30, 2, 3, 50)
    chosen = best(roles, costs, rows=11)
    others = [
        step_ms(roles, costs, Plan(False, (i, j, 11 - i - j)))
        for i in range(1, 10)
        for j in range(1, 11 - i)
    ]
    assert step_ms(roles, costs, chosen) == min(others)


def test_times_of_two_epochs_tell_what_a_step_takes_whatever_its_rows():
    true = Costs(25, 5, 5, 60)
    tried = [equal(ROLES, 24), Plan(False, (16, 8))]
    observed = [(plan, step_ms(ROLES, true, plan)) for plan in tried]
    found = fitted(ROLES, observed, front_end=25, front_fixed=5)
    assert found.step == pytest.approx(60, rel=0.02)
    assert found.step_fixed == pytest.approx(5, abs=1)
    assert best(ROLES, found, rows=24) == Plan(False, (17, 7))


def settled(costs, rows, *, own_ms=None, disturbed=None):
    """The rows that are chosen in the end, and the plans that were tried.

    Where devices may prepare their own rows, that takes `own_ms`; epoch `disturbed` takes longer.
    """
    pieces = None if own_ms is None else lambda rows: []
    tuning = share_tuning.ShareTuning(
        share_tuning.ShareChoice(), None, ROLES, rows=rows, endless=True, front_end=None,
        pieces=pieces,
    )  # fmt: skip
    tuning._front_end_ms = costs.front_end
    tried = []
    while not tuning.settled:
        tried.append(tuning.plan)
        ms = own_ms if tuning.plan.all_prepare else step_ms(ROLES, costs, tuning.plan)
        tuning.learn(1.3 * ms if len(tried) == disturbed else ms, 24)
    return tuning.plan.rows, tried


def test_a_first_epoch_that_was_disturbed_is_timed_again():
    rows, tried = settled(Costs(32, 0, 5, 46), rows=16, disturbed=1)
    assert rows == best(ROLES, Costs(32, 0, 5, 46), 16).rows == (14, 2)
    assert tried.count(equal(ROLES, 16)) == 2


def test_the_time_of_own_rows_says_nothing_of_other_rows():
    costs = Costs(13, 0, 5, 32)
    rows, tried = settled(costs, rows=16, own_ms=5 + (13 + 32) / 2 + 3)
    assert rows == best(ROLES, costs, 16).rows == (11, 5)
    assert Plan(True, (8, 8)) in tried


def test_batches_that_arrive_in_pairs_are_a_step_apart_on_average(monkeypatch):
    """Two are copied at once, and a step may wait for the front end of every second batch."""
    learnt = []
    monkeypatch.setattr(share_tuning.ShareTuning, "learn", lambda _, ms, count: learnt.append(ms))
    arrivals = np.cumsum([0.035, 0.005] * 12)
    counts = SimpleNamespace(arrived=0, times=tf.constant(arrivals))
    tuning = share_tuning.ShareTuning(
        share_tuning.ShareChoice(), counts, ROLES, rows=16, endless=True,
        front_end=SimpleNamespace(milliseconds=lambda: 10.0), pieces=None,
    )  # fmt: skip
    tuning.choose()
    counts.arrived = len(arrivals)
    tuning.choose()
    assert learnt == [pytest.approx(20)]


@pytest.fixture
def times(monkeypatch):
    """Lets devices take the times that are given, and not those that they take."""
    return functools.partial(pretend, monkeypatch)


def test_a_disturbed_epoch_is_not_held_against_its_shares(times):
    measured = times(Costs(20, 0, 0, 60), disturbed=2)
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares="auto")
    dataset = tf.data.Dataset.range(96).map(lambda i: tf.cast(i, tf.float32)).batch(24)
    distributed = strategy.experimental_distribute_dataset(
        dataset.apply(on_data_device(lambda x: x - tf.reduce_mean(x)))
    )
    for _ in range(4):
        rows_of(strategy, distributed)
    assert [plan.rows for plan in measured] == [(12, 12), (16, 8), (16, 8)]
    assert strategy.share_choice.settled
    assert strategy.share_choice.plan.rows == (16, 8)


def test_the_choice_is_of_the_dataset_with_the_longest_epochs_which_may_change_it():
    choice = share_tuning.ShareChoice()
    training, validation = object(), object()
    for plan, settled, batches, of in (
        (Plan(False, (12, 12)), False, 26, training),
        (Plan(False, (20, 4)), True, 5, validation),
        (Plan(False, (16, 8)), True, 24, training),
    ):
        choice.note(plan, settled, batches, chosen_by=of)
        assert choice.plan.rows != (20, 4)
    assert choice.settled
    assert choice.plan.rows == (16, 8)


def rows_of(strategy, distributed):
    """How many rows each replica has in the first batch of an epoch, and all rows' sum."""
    batches = [strategy.experimental_local_results(batch) for batch in distributed]
    rows = tuple(int(piece.shape[0]) for piece in batches[0])
    return rows, sum(float(tf.reduce_sum(piece)) for pieces in batches for piece in pieces)


def test_shares_change_between_epochs_until_nothing_is_gained(times):
    times(Costs(25, 5, 5, 60))
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares="auto")
    dataset = tf.data.Dataset.range(100).map(lambda i: tf.cast(i, tf.float32)).batch(24)
    distributed = strategy.experimental_distribute_dataset(
        dataset.apply(on_data_device(lambda x: 2 * x - tf.reduce_mean(x)))  # not row by row
    )
    seen = [rows_of(strategy, distributed) for _ in range(4)]
    assert [rows for rows, _ in seen] == [(12, 12), (16, 8), (17, 7), (17, 7)]
    assert strategy.shares == (17 / 24, 7 / 24)
    np.testing.assert_allclose([total for _, total in seen], 4950, rtol=1e-5)


def test_each_device_prepares_its_own_rows_where_that_is_faster(times):
    times(Costs(30, 0, 0, 20))
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares="auto")
    dataset = signals(50, 16).apply(on_data_device(front_end))
    one = tf.distribute.OneDeviceStrategy("CPU:0")
    losses, weights = train(strategy, dataset, 16)
    assert strategy.share_choice.plan == Plan(True, (8, 8))
    expected, expected_weights = train(one, signals(50, 16).map(front_end), 16)
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda x: x - tf.reduce_mean(x),
        lambda x: x + tf.random.normal(tf.shape(x), seed=3),
        lambda x: x + tf.random.stateless_normal(tf.shape(x), [1, 2]),
    ],
)
def test_a_front_end_that_sees_the_whole_batch_is_left_to_the_data_device(times, prepare):
    times(Costs(30, 0, 0, 20))
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares="auto")
    dataset = tf.data.Dataset.range(64).map(lambda i: tf.cast(i, tf.float32)).batch(16)
    distributed = strategy.experimental_distribute_dataset(dataset.apply(on_data_device(prepare)))
    for _ in range(3):
        rows_of(strategy, distributed)
    assert not strategy.share_choice.plan.all_prepare


def test_a_checkpoint_brings_the_shares_back(times, tmp_path):
    measured = times(Costs(20, 0, 0, 60))
    dataset = tf.data.Dataset.range(96).map(lambda i: tf.cast(i, tf.float32)).batch(24)
    dataset = dataset.apply(on_data_device(lambda x: x - tf.reduce_mean(x)))
    first = MirroredDataModelSplitStrategy(*SHARED, shares="auto")
    distributed = first.experimental_distribute_dataset(dataset)
    for _ in range(3):
        rows_of(first, distributed)
    path = tf.train.Checkpoint(shares=first.share_choice).write(str(tmp_path / "shares"))
    measured.clear()
    second = MirroredDataModelSplitStrategy(*SHARED, shares="auto")
    distributed = second.experimental_distribute_dataset(dataset)
    tf.train.Checkpoint(shares=second.share_choice).read(path).assert_consumed()
    assert [rows_of(second, distributed)[0] for _ in range(2)] == [(16, 8)] * 2
    assert not measured


@pytest.mark.parametrize("costs", [Costs(20, 0, 0, 60), Costs(30, 0, 0, 20)])
def test_fit_has_the_gradients_of_one_device_while_shares_change(times, costs):
    def fitted_weights(strategy, dataset):
        with strategy.scope():
            model = keras.Sequential([keras.layers.Dense(4, kernel_initializer="ones")])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(keras.optimizers.SGD(0.1), loss)
        model.fit(dataset, epochs=3, verbose=0)
        return model.get_weights()

    times(costs)
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares="auto")
    batches = signals(48, 16, drop_remainder=True)
    dataset = batches.apply(on_data_device(front_end)).apply(strategy.row_weights)
    trained = fitted_weights(strategy, dataset)
    assert strategy.share_choice.plan != Plan(False, (8, 8))
    expected = fitted_weights(tf.distribute.OneDeviceStrategy("CPU:0"), batches.map(front_end))
    for one, other in zip(trained, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_divided_is_refused_in_one_sentence():
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares="auto")
    with strategy.scope(), data_scope():
        tf.Variable(1.0)  # no matter
    unknown = tf.data.Dataset.from_generator(
        lambda: iter([[1, 2]]), output_signature=tf.TensorSpec([None])
    )
    for dataset, said in (
        (tf.data.Dataset.range(8).batch(1), r"of a batch of 1 rows are \[1, 0\] rows"),
        (unknown, "cannot tell how many rows"),
    ):
        with pytest.raises(ValueError, match=said) as raised:
            strategy.experimental_distribute_dataset(dataset)
        assert "\n" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.timing
def test_a_step_is_shorter_than_without_shares():
    rows, count = 24, 16
    row = tf.data.Dataset.from_tensors(tf.zeros([64])).repeat(rows * count)

    def of_rows(x, ms):
        return emulation.timed(x, ms * x.shape[0] / rows)

    dataset = row.batch(rows, drop_remainder=True)
    dataset = dataset.apply(on_data_device(lambda x: of_rows(x, 40)))

    def epochs(strategy):
        """A function that runs an epoch and returns the milliseconds of a step."""

        @tf.function
        def step(batch):
            def of_replica(x):
                total = tf.reduce_sum(of_rows(x, 240))
                return tf.distribute.get_replica_context().all_reduce("SUM", total)

            return strategy.reduce("SUM", strategy.run(of_replica, (batch,)), axis=None)

        distributed = strategy.experimental_distribute_dataset(dataset)

        def epoch():
            begin = time.perf_counter()
            for batch in distributed:
                float(step(batch))
            return 1e3 * (time.perf_counter() - begin) / count

        return epoch

    split = epochs(DataModelSplitStrategy("GPU:1", "GPU:0"))
    shared = MirroredDataModelSplitStrategy(["GPU:1"], ["GPU:0", "GPU:1"], shares="auto")
    auto = epochs(shared)
    while not shared.share_choice.settled:
        auto()
    split()
    assert auto() < 0.85 * split()  # 140 ms against 240, and what each costs besides
