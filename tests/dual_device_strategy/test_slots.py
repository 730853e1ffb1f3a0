"""slots="auto": its conclusions from two times of each batch, and when slots change."""

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    MirroredDataModelSplitStrategy,
    emulation,
    on_data_device,
    slot_tuning,
)
from dual_device_strategy.whatif import PartTimes, predict


def noted_times(stages, slots, steps=250, *, reads_every=1, on_cpu=False):
    """What the stages would have noted: when each batch was asked for, made, and had arrived."""
    spans = predict(stages, slots=slots, steps=steps, seed=3, reads_every=reads_every).spans
    arrived = np.array([span["transfer"][1] for span in spans])
    prepared = [span["front_end"][1] for span in spans]
    got = []
    for i, span in enumerate(spans):
        read = reads_every and i % reads_every == 0
        free = 0 if not i else spans[i - 1]["step"][1] if read else got[-1]
        got.append(max(free, span["transfer"][1]))
    ready = slots - 2
    copies = min(2, ready)
    asked, made = [0], []
    for i in range(len(spans)):
        # A GPU's work is queued as soon as the batch before is prepared.
        made.append(prepared[i] if on_cpu else max(asked[i], prepared[i - 1] if i else 0))
        room = max(got[i - ready] if i >= ready else 0, arrived[i - copies] if i >= copies else 0)
        asked.append(max(room, made[i]))
    return np.array(asked[:-1]), np.array(made), arrived


def varying(mean, spread):
    return np.maximum(0, np.random.default_rng(1).normal(mean, mean * spread, 2000))


def test_many_slots_that_are_seldom_full_stay():
    stages = PartTimes(front_end=varying(20, 0.6), transfer=0.3, step=varying(20, 0.6))
    noted = slot_tuning.stage_times(*noted_times(stages, 8), 6)
    assert slot_tuning.choose(*noted, batches=400) >= 6


@pytest.mark.parametrize("on_cpu", [False, True])
@pytest.mark.parametrize("slots", [3, 5])
def test_stage_times_are_found_from_when_batches_were_asked_for_made_and_arrived(slots, on_cpu):
    stages = PartTimes(front_end=varying(15, 0.6), transfer=0.3, step=varying(20, 0.6))
    prepared, stepped, _ = slot_tuning.stage_times(
        *noted_times(stages, slots, on_cpu=on_cpu), slots - 2, made_is_prepared=on_cpu
    )
    assert prepared.mean() == pytest.approx(15, rel=0.15)
    assert stepped.mean() == pytest.approx(20, rel=0.15)
    assert stepped.std() == pytest.approx(12, rel=0.25)


@pytest.mark.parametrize("on_cpu", [False, True])
@pytest.mark.parametrize("transfer", [0.3, 5])
def test_the_slower_part_is_found_and_whether_slots_were_full(transfer, on_cpu):
    for front_end, step, held in ((20, 4, 0.0), (4, 20, 1.0)):
        stages = PartTimes(
            front_end=varying(front_end, 0.3), transfer=transfer, step=varying(step, 0.3)
        )
        prepared, stepped, held_up = slot_tuning.stage_times(
            *noted_times(stages, 4, on_cpu=on_cpu), 2, made_is_prepared=on_cpu
        )
        assert held_up == pytest.approx(held, abs=0.05)
        if on_cpu or front_end > step:
            assert prepared.mean() == pytest.approx(front_end, rel=0.1)
        if step > front_end:
            assert stepped.mean() == pytest.approx(step, rel=0.1)


@pytest.mark.parametrize(
    ("front_end", "step", "least", "most"),
    [
        (varying(10, 0), varying(20, 0.01), 4, 4),
        (varying(10, 0.3), varying(20, 0.3), 4, 4),
        (varying(20, 0.3), varying(20, 0.3), 4, 7),
        (varying(20, 0.6), varying(20, 0.6), 5, 8),
    ],
)
def test_slots_are_the_fewest_that_hide_the_jitter(front_end, step, least, most):
    stages = PartTimes(front_end=front_end, transfer=0.3, step=step)
    chosen = slot_tuning.choose(*slot_tuning.stage_times(*noted_times(stages, 3), 1), batches=400)
    assert least <= chosen <= most
    at = {n: predict(stages, slots=n, steps=3000).step_ms for n in range(2, 9)}
    assert at[chosen] <= 1.02 * min(at.values())


@pytest.mark.parametrize("spread", [0.3, 0.6])
@pytest.mark.parametrize("reads_every", [0, 10])
def test_a_loop_that_runs_ahead_needs_no_more_than_four(spread, reads_every):
    stages = PartTimes(front_end=varying(20, spread), transfer=0.3, step=varying(20, spread))
    noted = slot_tuning.stage_times(*noted_times(stages, 4, reads_every=reads_every), 2)
    assert slot_tuning.choose(*noted, batches=400) == 4
    at = {n: predict(stages, slots=n, steps=3000, reads_every=reads_every).step_ms for n in (4, 8)}
    assert at[4] <= 1.02 * at[8]
    # With more slots in use it comes back to four.
    noted = slot_tuning.stage_times(*noted_times(stages, 7, reads_every=reads_every), 5)
    assert slot_tuning.choose(*noted, batches=400) == 4


