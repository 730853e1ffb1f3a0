"""configure_devices on four, one and no emulated GPUs.

Devices are fixed when TensorFlow's runtime starts, so each layout needs a process of its own; a
refused call changes nothing, so all refusals share one.
"""

import json
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent

START = """
import json, os
import tensorflow as tf
from dual_device_strategy import compat, emulation
from dual_device_strategy.devices import configure_devices

def told(*arguments, **limits):
    try:
        return str(configure_devices(*arguments, **limits))
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"

if GPUS:
    emulation.start(gpus=GPUS, memory_mb=64)
"""


@pytest.fixture
def answers(run_python):
    """Runs a snippet with a number of emulated GPUs and returns the JSON of its last line."""

    def run(gpus, snippet, **environment):
        done = run_python(f"GPUS = {gpus}\n{START}\n{snippet}", **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_every_mistake_ends_a_command_with_one_sentence_and_exit_code_1(answers):
    said = answers(
        4,
        """
import contextlib, io
from absl import flags
from dual_device_strategy import command

def ended(*arguments):
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["command", *(f"--{argument}" for argument in arguments)])
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            command.start_devices()
        except SystemExit as end:
            return [end.code, errors.getvalue()]
        finally:
            for flag in ("data_gpu", "model_gpu", "data_gpu_memory_mb", "emulate_gpus"):
                flags.FLAGS[flag].unparse()

said = {
    "one": ended("data_gpu=1"),
    "other": ended("model_gpu=1"),
    "range": ended("data_gpu=0", "model_gpu=4"),
    "negative": ended("data_gpu=-1", "model_gpu=0"),
    "twice": ended("data_gpu=2", "model_gpu=2"),
    "limit": ended("data_gpu=0", "model_gpu=1", "data_gpu_memory_mb=0"),
    "emulation": ended("emulate_gpus=2"),
    "nine": ended("emulate_gpus=9"),
    "unchanged": len(tf.config.get_visible_devices("GPU")),
}
os.environ["CUDA_VISIBLE_DEVICES"] = "4,5,6,7"
said["renumbered"] = ended("data_gpu=4", "model_gpu=5")
said["chosen"] = told()
os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
said["no growth"] = told(0, 1)
tf.constant(0)
said["late"] = ended("data_gpu=0", "model_gpu=1")
print(json.dumps(said))
""",
    )
    assert said.pop("unchanged") == 4
    assert said.pop("chosen").endswith(
        "; the first two of 4: emulated links are all alike; the cards are alike: the lower index "
        "trains"
    )
    assert said.pop("no growth").count("all memory, by TF_FORCE_GPU_ALLOW_GROWTH=false") == 2
    assert {code for code, _ in said.values()} == {1}
    said = {mistake: sentence for mistake, (_, sentence) in said.items()}
    assert {sentence.count("\n") for sentence in said.values()} == {1}
    assert said["one"] == (
        "data_gpu=1 names one GPU and not the other, and TensorFlow sees 4 GPUs, "
        "0 to 3: give model_gpu as well, or leave both out to have the devices chosen.\n"
    )
    assert said["other"].startswith("model_gpu=1 names one GPU and not the other, ")
    assert "give data_gpu as well" in said["other"]
    assert said["range"] == (
        "model_gpu=4 does not exist: TensorFlow sees 4 GPUs, 0 to 3; name two of them, or leave "
        "both out to have the devices chosen.\n"
    )
    assert "data_gpu=-1 does not exist" in said["negative"]
    assert "data_gpu=2, model_gpu=2 names the same GPU twice" in said["twice"]
    assert "data_gpu_memory_mb=0 is not an amount of memory" in said["limit"]
    assert "The emulation runs already" in said["emulation"]
    assert said["nine"] == "There can be 1 to 8 emulated GPUs, got gpus=9\n"
    assert "which CUDA_VISIBLE_DEVICES=4,5,6,7 renumbers" in said["renumbered"]
    assert said["late"].startswith("configure_devices(data_gpu=0, model_gpu=1) came after")
    assert "tensor, variable, dataset" in said["late"] and "first in the program" in said["late"]


@pytest.mark.parametrize(
    ("pair", "logical"),
    [((2, 3), ("GPU:0", "GPU:1")), ((1, 0), ("GPU:1", "GPU:0"))],
    ids=["2 and 3 of four", "1 and 0, reversed"],
)
def test_the_named_gpus_are_the_ones_at_work(answers, pair, logical):
    result = answers(
        4,
        f"""
chosen = configure_devices{pair}
def worked(device):
    with emulation.measure() as use, tf.device(device):
        emulation.timed(tf.zeros([4]), ms=20).numpy()
    return [index for index, gpu in enumerate(use) if gpu.busy > 0]
print(json.dumps({{
    "logical": [chosen.data_device, chosen.model_device],
    "physical": [chosen.data.physical, chosen.model.physical],
    "visible": [device.name for device in tf.config.list_logical_devices("GPU")],
    "data": worked(chosen.data_device),
    "model": worked(chosen.model_device),
    "line": str(chosen),
}}))
""",
    )
    assert tuple(result["logical"]) == logical
    assert tuple(result["physical"]) == pair
    assert result["visible"] == ["/device:GPU:0", "/device:GPU:1"]
    assert (result["data"], result["model"]) == ([pair[0]], [pair[1]])
    assert result["line"] == (
        f"data device {logical[0]} (physical GPU {pair[0]}, emulated GPU, memory grows); "
        f"model device {logical[1]} (physical GPU {pair[1]}, emulated GPU, memory grows); as asked"
    )


def test_running_out_of_the_data_gpus_limit_leaves_the_model_gpu_training(answers):
    result = answers(
        3,
        """
chosen = configure_devices(2, 1, data_gpu_memory_mb=24)
import keras
with tf.device(chosen.model_device):
    model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
def train():
    x = tf.random.stateless_normal([64, 8], (1, 2))
    with tf.device(chosen.model_device):
        return model.train_on_batch(x, x[:, :1])
result = {"before": float(train()), "line": str(chosen)}
result["limits"] = [emulation.stats(gpu).memory_limit >> 20 for gpu in range(3)]
held = []
try:
    for _ in range(10):
        with tf.device(chosen.data_device):
            held.append(tf.zeros([4 << 20, 1]))
        held[-1][:1].numpy()
except tf.errors.ResourceExhaustedError:
    result["held"] = len(held)
result["after"] = float(train())
with tf.device(chosen.model_device):
    tf.zeros([10 << 20])[:1].numpy()
del held[:]
with tf.device(chosen.data_device):
    result["again"] = float(tf.reduce_sum(tf.ones([1 << 20])))
print(json.dumps(result))
""",
    )
    assert "data device GPU:1 (physical GPU 2, emulated GPU, memory limited to 24" in result["line"]
    assert result["limits"] == [64, 64, 24]
    assert result["held"] == 1
    assert result["after"] < result["before"]
    assert result["again"] == 1 << 20


# What real GPUs would be given, read back from TensorFlow's configuration: emulated GPUs stand in,
# and the code under test is told that they are not emulated.
AS_IF_REAL = "emulation.active = lambda: None\ngpus = tf.config.list_physical_devices('GPU')\n"


def test_a_limit_on_one_gpu_keeps_growth_on_the_other(answers):
    result = answers(
        2,
        AS_IF_REAL
        + """
result = {"line": told(0, 1, data_gpu_memory_mb=32)}
result["limit"] = tf.config.get_logical_device_configuration(gpus[0])[0].memory_limit
result["unlimited"] = tf.config.get_logical_device_configuration(gpus[1])
result["growth"] = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH")
result["again"] = told(0, 1)
print(json.dumps(result))
""",
    )
    assert "GPU 0, EMULATED, memory limited to 32 MB)" in result["line"]
    assert "GPU 1, EMULATED, memory grows)" in result["line"]
    assert (result["limit"], result["unlimited"], result["growth"]) == (32, None, "true")
    assert result["again"].startswith("RuntimeError: /physical_device:GPU:0 has a logical device")


def test_of_four_gpus_the_pair_with_the_best_link_is_chosen_in_tensorflows_numbering(answers):
    layout = {"gpus": ["NVIDIA A"] * 5, "links": {"2-4": "nvlink"}}
    result = answers(
        4,
        AS_IF_REAL
        + """
from dual_device_strategy.devices import topology
topology.cuda_bus_ids = lambda: [f"0000:{index + 1}0:00.0" for index in (4, 3, 2, 1)]
result = {"linked": told()}
os.environ["FAKE_NVML"] = '{"gpus": ["NVIDIA A"]}'
tf.config.set_visible_devices(gpus, "GPU")
result["unmatched"] = told()
tf.config.set_visible_devices(gpus[2:], "GPU")
result["left visible"] = told()
print(json.dumps(result))
""",
        FAKE_NVML=json.dumps(layout),
        PYTHONPATH=os.pathsep.join([str(HERE / "fake_driver"), str(HERE.parent.parent.parent)]),
    )
    assert "data device GPU:1 (physical GPU 2," in result["linked"]
    assert "model device GPU:0 (physical GPU 0," in result["linked"]
    # Here is no CUDA driver to ask for memory and speed.
    trains = "; the lower index trains: the cards are unknown, the CUDA driver library"
    assert f"the pair of 4 with the best link, NVLink{trains}" in result["linked"]
    assert "(physical GPU 0," in result["unmatched"] and "(physical GPU 1," in result["unmatched"]
    assert (
        "the first two of 4: topology unknown, nvidia-ml-py lists no GPU at PCI address "
        f"0000:50:00.0, 0000:40:00.0, 0000:30:00.0, 0000:20:00.0{trains}"
    ) in result["unmatched"]
    assert f"the two GPUs there are{trains}" in result["left visible"]


def test_one_gpu_trains_and_the_host_cpu_prepares(answers):
    said = answers(
        1,
        """
print(json.dumps({
    "two": told(0, 1),
    "limit": told(data_gpu_memory_mb=16),
    "chosen": told(model_gpu_memory_mb=32),
}))
""",
    )
    assert said["two"].startswith(
        "ValueError: data_gpu=0, model_gpu=1 asks for two GPUs, but TensorFlow sees one GPU, 0"
    )
    assert "leave both out to use what there is" in said["two"]
    assert said["limit"].startswith(
        "ValueError: data_gpu_memory_mb=16 was given, but the data device is a CPU"
    )
    assert said["chosen"] == (
        "data device CPU:0 (physical CPU 0, host CPU, host memory); model device GPU:0 (physical "
        "GPU 0, emulated GPU, memory limited to 32 MB); data on the host CPU because TensorFlow "
        "sees one GPU"
    )


def test_without_gpus_importing_starts_nothing_and_two_logical_cpus_are_made(answers):
    result = answers(
        0,
        """
import importlib.util, pkgutil
import dual_device_strategy, myxtts
from absl import flags
imported = []
for package in (dual_device_strategy, myxtts):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        imported.append(importlib.import_module(module.name).__name__)
        for flag in list(flags.FLAGS):  # each command has its own, of the same names
            delattr(flags.FLAGS, flag)
if importlib.util.find_spec("train"):
    imported.append(importlib.import_module("train").__name__)
result = {"started by import": compat.runtime_started(), "imported": imported}
result["two"] = told(0, 1)
result["chosen"] = told()
result["devices"] = [device.name for device in tf.config.list_logical_devices()]
result["started"] = compat.runtime_started()
print(json.dumps(result))
""",
    )
    assert not result["started by import"], result["imported"]
    assert "dual_device_strategy.validate.pipeline" in result["imported"]
    assert "asks for two GPUs, but TensorFlow sees no GPU" in result["two"]
    assert result["chosen"].startswith(
        "data device CPU:0 (physical CPU 0, logical CPU, host memory); model device CPU:1"
    )
    assert result["devices"] == ["/device:CPU:0", "/device:CPU:1"]
    assert result["started"]
