"""Published names lead to variables and back, and what does not fit is named."""

import keras
import numpy as np
import pytest

from myxtts import UserError
from myxtts.xtts_v2.names import Names


@pytest.fixture
def names():
    names = Names()
    below = names.below("gpt").below("h.0")
    below.add("kernel", keras.Variable(np.zeros([2, 3, 4])), axes=(2, 1, 0))
    below.add("gain", keras.Variable(np.zeros([5])), ones=2)
    names.carry("count", np.array(0))
    return names


def published():
    return {
        "gpt.h.0.kernel": np.arange(24, dtype=np.float32).reshape(4, 3, 2),
        "gpt.h.0.gain": np.arange(5, dtype=np.float32).reshape(5, 1, 1),
        "count": np.array(3),
    }


def test_axes_are_turned_on_the_way_in_and_back_on_the_way_out(names):
    names.read(published(), "a.pth")
    kernel = names.variables["gpt.h.0.kernel"]
    np.testing.assert_array_equal(kernel, published()["gpt.h.0.kernel"].transpose(2, 1, 0))
    made = names.tensors()
    assert made.keys() == published().keys()
    for name, wanted in published().items():
        np.testing.assert_array_equal(made[name], wanted)
        assert made[name].shape == wanted.shape


def test_what_no_variable_holds_is_written_as_it_is_by_default(names):
    tensors = published()
    del tensors["count"]
    names.read(tensors, "a.pth")
    assert names.tensors()["count"] == 0


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda t: t.pop("gpt.h.0.gain"), r"a\.pth lacks gpt\.h\.0\.gain; it is no whole XTTS v2"),
        (
            lambda t: t.update(x=t.pop("gpt.h.0.gain"), y=t["count"]),
            r"lacks gpt\.h\.0\.gain and holds x and 1 more, which",
        ),
        (
            lambda t: t.update({"gpt.h.0.gain": np.zeros([5])}),
            r"gpt\.h\.0\.gain in a\.pth has the shape \[5\] where \[5, 1, 1\] is needed",
        ),
        (lambda t: t.update(count=np.zeros(2)), r"count in a\.pth has the shape \[2\] where \[\]"),
        (
            lambda t: t.update({"gpt.h.0.gain": np.full([5, 1, 1], np.inf)}),
            r"gpt\.h\.0\.gain in a\.pth holds values that are no finite numbers; take an earlier",
        ),
    ],
)
def test_a_missing_renamed_or_misshapen_tensor_is_refused_by_name(names, change, told):
    tensors = published()
    change(tensors)
    with pytest.raises(UserError, match=told):
        names.read(tensors, "a.pth")
