"""Finds the seeds that shuffles draw in a state saved by tf.data.

A shuffle draws the seeds of its order when its iterator is made: once an epoch, or once for each
repetition.  A state says how many were drawn; after a restore the next ones are drawn.  But tf.data
drops the iterators of an input that has ended.  A prefetch reaches the end long before the loop,
and tf.data adds one to most pipelines: from then on the state has no seeds.
"""

import re

import tensorflow as tf

_SEEDS = re.compile(rb"num_random_samples@@")  # part of what a shuffle writes
_REPETITION = re.compile(rb"Repeat\[\d+\]")  # part of the name of what a repeat repeats


def hold_seeds(state: tf.Tensor) -> bool:
    return any(_SEEDS.search(part) for part in _parts(state))


def are_gone(state: tf.Tensor) -> bool:
    """Whether the seeds have left the state, and no more will be drawn in this epoch."""
    return not any(_SEEDS.search(part) or _REPETITION.search(part) for part in _parts(state))


def _parts(state: tf.Tensor):
    """Each is what one iterator of the pipeline has written, names and contents.

    One by one: a shuffle's seeds come before its buffer, which may have a million elements.
    """
    return (tf.io.serialize_tensor(state[i]).numpy() for i in range(len(state)))
