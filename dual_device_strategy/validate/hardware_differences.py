"""Tests each row of the table in `dual_device_strategy.emulation` on the hardware."""

import time

import numpy as np
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
from dual_device_strategy.devices import Devices
from dual_device_strategy.validate import transfer
from dual_device_strategy.validate.hardware_report import HardwareReport
from dual_device_strategy.validate.pipeline import work_on

_LONG_MS = 100
_FLOATS = 1 << 22
_ONLY_ON_HARDWARE = "not run: emulated GPUs cannot; on hardware it is"


def check(report: HardwareReport, devices: Devices) -> None:
    _queueing(report, devices)
    _pageable(report, devices)
    _graph_optimizers(report, devices)
    _xla(report, devices)
    _cudnn(report, devices)
    _collectives(report, devices)


def _queueing(report, devices):
    data, model = devices.data.logical, devices.model.logical
    work = work_on(devices.model)

    @tf.function
    def busy(x):
        return work(x, _LONG_MS)

    def ready(device, size=8):
        with tf.device(device):
            made = tf.fill([size], 1.0)
        made[:1].numpy()
        return made

    def queue():
        with tf.device(model):
            return busy(x)

    x = ready(model)
    queue().numpy()
    with report.check("Work runs beside its caller", "the call returns at once") as finding:
        begin = time.perf_counter()
        result = queue()
        returned = 1e3 * (time.perf_counter() - begin)
        result.numpy()
        done = 1e3 * (time.perf_counter() - begin)
        finding.found(
            f"the call returned after {returned:.1f} ms, its work was done after {done:.1f} ms",
            returned < done / 2,
            returned_ms=returned,
            done_ms=done,
        )
    with report.check(
        "A read waits for the work queued on the compute stream", "it does"
    ) as finding:
        small = ready(model)
        queue()
        waited = _ms(lambda: small.numpy())
        _settle(model)
        finding.found(
            f"a value that was there was read after {waited:.1f} ms, behind {_LONG_MS} ms of work",
            waited > _LONG_MS / 2,
            waited_ms=waited,
        )
    with report.check("A read does not wait for copies on other streams", "it does not") as finding:
        small, large = ready(model), ready(data, size=4 * _FLOATS)
        with tf.device(model):
            alone = _ms(lambda: tf.identity(large)[:1].numpy())
            large = ready(data, size=4 * _FLOATS)
            begin = time.perf_counter()
            moved = tf.identity(large)
            waited = _ms(lambda: small.numpy())
            moved[:1].numpy()
            both = 1e3 * (time.perf_counter() - begin)
        finding.found(
            f"a copy takes {alone:.1f} ms; a value beside it was read after {waited:.1f} ms, the "
            f"copy was done after {both:.1f} ms",
            None,
            copy_ms=alone,
            waited_ms=waited,
            done_ms=both,
        )
    with report.check(
        "A copy between GPUs waits for both", "for all work queued on them"
    ) as finding:
        moved = ready(data, size=_FLOATS)
        queue()
        with tf.device(model):
            waited = _ms(lambda: tf.identity(moved)[:1].numpy())
        finding.found(
            f"a copy of {4 * _FLOATS >> 20} MB behind {_LONG_MS} ms of work arrived after "
            f"{waited:.1f} ms",
            waited > _LONG_MS / 2,
            waited_ms=waited,
        )


def _pageable(report, devices):
    expected = "a copy from pageable memory returns later than one from pinned memory"
    with report.check("Pageable memory holds the thread that copies it", expected) as finding:
        target = devices.data.logical
        held = {}
        for kind, tensors in (
            ("pageable", transfer.made_on("CPU:0")),
            ("pinned", transfer.made_pinned()),
        ):
            times = []
            for tensor in tensors:
                tensor[:1].numpy()
                with tf.device(target):
                    times.append(_ms(lambda tensor=tensor: tf.identity(tensor)))
                _settle(target)
            held[kind] = float(np.median(times))
        finding.found(
            f"pageable after {held['pageable']:.2f} ms, pinned after {held['pinned']:.2f} ms",
            held["pageable"] > held["pinned"],
            **held,
        )


