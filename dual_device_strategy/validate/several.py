"""Section for several devices: copies of variables, pieces of batches, sums, and overlap."""

import itertools
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dual_device_strategy import data_scope, on_data_device
from dual_device_strategy.devices import Device, Devices, short_name
from dual_device_strategy.validate.pipeline import work_on
from dual_device_strategy.validate.report import Report

DATA_MS, MODEL_MS, STEPS, WARM_UP, COLUMNS = 20, 20, 25, 5, 4096
LEAST_OVERLAP = 0.5
_REPORT_IT = "report this with --json output and the log above"


def pairs(devices: Devices) -> list[Devices]:
    """Each data device with each model device that it copies to."""
    return [
        Devices(data, model, devices.reason)
        for data, model in itertools.product(devices.data, devices.model)
        if data.logical != model.logical
    ]


def check(report: Report, devices: Devices, strategy: tf.distribute.Strategy) -> None:
    model = [device.logical for device in devices.model]
    with strategy.scope():
        variable = tf.Variable(tf.zeros([4]))
        with data_scope():
            of_front_end = tf.Variable(1.0)
    _check_copies(report, "a variable of the model", variable, model)
    data = [device.logical for device in devices.data]
    _check_copies(report, "a variable of data_scope", of_front_end, data)
    _check_pieces(report, strategy, model)
    _check_sums(report, strategy, model)
    _check_overlap(report, strategy, devices)


def _check_copies(report, what, variable, wanted):
    copies = getattr(variable, "values", None) or [variable]
    found = [short_name(copy.device) for copy in copies]
    report.check(
        found == wanted,
        f"{what} is on {', '.join(found)}",
        remedy=f"expected a copy on each of {', '.join(wanted)}: create it in strategy.scope()",
        found=found,
    )


def _rows(strategy):
    return 8 * strategy.num_replicas_in_sync


def _check_pieces(report, strategy, wanted):
    """Checks that the pieces of each batch arrive where they train, and add up to the batch."""
    rows, sent = _rows(strategy), 20
    first = tf.range(rows * COLUMNS, dtype=tf.int32)
    dataset = tf.data.Dataset.range(sent).map(
        lambda i: tf.reshape(first + tf.cast(i, tf.int32), [rows, COLUMNS])
    )
    dataset = dataset.apply(on_data_device(lambda batch: 2 * batch))
    arrived = damaged = stranded = 0
    for number, batch in enumerate(strategy.experimental_distribute_dataset(dataset)):
        pieces = strategy.experimental_local_results(batch)
        whole = np.concatenate([piece.numpy() for piece in pieces])
        damaged += not np.array_equal(whole, 2 * (first.numpy() + number).reshape(rows, COLUMNS))
        places = [short_name(piece.backing_device) for piece in pieces]
        stranded += places != wanted
        arrived += 1
    cut = ":".join(str(len(piece)) for piece in pieces)
    report.check(
        (arrived, damaged, stranded) == (sent, 0, 0),
        f"{arrived} of {sent} batches arrived, cut {cut}; {damaged} with other contents, "
        f"{stranded} with a piece elsewhere than on {', '.join(wanted)}",
        remedy=_REPORT_IT,
        cut=cut,
    )


def _check_sums(report, strategy, wanted):
    def replica():
        context = tf.distribute.get_replica_context()
        mine = tf.fill([1000], 1.0 + tf.cast(context.replica_id_in_sync_group, tf.float32))
        return context.all_reduce("SUM", mine)

    expected = sum(range(1, len(wanted) + 1))
    sums = strategy.experimental_local_results(strategy.run(tf.function(replica)))
    wrong = [
        device
        for device, found in zip(wanted, sums, strict=True)
        if not (found.numpy() == expected).all()
    ]
    report.check(
        not wrong,
        f"gradients of {len(wanted)} devices are added up"
        + (f", but wrong on {', '.join(wrong)}" if wrong else " on each"),
        remedy=(
            "give the strategy cross_device_ops=tf.distribute.HierarchicalCopyAllReduce(), and "
            "look for NCCL in the log"
        ),
    )


def _check_overlap(report, strategy, devices):
    prepare, train = work_on(devices.data[0]), work_on(devices.model[0])
    batch = tf.ones([_rows(strategy), COLUMNS])
    host = tf.data.Dataset.from_tensors(batch).repeat()
    staged = host.apply(on_data_device(lambda batch: prepare(batch, DATA_MS)))

    @tf.function
    def step(batch):
        return strategy.run(lambda x: tf.reduce_mean(train(x, MODEL_MS)), args=(batch,))

    def read(result):
        for of_replica in strategy.experimental_local_results(result):
            tf.reshape(of_replica, [-1])[0].numpy()

    batches = iter(strategy.experimental_distribute_dataset(staged))
    held = next(batches)
    step_ms = _paced(lambda: read(step(held)))
    data_ms = _paced(lambda: read(next(batches)))
    both_ms = _paced(lambda: read(step(next(batches))))
    slowest, in_turns = max(step_ms, data_ms), step_ms + data_ms
    said = (
        f"{both_ms:.1f} ms a step; alone, preparing takes {data_ms:.1f} and the step {step_ms:.1f}"
    )
    if _share_devices(devices.data, devices.model):
        report.note(f"{said}; the data devices train as well", step_ms=both_ms)
        return
    overlap = (in_turns - both_ms) / (in_turns - slowest)
    report.check(
        overlap >= LEAST_OVERLAP,
        f"{said}: overlap {overlap:.0%}",
        remedy=(
            f"at least {LEAST_OVERLAP:.0%} is expected: run again when no other program uses "
            "these devices or the CPU"
        ),
        overlap=overlap,
    )


def _share_devices(data: Sequence[Device], model: Sequence[Device]) -> bool:
    return bool({device.logical for device in data} & {device.logical for device in model})


def _paced(work) -> float:
    """Mean milliseconds of a call: batches of several data devices may come together."""
    for _ in range(WARM_UP):
        work()
    begin = time.perf_counter()
    for _ in range(STEPS):
        work()
    return 1e3 * (time.perf_counter() - begin) / STEPS
