"""The comparison: contenders doing the same work, tables, pictures, logs, and bad input."""

import dataclasses
import json

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, Monitor, devices
from dual_device_strategy.compare import plot, report
from dual_device_strategy.compare.contenders import (
    AUTO,
    HOST_SIDE,
    IN_STEP,
    OURS,
    SHARED,
    Setting,
    contenders,
    parts_alone,
    with_chosen_shares,
)
from dual_device_strategy.compare.host_cores import holding_a_core
from dual_device_strategy.compare.logs import compare_logs
from dual_device_strategy.compare.rounds import Comparison, Row, compare_at
from dual_device_strategy.readings import Reading
from dual_device_strategy.replicas.plans import Costs
from dual_device_strategy.whatif import Work
from dual_device_strategy.workload import Workload
from tests.share_times import only_whole_batches, pretend

SMALL = Workload(4, 8, 8, (4.0, 8.0, 8.0), step_mb=1)
PEERS = {
    "one device",
    "mirrored, one device",
    "tf.device on both devices",
    HOST_SIDE,
    IN_STEP,
}


@pytest.mark.slow
def test_every_contender_computes_the_same_loss():
    """With real work: log spectra and a small transformer, from the same weights."""
    workload = Workload(2, 8, 8, width=16, layers=1)
    losses = {}
    made = contenders(workload, Setting("GPU:0", "GPU:1"), lambda: Work(step=1, rows=2))
    made.pop(AUTO)  # it has trained before it is measured
    for name, make in made.items():
        tf.keras.utils.set_random_seed(3)
        next_batch, step = make()
        losses[name] = float(step(next_batch()))
    assert set(losses) == {OURS, SHARED, *PEERS}
    assert list(losses.values()) == pytest.approx([losses[OURS]] * 7, rel=1e-4)


@pytest.fixture(scope="module")
def compared():
    return compare_at(SMALL, Setting("GPU:0", "GPU:1"), steps=4, rounds=2, without=set())


def test_rounds_measure_every_contender_and_every_stage_alone(compared):
    assert {row.name for row in compared.rows} == {OURS, SHARED, AUTO, *PEERS}
    details = {row.name: row.detail for row in compared.rows if row.detail}
    assert details[SHARED] == "3:1 rows" and details[AUTO].startswith("shares 0.")
    assert set(compared.alone) == {"host", "front end", "step"}
    for row in (*compared.rows, *compared.alone.values()):
        assert (len(row.times), row.problem) == (8, "")
    for row in compared.rows:
        assert len(row.others[Reading.EVERY_TENTH]) == 2
    assert " | read every tenth | " in report.table(compared)
    # A batch of 4 takes a quarter of the times for 16.
    assert compared.part_ms == (1, 2, 2)
    assert compared.limit_ms >= 2
    one = next(row for row in compared.rows if row.name == "one device")
    assert one.step_ms >= 4
    assert compared.host_core_ms == 2


def test_shares_are_measured_once_they_have_been_chosen(monkeypatch):
    """A disturbed trial is repeated, so it takes four."""
    only_whole_batches(monkeypatch)
    measured = pretend(monkeypatch, Costs(25, 5, 5, 60), disturbed=2)
    monkeypatch.setattr("dual_device_strategy.compare.contenders.LOOK_STEPS", 3)
    choice, details = {}, {}
    workload, setting = Workload(24, 8, 8, (0.0, 0.1, 0.1)), Setting("GPU:1", "GPU:0")
    for _ in range(2):  # another round keeps the choice
        next_batch, step = with_chosen_shares(workload, setting, choice, details)
        step(next_batch())
        assert json.loads(choice["made"])["settled"]
        assert [plan.rows for plan in measured] == [(12, 12), (16, 8), (16, 8), (17, 7)]
        assert details[AUTO] == "shares 0.71, 0.29"


def test_memory_is_counted_on_the_device_that_holds_it(compared):
    memory = {row.name: row.memory_mb for row in compared.rows}
    assert memory["one device"]["model"] >= 4  # the step's 1 MB for each of 4
    assert memory["one device"]["data"] < 1
    half = memory[IN_STEP]
    assert 2 <= half["model"] < memory["one device"]["model"]
    assert half["data"] >= 2


