"""The simulation of the parts, against cases whose answer is known."""

import doctest
import importlib
import itertools
import json
import math

import numpy as np
import pytest

from dual_device_strategy.whatif import (
    MachineCosts,
    PartTimes,
    Work,
    best_shares,
    layouts,
    machines,
    on_machines,
    predict,
)
from dual_device_strategy.whatif.layouts import fed_by_one


@pytest.mark.parametrize(
    ("parts", "slots", "step_ms"),
    [
        (PartTimes(host=5, front_end=10, step=20), 3, 20),
        (PartTimes(host=20, front_end=20, step=20, transfer=1), 3, 20),
        (PartTimes(host=5, front_end=30, step=20), 3, 30),
        (PartTimes(host=40, front_end=30, step=20), 3, 40),
        (PartTimes(copy=8, front_end=17, step=20), 3, 25),
        (PartTimes(copy=8, front_end=17, step=20), 5, 25),
        # Two of six slots are for copies from the host, beside the front end.
        (PartTimes(copy=15, front_end=17, step=20), 6, 20),
        (PartTimes(copy=25, front_end=17, step=20), 6, 25),
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
    alone = predict(parts, slots=3, reads_every=0)
    assert alone.step_ms == pytest.approx(25) and alone.wait_share == pytest.approx(0.2)
    for slots in (4, 6, 8):
        assert predict(parts, slots=slots, reads_every=0).step_ms == pytest.approx(20)
    # A copy of 15 ms follows the step before the last, and the one of the batch before it.
    parts = PartTimes(front_end=4, transfer=15, step=20)
    assert predict(parts, slots=4, reads_every=0).step_ms == pytest.approx(20)


@pytest.mark.parametrize("module", ["layouts", "machines", "pipeline"])
def test_the_examples_of_the_docstrings_hold(module):
    tested = importlib.import_module(f"dual_device_strategy.whatif.{module}")
    result = doctest.testmod(tested, extraglobs={"predict": predict, "layouts": layouts})
    assert result.attempted and not result.failed


# Front end, step, and the fixed cost of each.
@pytest.mark.parametrize(
    ("front_end", "step", "fixed", "split_ms", "mirrored_ms", "rows", "shared_ms"),
    [
        (0, 40, 0, 40, 20, (12, 12), 20),
        (4, 80, 0, 80, 42, (13, 11), 43.3),
        (20, 60, 0, 60, 40, (16, 8), 40),
        (20, 60, 5, 65, 50, (17, 7), 47.5),
        (20, 40, 5, 45, 40, (20, 4), 38.3),
    ],
)
def test_two_devices_can_split_share_or_do_both(
    front_end, step, fixed, split_ms, mirrored_ms, rows, shared_ms
):
    work = Work(front_end=front_end, step=step, front_end_fixed=fixed, step_fixed=fixed, rows=24)
    found = {layout.name.split(":")[0]: layout for layout in layouts(work, 2)}
    assert found["1 prepares, 1 trains"].step_ms == pytest.approx(split_ms)
    assert found["2 do both, front end in the step"].step_ms == pytest.approx(mirrored_ms)
    shared = found["1 prepares, 2 train"]
    assert (shared.rows, shared.shared) == (rows, True)
    assert shared.step_ms == pytest.approx(shared_ms, abs=0.1)
    assert [round(24 * share) for share in shared.shares] == list(rows)
    assert sum(shared.shares) == pytest.approx(1, abs=1e-3)


def test_no_layout_beats_all_devices_at_work_all_the_time():
    random = np.random.default_rng(2)
    for _ in range(50):
        front_end, step = random.uniform(0, 100, 2)
        work = Work(front_end=front_end, step=step, rows=int(random.integers(8, 64)))
        for layout in layouts(work, devices=int(random.integers(1, 9))):
            assert layout.step_ms >= (front_end + step) / layout.devices - 1e-9
            assert sum(layout.rows) == work.rows and min(layout.rows) > 0


def test_the_host_the_links_and_the_gap_of_a_loop_that_reads_count_where_they_are():
    work = Work(host=50, copy=2, front_end=20, transfer=30, step=40, gap=3, rows=24)
    (split,) = (f for f in layouts(work, 2) if f.name == "1 prepares, 1 trains")
    assert (split.step_ms, split.limit) == (50, "the host")
    work = Work(front_end=20, transfer=30, step=40, gap=3, rows=24)
    split = next(f for f in layouts(work, 2) if f.name == "1 prepares, 1 trains")
    assert (split.step_ms, split.ahead_ms) == (43, 40)
    both = next(f for f in layouts(Work(step=40, gap=3, gap_ahead=2), 2) if "do both" in f.name)
    assert (both.step_ms, both.ahead_ms) == (23, 22)
    work = Work(step=40, rows=24, gradient_mb=120, link_gbps=12)
    assert layouts(work, 4)[0].parts["the model devices"] == pytest.approx(10 + 15)


def test_with_copying_slots_the_longer_of_copy_and_front_end_counts():
    times = {"copy": 15, "front_end": 20, "step": 25, "rows": 24}
    found = {
        slots: {f.name.split(":")[0]: f.step_ms for f in layouts(Work(**times, copies_ahead=a), 2)}
        for slots, a in ((4, False), (6, True))
    }
    assert [found[slots]["1 prepares, 1 trains"] for slots in (4, 6)] == [35, 25]
    for name in ("1 prepares, 2 train", "2 do both, front end in the step"):
        assert found[4][name] == found[6][name]
    assert fed_by_one(Work(**times)) == 0 and fed_by_one(Work(**times, copies_ahead=True)) == 1


def test_one_data_device_feeds_as_many_as_leave_it_time():
    assert fed_by_one(Work(front_end=20, step=60, rows=24)) == 3
    assert fed_by_one(Work(front_end=70, step=60, rows=24)) == 0
    assert fed_by_one(Work(step=60, rows=24)) is None
    assert best_shares(Work(step=60, rows=24), 1, 2).rows == (12, 12)


def test_many_machines_wait_for_the_network_the_slowest_and_restarts():
    work = Work(host=4, front_end=20, step=60, rows=24, gradient_mb=100)
    best = layouts(work, 2)[0]
    network = MachineCosts(network_gbps=80, latency_us=10, variation=0)
    assert on_machines(work, best, network, 1).step_ms == best.step_ms
    # 100 MB over 10 GB/s, nearly twice, and 2 x 1023 messages.
    thousand = on_machines(work, best, network, 1024)
    assert thousand.network_ms == pytest.approx(2 * 10 * 1023 / 1024 + 2046 * 0.01)
    limit = machines.network_is_the_limit(work, best, network)
    assert machines.network_ms(100, network, limit) > best.step_ms
    assert machines.network_ms(100, network, limit - 1) <= best.step_ms
    random = np.random.default_rng(3)
    drawn = random.normal(size=[4000, 64]).max(axis=1).mean()
    assert machines.expected_largest(64) == pytest.approx(drawn, rel=0.02)
    assert machines.expected_largest(1) == pytest.approx(0, abs=1e-6)


def test_the_best_interval_of_checkpoints_is_better_than_its_neighbours():
    cluster = MachineCosts(hours_between_failures=5000, checkpoint_seconds=20, restart_seconds=180)
    minutes, lost = machines.checkpointing(cluster, 1024)

    def share(interval):  # seconds
        between = 5000 * 3600 / 1024
        return 20 / interval + (interval / 2 + 180) / between

    assert lost == pytest.approx(share(60 * minutes))
    assert lost < min(share(50 * minutes), share(72 * minutes))
    assert math.isclose(minutes, 13.97, abs_tol=0.01)


def test_a_slow_host_needs_workers_of_a_data_service():
    work = Work(host=100, front_end=10, step=40, rows=24)
    found = on_machines(work, layouts(work, 2)[0], MachineCosts(variation=0), 8)
    assert found.device_ms < 40  # the host is not waited for any more
    assert found.service_workers == math.ceil(8 * (100 / found.step_ms - 1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Work(step=-1), "step=-1 must be a number from 0 on"),
        (lambda: Work(rows=0), "rows=0 must be a number from 1 on"),
        (lambda: layouts(Work(), 0), "at least one device"),
        (lambda: MachineCosts(network_gbps=0), "network_gbps=0 must be a number above 0"),
        (
            lambda: on_machines(Work(), layouts(Work(), 1)[0], MachineCosts(), 0),
            "at least one machine",
        ),
    ],
)
def test_work_and_machines_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.fixture(scope="module")
def ended(run_commands, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whatif")
    (folder / "profile.json").write_text(
        json.dumps({"work": {"front_end": 20.0, "step": 60.0, "rows": 24}})
    )
    (folder / "other.json").write_text("{}")
    given = ["--front_end_ms=20", "--step_ms=60"]
    commands = {
        "given": [
            *given,
            "--devices=2,4",
            "--machines=1,1024",
            "--gradient_mb=400",
            "--link_gbps=100000",
            "--json=o.json",
        ],
        "profile": ["--profile=profile.json", "--step_ms=200", "--machines=1", "--slots=6"],
        "nothing": [],
        "other": ["--profile=other.json"],
        "missing": ["--profile=nowhere.json"],
        "devices": [*given, "--devices=two"],
    }
    return run_commands("whatif", commands, folder), folder


def test_the_command_says_what_devices_and_machines_would_do(ended):
    results, folder = ended
    code, out, err = results["given"]
    assert code == 0, err
    assert "| 1 prepares, 2 train: 16:8 rows | 40.0 | 40.0 |" in out
    assert "--data_gpu=1 --model_gpu=0,1 --shares=0.6667,0.3333" in out
    assert "One data device feeds 3 model devices" in out
    assert "| 1,024 |" in out and "machines on, the network takes longer" in out
    assert "Assumed:" in out
    figures = json.loads((folder / "o.json").read_text())
    assert figures["layouts"]["2"][0]["step_ms"] == pytest.approx(40, abs=0.1)
    assert [found["machines"] for found in figures["machines"]["4"]] == [1, 1024]
    assert "step 200 ms" in results["profile"][1]
    assert "in turns (--slots=6: at once)" in out
    assert "With 6 slots, a data device copies a batch while" in results["profile"][1]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing", "--front_end_ms and --step_ms are needed"),
        ("other", "--profile=other.json is not a whole profile"),
        ("missing", "--profile=nowhere.json cannot be read: No such file"),
        ("devices", "--devices=two must be whole numbers from 1 on"),
    ],
)
def test_a_mistake_ends_the_command_with_one_sentence(ended, name, sentence):
    code, _, err = ended[0][name]
    assert code == 1 and "Traceback" not in err
    assert sentence in err.splitlines()[-1]
