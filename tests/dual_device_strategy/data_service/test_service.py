"""Pipelines that a data service cannot run are refused in one sentence, before anything is sent."""

import pytest
import tensorflow as tf

from dual_device_strategy import DataService

RANGE = tf.data.Dataset.range(8)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"address": "5050"}, "is HOST:PORT of its dispatcher, got '5050'"),
        ({"mode": "dynamic"}, "mode='dynamic' is not known: it is one of 'exactly once', 'at most"),
        ({"patience_seconds": 0.5}, "patience_seconds must be at least 1, got 0.5"),
        ({"consumer": (0, 2)}, r"consumer=\(0, 2\) does not go with mode='exactly once'"),
        ({"mode": "in rounds", "consumer": (0, 2)}, "with a consumer needs a job_name"),
    ],
)
def test_settings_that_make_no_service_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        DataService(**{"address": "localhost:1", **options})


@pytest.mark.parametrize(
    ("dataset", "options", "sentence"),
    [
        (RANGE.map(lambda x: tf.py_function(lambda y: y, [x], tf.int64)), {}, "a Python function"),
        (
            tf.data.Dataset.from_generator(lambda: range(3), output_signature=tf.TensorSpec([])),
            {},
            "a Python function before on_data_device",
        ),
        (RANGE.shard(2, 0), {}, r"the pipeline has shard\(\) before on_data_device\(\)"),
        (RANGE.repeat(), {}, "needs a dataset whose elements can be counted"),
        (RANGE.batch(3, drop_remainder=True), {}, "needs a dataset whose elements can be counted"),
        (RANGE, {"job_name": "shared"}, "cannot be kept with job_name='shared'"),
        (RANGE.repeat(), {"mode": "in rounds"}, 'mode="in rounds" needs consumer='),
        (
            RANGE,
            {"mode": "in rounds", "job_name": "a", "consumer": (0, 2)},
            "needs an endless dataset",
        ),
    ],
)
def test_a_dataset_that_the_service_cannot_run_is_refused(dataset, options, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        DataService("localhost:1", **options).applied(dataset)
    assert "\n" not in f"{error.value}"


def test_a_service_that_cannot_be_reached_is_named():
    with pytest.raises(
        ConnectionError, match=r"no data service answers at localhost:1 .*: start it"
    ):
        DataService("localhost:1").applied(RANGE)
