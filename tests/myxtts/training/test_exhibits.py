"""What stages make samples with: traced once, and without TensorFlow's warning of many traces."""

import logging

import pytest
import tensorflow as tf

from myxtts.training.exhibits import Exhibits, traced_once


@pytest.fixture
def exhibits():
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    return Exhibits(
        strategy, clips={}, texts=[], said={}, tokens=[], board=None, directory=None, audio=None
    )


def test_samples_of_many_stages_warn_of_no_retracing(exhibits, caplog):
    with caplog.at_level(logging.WARNING), _heard(caplog):
        made = [exhibits.run(traced_once(lambda x, n=n: n * x), tf.ones([2])) for n in range(12)]
    assert [float(each[0]) for each in made] == list(range(12))
    assert not caplog.messages


def test_samples_made_again_are_not_traced_again(exhibits):
    traces = []

    def doubled(clips):
        traces.append(tf.distribute.get_strategy())
        return {"doubled": 2 * clips["mel"]}

    function = traced_once(doubled)
    made = [exhibits.run(function, {"mel": tf.fill([3], float(n))}) for n in range(3)]
    assert [float(each["doubled"][2]) for each in made] == [0, 2, 4]
    assert traces == [exhibits.strategy]


class _heard:
    """TensorFlow's log, which goes no further, reaches caplog."""

    def __init__(self, caplog):
        self._logger, self._handler = tf.get_logger(), caplog.handler

    def __enter__(self):
        self._level = self._logger.level
        self._logger.setLevel(logging.WARNING)
        self._logger.addHandler(self._handler)

    def __exit__(self, *_):
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._level)
