"""The discriminators of the HiFi-GAN. That they equal the publisher's VITS discriminators at full
width, gradients too, was checked manually."""

import keras
import numpy as np
import tensorflow as tf

from myxtts.xtts_v2.discriminators import Discriminators
from myxtts.xtts_v2.layers import WeightNormConv1D
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import SoundObjective


def test_each_period_has_rows_of_its_own():
    keras.utils.set_random_seed(1)
    judges, periods = Discriminators(width=2), SoundObjective.critic_periods
    waveform = np.random.default_rng(0).normal(size=(1, 2 * 3 * 5 * 7 * 11)).astype(np.float32)
    changed = waveform.copy()
    changed[:, ::7] += 1.0
    one, other = (judges(tf.constant(x))[0] for x in (waveform, changed))
    rows = [np.abs(a - b).reshape(len(a), -1).max(1) > 0 for a, b in zip(one, other, strict=True)]
    assert [len(row) for row in rows] == [1, *periods]
    assert list(rows[1 + periods.index(7)]) == [True] + [False] * 6
    assert all(row.all() for number, row in enumerate(rows) if number != 1 + periods.index(7))


def test_a_group_sees_its_own_channels_and_is_a_convolution():
    keras.utils.set_random_seed(1)
    layer = WeightNormConv1D(Names(), 8, 12, 5, stride=2, groups=4)
    x = tf.random.stateless_normal([2, 21, 8], [1, 2])
    parts = []
    for group in range(4):
        kernel = layer.direction[:, :, 3 * group : 3 * group + 3].numpy()
        kernel *= layer.gain[3 * group : 3 * group + 3] / np.sqrt((kernel**2).sum((0, 1)))
        padded = tf.pad(x[..., 2 * group : 2 * group + 2], [[0, 0], [2, 2], [0, 0]])
        parts.append(tf.nn.conv1d(padded, kernel, 2, "VALID"))
    np.testing.assert_allclose(layer(x), tf.concat(parts, -1), atol=1e-5)
