"""Which two GPUs are used, and which of the two trains."""

import os
from collections.abc import Sequence

import tensorflow as tf

from dual_device_strategy import emulation
from dual_device_strategy.devices import topology

# Physical indices of the data GPU and the model GPU; None for a CPU.
Pair = tuple[int | None, int | None]

# Cards of one model may report totals that differ a little.
_ALIKE = 0.05


def choose(gpus: Sequence[tf.config.PhysicalDevice]) -> tuple[Pair, str]:
    """The best pair there is, and why it is this one."""
    visible = [gpus.index(gpu) for gpu in tf.config.get_visible_devices("GPU")]
    if not visible:
        return (None, None), "two logical CPUs because TensorFlow sees no GPU"
    if len(visible) == 1:
        return (None, visible[0]), "data on the host CPU because TensorFlow sees one GPU"
    chosen, reason = _two_of(visible)
    pair, rule = data_and_model(*chosen)
    return pair, f"{reason}; {rule}"


def _two_of(visible):
    """Two of the physical GPUs, and why these."""
    first_two = tuple(sorted(visible)[:2])
    if len(visible) == 2:
        return first_two, "the two GPUs there are"
    if emulation.active():
        return first_two, f"the first two of {len(visible)}: emulated links are all alike"
    try:
        known = topology.read_topology()
        pair = known.best_pair(visible)
    except (topology.UnknownTopologyError, IndexError) as unknown:
        return first_two, f"the first two of {len(visible)}: topology unknown, {unknown}"
    return pair, f"the pair of {len(visible)} with the best link, {known.link(*pair)}"


def check(data_gpu: int | None, model_gpu: int | None, gpus: Sequence) -> Pair:
    """The pair that the user named.

    Raises:
      ValueError: if it does not exist or is not a pair.
    """
    asked = named(data_gpu, model_gpu)
    otherwise = "or leave both out to have the devices chosen"
    if len(gpus) < 2:
        why = topology.why_gpus_are_missing(len(gpus))
        raise ValueError(
            f"{asked} asks for two GPUs, but TensorFlow sees {_count(gpus)} ({why}): leave both "
            "out to use what there is, or emulate a pair with EMULATED_GPUS=2 in the environment."
        )
    if data_gpu is None or model_gpu is None:
        missing = "data_gpu" if data_gpu is None else "model_gpu"
        raise ValueError(
            f"{asked} names one GPU and not the other, and TensorFlow sees {_count(gpus)}: give "
            f"{missing} as well, {otherwise}."
        )
    for name, index in (("data_gpu", data_gpu), ("model_gpu", model_gpu)):
        if not 0 <= index < len(gpus):
            hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
            renumbered = f", which CUDA_VISIBLE_DEVICES={hidden} renumbers" if hidden else ""
            raise ValueError(
                f"{name}={index} does not exist: TensorFlow sees {_count(gpus)}{renumbered}; name "
                f"two of them, {otherwise}."
            )
    if data_gpu == model_gpu:
        raise ValueError(
            f"{asked} names the same GPU twice, and TensorFlow sees {_count(gpus)}: name two "
            f"different ones, {otherwise}."
        )
    return data_gpu, model_gpu


def named(data_gpu: int | None, model_gpu: int | None) -> str:
    """What was asked for, in words."""
    given = {"data_gpu": data_gpu, "model_gpu": model_gpu}
    return ", ".join(f"{name}={index}" for name, index in given.items() if index is not None)


def check_several(
    data_gpus: int | Sequence[int] | None, model_gpus: int | Sequence[int] | None, gpus: Sequence
) -> tuple[list[int], list[int]]:
    """The physical indices in the two lists that the user gave.

    Raises:
      ValueError: if one is missing or empty, or an index is there twice or does not exist.
    """
    lists = []
    for name, asked in (("data_gpu", data_gpus), ("model_gpu", model_gpus)):
        indices = [asked] if isinstance(asked, int) else list(asked or ())
        shown = ",".join(map(str, indices))
        if not indices:
            raise ValueError(
                f"{name} names no GPU, but the other one names several: name the GPUs that "
                "prepare and the GPUs that train"
            )
        for index in indices:
            if not 0 <= index < len(gpus):
                raise ValueError(
                    f"{name}={shown} asks for GPU {index}, but TensorFlow sees {_count(gpus)}: "
                    "name GPUs that exist, or emulate them with EMULATED_GPUS in the environment"
                )
            if indices.count(index) > 1:
                raise ValueError(f"{name}={shown} names GPU {index} more than once; name it once")
        lists.append(indices)
    return lists[0], lists[1]


def _count(gpus):
    if not gpus:
        return "no GPU"
    return "one GPU, 0" if len(gpus) == 1 else f"{len(gpus)} GPUs, 0 to {len(gpus) - 1}"


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
