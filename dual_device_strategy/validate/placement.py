"""Section 3: where the variables of a model, the operations of its step and their results are."""

import tempfile
from collections import Counter
from pathlib import Path

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, compat, data_scope
from dual_device_strategy.devices import Devices, short_name
from dual_device_strategy.validate.report import Report

# These carry values in and out of a function and do no work.
_CARRIERS = {"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "_Send", "_Recv"}
_CARRIERS |= {"_HostSend", "_HostRecv", "NoOp", "Const", "_EagerConst", "Identity"}
_REMEDY = (
    "create the model and its optimizer inside strategy.scope(), run the step with strategy.run, "
    "and leave out tf.device"
)


def check(report: Report, devices: Devices) -> None:
    import keras

    strategy = DataModelSplitStrategy(devices.data_device, devices.model_device)
    with strategy.scope():
        layers = [
            keras.layers.Embedding(64, 16),
            keras.layers.Conv1D(16, 3),
            keras.layers.LSTM(16),
            keras.layers.LayerNormalization(),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(4),
        ]
        model = keras.Sequential(layers)
        model.build((None, 8))
        optimizer = keras.optimizers.AdamW(1e-3, clipnorm=1.0)
        optimizer.build(model.trainable_variables)
        metric = keras.metrics.Mean()
        with data_scope():
            front_end = tf.Variable(1.0)

    for kind, variables in (
        ("variables of the model", model.variables),
        ("slots and counters of the optimizer", optimizer.variables),
        ("variables of the metric", metric.variables),
    ):
        places = [variable.value.value().device for variable in variables]
        _check_places(report, kind, places, devices.model_device)
    _check_places(report, "variables of data_scope", [front_end.device], devices.data_device)

    def step(batch):
        with tf.GradientTape() as tape:
            logits = model(batch, training=True)
            loss = tf.reduce_mean(tf.square(logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        metric.update_state(loss)
        return loss, logits, gradients

    dataset = tf.data.Dataset.from_tensors(tf.ones([2, 8], tf.int32))
    batch = next(iter(strategy.experimental_distribute_dataset(dataset)))
    _check_places(report, "batches", [batch.backing_device], devices.model_device)
    results, operations = _traced(lambda: strategy.run(tf.function(step), args=(batch,)))
    places = [
        result.backing_device
        for result in tf.nest.flatten(results, expand_composites=True)
        # Shapes and other int32 belong in host memory, wherever they were computed.
        if result.dtype.is_floating
    ]
    _check_places(report, "results of the step", places, devices.model_device)
    _check_operations(report, operations, devices)


def _check_places(report, what, places, wanted):
    wrong = Counter(short_name(place) for place in places if short_name(place) != wanted)
    found = ", ".join(f"{count} on {place}" for place, count in wrong.items())
    report.check(
        bool(places) and not wrong,
        f"{len(places)} {what}: " + (found or f"all on {wanted}"),
        remedy=f"expected all on {wanted}: {_REMEDY}",
        count=len(places),
        elsewhere=sum(wrong.values()),
    )


def _check_operations(report, operations, devices):
    counts = Counter(short_name(place) for place, kind in operations if kind not in _CARRIERS)
    on_model = counts.pop(devices.model_device, 0)
    # Some operations exist on the host only; a model on a logical CPU has no need of another.
    on_host = counts.pop("CPU:0", 0) if devices.model.kind == "GPU" else 0
    elsewhere = sorted(
        {
            kind
            for place, kind in operations
            if short_name(place) in counts and kind not in _CARRIERS
        }
    )
    text = f"{on_model} operations of the compiled step on {devices.model_device}"
    if counts:
        text += f", {sum(counts.values())} on {', '.join(counts)} ({', '.join(elsewhere[:5])})"
    report.check(
        on_model > 0 and not counts,
        text + f", {on_host} on the host",
        remedy=f"expected none but on {devices.model_device} and the host: {_REMEDY}",
        model=on_model,
        host=on_host,
        elsewhere=sum(counts.values()),
    )


def _traced(run):
    """The result of `run`, and (device, kind) of each operation in the graphs that were executed.

    The graphs are those after placement and partitioning, as TensorFlow's summary of a function's
    first run has them; a program's request and the outcome can differ.
    """
    with tempfile.TemporaryDirectory() as folder:
        # Made before the trace begins, or the trace would contain the writer's own operations.
        writer = tf.summary.create_file_writer(folder)
        tf.summary.trace_on(graph=True)
        try:
            results = run()
            with writer.as_default():
                tf.summary.trace_export("step", step=0)
        finally:
            tf.summary.trace_off()
            compat.stop_collecting_graphs()  # trace_off does not, and graphs would pile up
            writer.close()
        functions = [graphs for file in Path(folder).iterdir() for graphs in _functions(file)]
    # Functions of datasets that run meanwhile are traced too; the step's is by far the largest.
    step = max(functions, key=lambda graphs: sum(len(graph.node) for graph in graphs))
    return results, [(node.device, node.op) for graph in step for node in graph.node]


def _functions(event_file):
    """The graphs, one per device, of each function in the summary."""
    for record in tf.data.TFRecordDataset(str(event_file)):
        for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value:
            metadata = tf.compat.v1.RunMetadata.FromString(value.tensor.string_val[0])
            for function in metadata.function_graphs:
                yield function.partition_graphs
