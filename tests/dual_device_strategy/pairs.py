"""The pairs of devices that tests run on: data device and model device.

A test that takes `pair` or `strategy` runs on both.  What is the same on every kind of device runs
on one: in a file with `pair = one_pair("cpu")`, where a test may still have `both_pairs`, or case
by case with `in_turns`.
"""

import itertools

import pytest

PAIRS = {"cpu": ("CPU:1", "CPU:2"), "gpu": ("GPU:0", "GPU:1")}

both_pairs = pytest.mark.parametrize("pair", PAIRS, indirect=True)


def one_pair(kind):
    """A fixture for a module or a folder, to be named `pair` there."""

    @pytest.fixture(name="pair")
    def pair(request):
        return PAIRS[getattr(request, "param", kind)]

    return pair


def in_turns(names, cases):
    """Parametrizes the arguments `names`, each case on one of both pairs."""
    rows = []
    for kind, case in zip(itertools.cycle(PAIRS), cases, strict=False):
        values = case if isinstance(case, tuple) else (case,)
        rows.append(pytest.param(kind, *values, id="-".join(map(str, (kind, *values)))))
    return pytest.mark.parametrize(["pair", *names], rows, indirect=["pair"])
