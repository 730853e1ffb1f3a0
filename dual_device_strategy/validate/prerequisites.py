"""Section 1: the driver, TensorFlow, and whether TensorFlow sees the driver's GPUs."""

import itertools
import os

import tensorflow as tf

from dual_device_strategy import emulation
from dual_device_strategy.devices import topology
from dual_device_strategy.validate.report import Report

OLDEST_TENSORFLOW = (2, 16)


def check(report: Report) -> None:
    _check_versions(report)
    gpus = tf.config.list_physical_devices("GPU")
    if emulation.active():
        report.note(f"{len(gpus)} emulated GPUs: figures show overlap and placement, not speed")
        return
    _check_gpus(report, gpus)
    if len(gpus) > 1:
        _note_links(report)


def _check_versions(report):
    use_tensorflow = "set KERAS_BACKEND=tensorflow in the environment, or in ~/.keras/keras.json"
    # Not at the top: Keras fails to import when its configured backend is missing.
    try:
        import keras
    except ImportError as error:
        report.check(False, f"Keras does not import: {error}", remedy=use_tensorflow)
        return
    report.check(
        _version(tf.__version__) >= OLDEST_TENSORFLOW and _version(keras.__version__) >= (3,),
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}",
        remedy="pip install --upgrade 'tensorflow>=2.16' 'keras>=3'",
        tensorflow=tf.__version__,
        keras=keras.__version__,
    )
    backend = keras.backend.backend()
    report.check(backend == "tensorflow", f"Keras runs on {backend}", remedy=use_tensorflow)


def _check_gpus(report, gpus):
    names = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    seen = f"TensorFlow sees {len(gpus)} GPUs" + (f": {', '.join(names)}" if gpus else "")
    try:
        driver = topology.read_driver()
    except topology.UnknownTopologyError as unknown:
        report.note(f"driver not asked: {unknown}")
        report.note(seen, gpus=len(gpus))
        return
    report.note(
        f"driver {driver.version} (CUDA {driver.cuda_version}) with {len(driver.gpus)} GPUs: "
        + ", ".join(
            f"{gpu.name} at {gpu.bus_id}, {gpu.used_mb} of {gpu.memory_mb} MB in use"
            + (", sliced (MIG)" if gpu.mig else "")
            for gpu in driver.gpus
        ),
        driver=driver.version,
        gpus=len(driver.gpus),
    )
    remedy = "pip install 'dual-device-strategy[gpu]' brings TensorFlow's CUDA libraries"
    if not tf.test.is_built_with_cuda():
        remedy = "this TensorFlow was built without CUDA: pip uninstall tensorflow-cpu; " + remedy
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    report.check(
        bool(gpus) or not driver.gpus or hidden is not None, seen, remedy=remedy, seen=len(gpus)
    )
    if (gpus or hidden is not None) and len(gpus) < len(driver.gpus):
        report.note(topology.why_gpus_are_missing(len(gpus)))


def _note_links(report):
    try:
        known = topology.read_topology()
    except topology.UnknownTopologyError as unknown:
        report.note(f"which GPUs are well joined is unknown: {unknown}")
        return
    pairs = list(itertools.combinations(range(len(known.gpus)), 2))
    links = "; ".join(f"{a} and {b} by {known.link(a, b)}" for a, b in pairs)
    report.note(f"GPUs joined: {links}")
    if len(pairs) > 1:
        best = known.best_pair(range(len(known.gpus)))
        report.note(
            f"the better pair is {best[0]} and {best[1]}, joined by {known.link(*best)}",
            better_pair=best,
        )


def _version(text):
    return tuple(int(part) for part in text.split(".")[:2])