def test_what_does_not_fit_is_a_row_of_the_table_and_the_others_go_on():
    hungry = dataclasses.replace(SMALL, step_mb=400)  # 1,600 of 1,024 MB
    without = {SHARED, AUTO, *PEERS} - {"one device", IN_STEP}
    comparison = compare_at(hungry, Setting("GPU:0", "GPU:1"), steps=2, rounds=1, without=without)
    problems = {row.name: row.problem for row in comparison.rows}
    # Half a batch on each device fits.
    assert problems.pop(IN_STEP) == ""
    assert problems == {OURS: "does not fit", "one device": "does not fit"}
    assert "| split (ours) | - | - | - | - | - | - | - | does not fit |" in report.table(comparison)
    assert report.first_that_do_not_fit([comparison])[OURS] == 4
    assert "No batch size fits" in report.recommendation([comparison], 3, None)


def test_an_odd_batch_is_not_halved():
    names = contenders(dataclasses.replace(SMALL, batch_size=5), Setting("GPU:0", "GPU:1"))
    assert IN_STEP not in names


def test_several_devices_divide_the_work_and_the_limit():
    setting = Setting(["CPU:3", "CPU:2"], ["CPU:0", "CPU:1", "CPU:2"])
    assert setting.model_devices == ("CPU:0", "CPU:1")
    without = {AUTO, *PEERS} - {IN_STEP}
    several = compare_at(
        dataclasses.replace(SMALL, step_mb=0), setting, steps=2, rounds=1, without=without,
        readings=[Reading.ONE_FUNCTION],
    )  # fmt: skip
    assert {row.name: row.problem for row in several.rows} == dict.fromkeys(
        [OURS, SHARED, IN_STEP], ""
    )
    alone = {name: row.step_ms for name, row in several.alone.items()}
    assert several.limit_ms == max(alone["host"], alone["front end"] / 2, alone["step"] / 2)


def test_the_front_end_on_the_host_holds_a_core(compared):
    import time

    hold = tf.function(holding_a_core(40))
    with tf.device("CPU:0"):
        batch = (tf.ones([2]), tf.zeros([2]))
        hold(batch)
        begin = time.process_time()
        held = hold(batch)
        held[0].numpy()
    assert 1e3 * (time.process_time() - begin) > 15  # work, and no mere waiting
    assert [t.numpy().tolist() for t in held] == [[1, 1], [0, 0]]


def test_parts_alone_keep_their_batch_where_it_is():
    for make in parts_alone(SMALL, Setting("GPU:0", "GPU:1")).values():
        next_batch, step = make()
        assert step(next_batch()).shape == []


def made_up(batch_size, ours, host_side, limit=20.0, host_core_ms=20.0, problem=""):
    part_ms = tuple(ms * batch_size / 16 for ms in (10, 20, 20))
    rows = [Row(OURS, batch_size, part_ms), Row(HOST_SIDE, batch_size, part_ms)]
    if problem:
        rows[0].problem = problem
    else:
        rows[0].times = [ours] * 5
    rows[1].times = [host_side] * 5
    rows[0].memory_mb = {"data": 4.0, "model": 132.0}
    alone = {"step": Row("step", batch_size, part_ms, [limit] * 5)}
    return Comparison(batch_size, part_ms, rows, alone, host_core_ms)


@pytest.mark.parametrize(
    ("ours", "core_ms", "cores"), [(20.0, 20, 1), (20.0, 55, 3), (20.2, 20.4, 1), (5.0, 21, 5)]
)
def test_the_break_even_is_the_cores_that_make_batches_as_fast_as_ours_takes_them(
    ours, core_ms, cores
):
    comparison = made_up(16, ours, 20.0, host_core_ms=core_ms)
    assert report.break_even_cores(comparison) == cores
    assert f"as fast as ours from {cores} free core" in report.table(comparison)


def test_the_table_says_where_ours_loses():
    table = report.table(made_up(16, 20.4, 10.2))
    assert "| split (ours) | 20.4 | 0.0% | 2.00 | 1.02 | 4 | 132 |  |" in table
    assert "2.00 x faster than ours here" in table
    assert "faster than ours" not in report.table(made_up(16, 20.4, 20.4))
    shared = made_up(16, 20.4, 10.2)
    shared.rows.append(dataclasses.replace(shared.rows[0], name=SHARED, detail="9:7 rows"))
    shared.rows[2].times = [10.4] * 5
    table = report.table(shared)
    assert "9:7 rows" in table and "faster than ours" not in table
    assert "with slots=3 and shares (9:7 rows)" in report.recommendation([shared], 3, None)


def test_the_summary_has_a_line_for_each_case_and_size():
    lines = report.summary([made_up(8, 20.4, 40.8), made_up(16, 21, 21)]).splitlines()
    assert lines[0].startswith(
        "| batch size | host, front end, step | loss | slowest alone | split (ours)"
    )
    assert lines[2] == (
        "| 8 | 5, 10, 10 | read on every step | 20.00 | 20.40 (1.020 x slowest) | "
        "40.80 (2.00 x) | 0.0% | 1 |"
    )
    assert len({line.count("|") for line in lines}) == 1