def test_too_few_batches_change_nothing():
    asked, made, arrived = noted_times(PartTimes(front_end=5, step=10), 3, steps=20)
    for count in (5, 0):
        times = slot_tuning.stage_times(asked[:count], made[:count], arrived[:count], 1)
        assert slot_tuning.choose(*times, batches=count) is None


def jittered(batches, means=None):
    """Batches whose front end and step vary; with `means`, of both in ms, they have two rows."""
    times = np.random.default_rng(2).exponential(means or 6, [batches, 2]).astype(np.float32)
    source = tf.data.Dataset.from_tensor_slices((np.arange(batches), times))

    def front_end(index, times):
        step_ms = tf.fill([2], times[1]) if means else times[1]
        return emulation.timed((tf.cast(tf.fill([1000], index), tf.float32), step_ms), ms=times[0])

    return source.apply(on_data_device(front_end))


def test_slots_change_between_epochs_only_and_batches_stay_the_same():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1", slots="auto")
    dataset = strategy.experimental_distribute_dataset(jittered(150))

    @tf.function
    def step(batch, ms):
        return strategy.run(lambda x: emulation.timed(x, ms=ms)[0], args=(batch,))

    used = []
    for _ in range(2):
        slots, seen = set(), []
        for batch, ms in dataset:
            seen.append(float(step(batch, ms)))
            slots.add(strategy.extended.running_input.slots)
        assert seen == list(range(150))
        used.append(slots)
    assert used[0] == {4}
    # Exponential times are so uneven that four slots cannot be enough.
    (second,) = used[1]
    assert 5 <= second <= 8


STRATEGIES = {
    "a pair of GPUs": lambda: DataModelSplitStrategy("GPU:1", "GPU:0", slots="auto"),
    "a pair of CPUs": lambda: DataModelSplitStrategy("CPU:3", "CPU:1", slots="auto"),
    "several CPUs": lambda: MirroredDataModelSplitStrategy(
        ["CPU:3"], ["CPU:1", "CPU:2"], slots="auto"
    ),
    "two data devices": lambda: MirroredDataModelSplitStrategy(
        ["CPU:3", "CPU:4"], ["CPU:1"], slots="auto"
    ),
}


@pytest.mark.timing
@pytest.mark.parametrize("devices", STRATEGIES)
def test_what_is_noted_tells_the_slower_part_and_slots_change(devices, monkeypatch):
    noted = []
    monkeypatch.setattr(slot_tuning, "choose", lambda *times: noted.append(times) or 7)
    strategy = STRATEGIES[devices]()

    @tf.function
    def step(batch, ms):
        def replica(x, ms):
            return emulation.timed(x, ms=ms[0])[0]

        return strategy.experimental_local_results(strategy.run(replica, args=(batch, ms)))

    for means in ([8, 1], [1, 8]):
        dataset = strategy.experimental_distribute_dataset(jittered(100, means))
        assert [float(step(*batch)[-1]) for batch in dataset] == list(range(100))
        assert strategy.extended.running_input.slots == 4
        iter(dataset)
        assert strategy.extended.running_input.slots == 7
    (prepared, _, seldom, batches), (_, stepped, often, _) = noted
    assert batches == 100 and seldom < 0.75 * often
    # What is timed takes no less; the machine may pause.
    data_devices = len(strategy.extended.data_devices)
    assert 0.7 * 8 / data_devices < prepared.mean() < 2.5 * 8 / data_devices
    assert 0.7 * 8 < stepped.mean() < 2.5 * 8


def test_slots_stay_inside_the_free_memory(monkeypatch):
    def chosen(free_batches):
        free = int(free_batches * 4004)
        monkeypatch.setattr(slot_tuning, "free_memory", lambda device: free)
        monkeypatch.setattr(slot_tuning, "choose", lambda *noted: 8)
        strategy = DataModelSplitStrategy("GPU:0", "GPU:1", slots="auto")
        dataset = strategy.experimental_distribute_dataset(jittered(4))
        slots = []
        for _ in range(2):
            for _ in dataset:
                pass
            slots.append(strategy.extended.running_input.slots)
        return slots

    assert chosen(1.5) == [2, 3]
    assert chosen(2.5) == [3, 5]
    assert chosen(100) == [4, 8]


def test_an_input_options_count_is_not_tuned():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1", slots="auto")
    options = tf.distribute.InputOptions(experimental_per_replica_buffer_size=4)
    dataset = strategy.experimental_distribute_dataset(jittered(4), options)
    for _ in range(2):
        assert len(list(dataset)) == 4
    assert dataset._staging.ready_slots == 4


def test_auto_on_the_host_has_four_slots():
    strategy = DataModelSplitStrategy("CPU:0", "CPU:1", slots="auto")
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(5))
    for _ in range(2):
        assert [int(x) for x in dataset] == list(range(5))
    assert strategy.extended.running_input.slots == 4


def test_another_word_than_auto_is_refused_with_what_may_be_written():
    with pytest.raises(ValueError, match=r"at least 2 .* or \"auto\", got slots='many'"):
        DataModelSplitStrategy("GPU:0", "GPU:1", slots="many")
