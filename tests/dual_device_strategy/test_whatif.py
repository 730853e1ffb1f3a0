"""The simulation of the parts, against cases whose answer is known."""

import itertools

import numpy as np
import pytest

from dual_device_strategy.whatif import PartTimes, predict


@pytest.mark.parametrize(
    ("parts", "slots", "step_ms"),
    [
        (PartTimes(host=5, front_end=10, step=20), 3, 20),
        (PartTimes(host=20, front_end=20, step=20, transfer=1), 3, 20),
        (PartTimes(host=5, front_end=30, step=20), 3, 30),
        (PartTimes(host=40, front_end=30, step=20), 3, 40),
        (PartTimes(copy=8, front_end=17, step=20), 3, 25),
        (PartTimes(front_end=1, transfer=50, step=20), 4, 50),
        # Without a READY slot the step waits for each transfer.
        (PartTimes(front_end=10, transfer=5, step=20), 2, 25),
        (PartTimes(front_end=10, transfer=5, step=20), 3, 20),
    ],
)
def test_even_stages_take_as_long_as_the_slowest(parts, slots, step_ms):
    predicted = predict(parts, slots=slots)
    assert predicted.step_ms == pytest.approx(step_ms)
    assert predicted.variation == pytest.approx(0, abs=1e-9)
    assert predicted.wait_share == pytest.approx(1 - 20 / step_ms)


def test_a_late_batch_is_copied_after_the_step_and_an_early_one_beside_it():
    # The front end's batch is asked for as soon as the host has it, which is in the middle of a
    # step: the copy then waits for what is queued on the receiver.
    assert predict(PartTimes(host=26, front_end=1, transfer=4, step=20)).wait_share > 0.2
    assert predict(PartTimes(host=10, front_end=1, transfer=4, step=20)).wait_share == 0


def test_no_step_is_shorter_than_the_slowest_stage_or_longer_than_all_of_them():
    random = np.random.default_rng(0)
    for _ in range(50):
        times = random.uniform(0, 30, 5)
        parts = PartTimes(*times)
        # Long enough that what the host made ahead at the start does not count.
        step = predict(parts, slots=int(random.integers(2, 9)), steps=3000).step_ms
        assert 0.9999 * parts.limit <= step <= times.sum() + 1e-6


def test_more_slots_never_hurt_and_hide_jitter():
    random = np.random.default_rng(1)
    varying = np.maximum(0, random.normal(20, 12, 2000))
    parts = PartTimes(front_end=varying, step=varying)
    steps = [predict(parts, slots=slots, steps=2000).step_ms for slots in range(2, 9)]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] > 1.2 * steps[-1]


def test_the_same_seed_draws_the_same_times():
    parts = PartTimes(front_end=[10, 30], step=[5, 25])
    assert predict(parts, seed=3) == predict(parts, seed=3)
    assert predict(parts, seed=3).step_ms != predict(parts, seed=4).step_ms


def test_two_model_devices_take_two_batches_a_step():
    assert predict(PartTimes(front_end=5, step=20), model_devices=2).step_ms == pytest.approx(20)
    assert predict(PartTimes(front_end=15, step=20), model_devices=2).step_ms == pytest.approx(30)


def test_batches_and_bandwidth_scale_the_stages_they_belong_to():
    parts = PartTimes(host=2, copy=4, front_end=6, transfer=8, step=[10, 20])
    doubled = parts.with_batch(2, fixed={"step": 4})
    assert (doubled.mean("host"), doubled.mean("step")) == (4, 26)
    faster = parts.with_bandwidth(2)
    assert (faster.mean("copy"), faster.mean("transfer"), faster.mean("front_end")) == (2, 4, 6)


def test_spans_follow_a_batch_through_the_slots():
    spans = predict(PartTimes(host=5, copy=1, front_end=10, transfer=2, step=20)).spans
    for span in spans[10:]:
        order = [span[name] for name in ("host", "copy", "front_end", "transfer", "ready", "step")]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(order))
        assert span["step"][1] - span["step"][0] == pytest.approx(20)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PartTimes(host=-1), "host must be a time in ms"),
        (lambda: PartTimes(step=[]), "step must be a time"),
        (lambda: PartTimes(copy=float("nan")), "copy must be"),
        (lambda: predict(PartTimes(), slots=1), "slots must be at least 2"),
        (lambda: predict(PartTimes(), model_devices=0), "at least one model device"),
    ],
)
def test_times_and_counts_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_loop_that_runs_ahead_needs_two_copies_at_once_and_so_four_slots():
    parts = PartTimes(front_end=4, transfer=5, step=20, gap=1)
    alone = predict(parts, slots=3, runs_ahead=True)
    assert alone.step_ms == pytest.approx(25) and alone.wait_share == pytest.approx(0.2)
    for slots in (4, 6, 8):
        assert predict(parts, slots=slots, runs_ahead=True).step_ms == pytest.approx(20)
    # A copy of 15 ms follows the step before the last, and the one of the batch before it.
    parts = PartTimes(front_end=4, transfer=15, step=20)
    assert predict(parts, slots=4, runs_ahead=True).step_ms == pytest.approx(20)