def test_the_recommended_batch_size_is_the_smallest_of_the_fastest_that_fit():
    tried = [
        made_up(8, 10, 10),
        made_up(16, 15, 15),
        made_up(24, 22.4, 22),  # as many elements a second as 16
        made_up(32, 0, 30, problem="does not fit"),
    ]
    text = report.recommendation(tried, 3, 4096.0)
    assert text.startswith("Recommended for 4,096 MB on the model device: batch_size=16 with slots")
    assert text.endswith("batch size 32 is the first that does not fit")


def test_the_page_has_a_picture_for_each_case_and_asks_for_nothing(opened):
    other = dataclasses.replace(made_up(8, 5, 6), part_ms=(1.0, 2.0, 2.0))
    comparisons = [made_up(8, 20, 40), made_up(16, 30, 60), other]
    page = plot.page(comparisons, emulated=True)
    assert page.count("<svg") == 2
    seen = opened(page, 390)
    assert seen["requests"] == []
    assert seen["needed"] <= 390
    assert "host 2, front end 4, step 4 ms for a batch of 16" in seen["text"]
    assert "Ours is the fastest at batch sizes 8, 16: 2.00 times as fast" in seen["text"]


def test_the_verdict_is_a_sentence_and_knows_what_it_cannot_tell():
    wins = [made_up(8, 20, 40), made_up(16, 30, 66)]
    assert report.verdict(wins) == (
        "Ours is the fastest at batch sizes 8, 16: 2.00 to 2.20 times as fast as the next best "
        "(front end on the host)."
    )
    assert report.verdict([made_up(8, 20, 16)]) == (
        "At batch size 8, front end on the host is 1.25 times as fast as ours."
    )
    shared = made_up(8, 20, 40)
    shared.rows.append(dataclasses.replace(shared.rows[0], name=SHARED, times=[10.0] * 5))
    shared.rows[1].others = {Reading.EVERY_TENTH: [8.0] * 5}
    shared.rows[2].others = {Reading.EVERY_TENTH: [10.0] * 5}
    shared.readings = Reading.EVERY_STEP, Reading.EVERY_TENTH
    assert report.verdict([shared]) == (
        "Loss read on every step: Ours with shares is the fastest at batch size 8: 4.00 times as "
        "fast as the next best (front end on the host). Loss read every tenth: At batch size 8, "
        "front end on the host is 1.25 times as fast as ours with shares."
    )
    noisy = made_up(8, 20, 21)
    noisy.rows[0].times = [14.0, 18.0, 20.0, 22.0, 27.0]
    assert "within the uncertainty: more steps" in report.verdict([noisy])
    assert "not measured against another" in report.verdict([made_up(8, 0, 30, problem="no")])


def test_the_picture_has_bars_for_each_contender_and_the_limit(tmp_path):
    comparisons = [made_up(8, 20, 40), made_up(16, 30, 60)]
    (series,) = plot.by_case(comparisons[1:]).values()
    assert series == {OURS: [(16, 30)], HOST_SIDE: [(16, 60)], plot.LIMIT: [(16, 20.0)]}
    plot.write_png(comparisons, tmp_path / "plot.png")
    assert tf.io.decode_png((tmp_path / "plot.png").read_bytes()).shape[0] > 300


def test_the_memory_of_a_device_is_known_where_somebody_tells():
    assert devices.total_memory("GPU:1") == 1024 << 20
    assert devices.total_memory("CPU:1") is None


def finished_run(path, steps):
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    with Monitor(strategy, json_file=path, first_steps=2) as watched:
        dataset = tf.data.Dataset.from_tensors(tf.ones([1000])).repeat(steps)
        for batch in watched.batches(strategy.experimental_distribute_dataset(dataset)):
            strategy.run(tf.function(tf.reduce_sum), args=(batch,)).numpy()
    return path


def test_two_finished_runs_are_compared(tmp_path):
    paths = [finished_run(tmp_path / f"{n}.jsonl", n) for n in (12, 22)]
    table, problems = compare_logs([str(path) for path in paths])
    assert problems == []
    rows = [line.split(" | ") for line in table.splitlines()]
    cells = {row[0].strip("| "): [cell.strip(" |") for cell in row[1:]] for row in rows}
    assert cells["steps"] == ["10", "20", "2.00"]
    for name in ("step, ms", "variation", "wait share", "total, s", "model device peak, MB"):
        assert all(cell != "-" for cell in cells[name][:2]), name
