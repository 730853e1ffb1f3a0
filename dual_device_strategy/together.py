"""`zip` of distributed datasets, and loops of Python over them, inside a `tf.function`."""

import tensorflow as tf

from dual_device_strategy import compat

# Python's own loop in a tf.function is traced turn by turn.  Over a distributed dataset it has no
# end: whether there is another batch is known only when the function runs.
MOST_TURNS = 1_000


class Together(compat.DistributedIterable):
    """`zip(first, second, ...)` of distributed datasets, for a loop in a `tf.function`.

    AutoGraph has a `zip` for tf.data's datasets only.  Of others it makes Python's, without end.
    """

    def __init__(self, *iterables):
        self._iterables = iterables

    def reduce(self, initial_state, reduce_func):
        """As that of a distributed dataset; AutoGraph makes the loop of it."""
        iterators = [iter(each) for each in self._iterables]

        def following():
            return [iterator.get_next_as_optional() for iterator in iterators]

        def all_there(optionals, state):
            del state
            return tf.reduce_all([optional.has_value() for optional in optionals])

        def turn(optionals, state):
            state = reduce_func(state, tuple(optional.get_value() for optional in optionals))
            return following(), state

        begin = [following(), initial_state]
        _, state = tf.while_loop(all_there, turn, begin, parallel_iterations=1)
        return state


def zipped(*iterables, strict: bool = False):
    """What AutoGraph calls for `zip` of distributed datasets and iterators."""
    if tf.executing_eagerly():
        return zip(*iterables, strict=strict)
    if strict:
        raise NotImplementedError(
            "zip(..., strict=True) of distributed datasets was asked for in a tf.function, where "
            "their lengths are not known; leave strict out"
        )
    return Together(*iterables)


def note_turn() -> None:
    """To be called where a batch is taken in a graph.

    Raises:
      ValueError: where a loop of Python goes on and on.
    """
    graph = tf.compat.v1.get_default_graph()
    graph.batches_taken = getattr(graph, "batches_taken", 0) + 1
    if graph.batches_taken > MOST_TURNS:
        raise ValueError(
            f"more than {MOST_TURNS:,} batches were taken one after the other while a tf.function "
            "was traced: a loop of Python over a distributed dataset finds no end there "
            "(zip with something else, map, list); write `for batch in dataset:` or "
            "`for _ in tf.range(n): next(iterator)`, and let AutoGraph convert it"
        )
