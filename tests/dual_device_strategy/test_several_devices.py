"""Several devices: refusals, and no more batches than slots."""

import gc

import pytest
import tensorflow as tf

from dual_device_strategy import MirroredDataModelSplitStrategy, data_scope, on_data_device
from tests.dual_device_strategy.tensors import live
from tests.waiting import at_rest, wait_until


@pytest.mark.parametrize(
    ("data", "model", "settings", "said"),
    [
        ([], ["CPU:1"], {}, "data_devices is empty"),
        (["CPU:1"], [], {}, "model_devices is empty"),
        (["CPU:1", "CPU:1"], ["CPU:2"], {}, "more than once"),
        (["CPU:1"], ["CPU:2", "CPU:2"], {}, "more than once"),
        (["CPU:1"], ["CPU:1", "CPU:2"], {}, "give shares as well"),
        (["CPU:1"], ["CPU:77"], {}, "does not exist"),
        ("CPU:1", ["CPU:2"], {}, "must be a list"),
        (["CPU:0", "CPU:1"], ["CPU:2"], {}, "the host beside"),
        (["CPU:1"], ["CPU:1", "CPU:2"], {"shares": (1.0,)}, "1 shares for 2 model devices"),
        (["CPU:1"], ["CPU:1", "CPU:2"], {"shares": "most"}, "must be numbers"),
        (["CPU:1"], ["CPU:1", "CPU:2"], {"shares": (0.5, 0.6)}, "add up to 1"),
        (["CPU:1"], ["CPU:1", "CPU:2"], {"shares": (1.0, 0.0)}, "must be positive"),
        (["CPU:1"], ["CPU:2"], {"slots": 1}, "at least 2"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(data, model, settings, said):
    with pytest.raises(ValueError, match=said) as raised:
        MirroredDataModelSplitStrategy(data, model, **settings)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("slots", "on_data", "on_model"), [(2, 1, 1), (3, 1, 2), (4, 1, 3), (5, 1, 4), (6, 3, 3)]
)
def test_no_more_batches_exist_on_a_device_than_its_slots(slots, on_data, on_model):
    megabyte = 1_000_000
    strategy = MirroredDataModelSplitStrategy(["GPU:0"], ["GPU:1"], slots=slots)
    dataset = tf.data.Dataset.range(20).map(lambda i: tf.fill([1, 250_000], tf.cast(i, tf.float32)))
    dataset = dataset.apply(on_data_device(lambda x: x + 1.0))
    distributed = strategy.experimental_distribute_dataset(dataset)
    gc.collect()
    devices = "GPU:0", "GPU:1"
    before = at_rest(lambda: [live(device) for device in devices])
    iterator = iter(distributed)

    def held():
        return [(live(d) - then) / megabyte for d, then in zip(devices, before, strict=True)]

    for _ in range(6):
        batch = next(iterator)
        # The prepared one, and those COPYING; those READY, and the one that trains.
        expected = pytest.approx([on_data, on_model], abs=0.2)
        wait_until(lambda: held() == expected, lambda: str(held()))
        assert at_rest(held) == expected
    assert iterator.slots == slots
    del batch, iterator
    gc.collect()
    wait_until(lambda: max(held()) < 0.2, lambda: str(held()))


def test_a_generator_of_the_data_scope_draws_what_it_draws_by_itself():
    strategy = MirroredDataModelSplitStrategy(["CPU:1"], ["CPU:2", "CPU:3"])
    with strategy.scope(), data_scope():
        generator = tf.random.Generator.from_seed(1)
    dataset = tf.data.Dataset.range(6).batch(2)
    dataset = dataset.apply(on_data_device(lambda x: generator.uniform(tf.shape(x))))
    drawn = [
        float(piece[0])
        for batch in strategy.experimental_distribute_dataset(dataset)
        for piece in strategy.experimental_local_results(batch)
    ]
    alone = tf.random.Generator.from_seed(1)
    assert drawn == [float(number) for _ in range(3) for number in alone.uniform([2])]
