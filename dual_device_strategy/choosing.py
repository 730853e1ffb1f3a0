"""Which of two GPUs trains and which prepares, where the user has not said."""

from dual_device_strategy import emulation, topology

# Cards of one model may report totals that differ a little.
_ALIKE = 0.05


def data_and_model(a: int, b: int) -> tuple[tuple[int, int], str]:
    """The data GPU and the model GPU of two physical ones, and the rule that decided.

    The card with more memory trains, of equal ones the faster, of those the lower index: CUDA
    lists the fastest card first.  With the model on TensorFlow's default device GPU:0, an eager
    op without a device, or what Keras returns, never waits for a front end.
    """
    lower, higher = sorted((a, b))
    try:
        memory, compute = _memory_and_compute(lower, higher)
    except topology.UnknownTopologyError as unknown:
        return (higher, lower), f"the lower index trains: the cards are unknown, {unknown}"
    if _differ(*memory):
        rule, lower_trains = "the card with more memory trains", memory[0] > memory[1]
    elif _differ(*compute):
        rule, lower_trains = "the faster card trains", compute[0] > compute[1]
    else:
        rule, lower_trains = "the cards are alike: the lower index trains", True
    return ((higher, lower) if lower_trains else (lower, higher)), rule


def _memory_and_compute(*gpus: int):
    if emulated := emulation.active():
        return [emulated.memory_mb[gpu] for gpu in gpus], [1, 1]
    cards = topology.cards()
    if max(gpus) >= len(cards):
        raise topology.UnknownTopologyError(f"CUDA lists {len(cards)}, TensorFlow more")
    return [cards[gpu].memory for gpu in gpus], [cards[gpu].compute for gpu in gpus]


def _differ(one: int, other: int) -> bool:
    return abs(one - other) > _ALIKE * max(one, other)