def _graph_optimizers(report, devices):
    expected = "the losses of fit and of an own loop are those of the graph as it was written"
    with report.check("Graph optimizers, channels-first convolutions", expected) as finding:
        before = tf.config.optimizer.get_experimental_options()
        rewritten = _losses(devices)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        try:
            written = _losses(devices)
        finally:
            tf.config.optimizer.set_experimental_options(
                {**before, "disable_meta_optimizer": False}
            )
        _found_equal(
            finding, ours=rewritten, theirs=written, our_name="rewritten", their_name="as written"
        )


def _xla(report, devices):
    expected = "fit and an own loop with jit_compile=True give the losses that they give without"
    with report.check("XLA", expected) as finding:
        if emulation.active():
            return finding.found(_ONLY_ON_HARDWARE)
        _found_equal(
            finding,
            ours=_losses(devices, jit=True),
            theirs=_losses(devices),
            our_name="compiled",
            their_name="not compiled",
        )


def _cudnn(report, devices):
    with report.check("cuDNN's LSTM", "it gives what the host's gives") as finding:
        import keras

        x = np.random.RandomState(0).randn(4, 12, 8).astype("float32")
        outputs = []
        for device in (devices.model.logical, "CPU:0"):
            keras.utils.set_random_seed(1)
            with tf.device(device):
                outputs.append(keras.layers.LSTM(16)(tf.identity(x)).numpy())
        ours, theirs = outputs
        _found_equal(finding, ours=ours, theirs=theirs, our_name="GPU", their_name="host")


def _collectives(report, devices):
    with report.check("NCCL", "MirroredStrategy over both GPUs sums their values") as finding:
        strategy = tf.distribute.MirroredStrategy([devices.data.logical, devices.model.logical])

        @tf.function
        def add():
            def each():
                context = tf.distribute.get_replica_context()
                return context.all_reduce("SUM", tf.fill([1000], 1.5))

            return strategy.experimental_local_results(strategy.run(each))

        _found_equal(
            finding,
            ours=add()[0],
            theirs=np.full([1000], 3.0),
            our_name="sum",
            their_name="should be",
        )


def _losses(devices, jit=False):
    """The losses of two epochs of `fit`, and of a custom loop after it."""
    import keras

    keras.utils.set_random_seed(2)
    random = np.random.RandomState(0)
    x, y = random.randn(64, 8, 8, 3), random.randn(64, 4)
    dataset = tf.data.Dataset.from_tensor_slices((x.astype("float32"), y.astype("float32")))
    dataset = dataset.batch(16).apply(on_data_device(lambda x, y: (x * 0.5, y)))
    strategy = DataModelSplitStrategy(devices)
    with strategy.scope():
        layers = [
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Flatten(),
            keras.layers.Dense(4, activation="gelu"),
        ]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.SGD(1e-2), "mse", jit_compile=jit)
    losses = model.fit(dataset, epochs=2, verbose=0).history["loss"]

    @tf.function(jit_compile=jit)
    def step(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        weights = model.trainable_variables
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss

    for batch in strategy.experimental_distribute_dataset(dataset):
        losses.append(float(strategy.run(step, args=(batch,))))
    return losses


def _found_equal(finding, *, ours, theirs, our_name, their_name):
    ours, theirs = (np.asarray(each, np.float64) for each in (ours, theirs))
    difference = float(np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-3)))
    # TensorFloat-32, the default on recent cards, has ten bits.
    finding.found(
        f"{our_name} and {their_name} differ by {difference:.1e} at most",
        difference < 1e-2,
        difference=difference,
    )


def _ms(work):
    begin = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begin)


def _settle(device):
    with tf.device(device):
        tf.fill([1], 0.0).numpy()
