"""configure_devices with lists of GPUs."""

import json

import pytest
import tensorflow as tf

from dual_device_strategy.devices import choosing


def test_lists_give_tuples_of_the_names_that_the_gpus_have_in_this_program(run_python):
    done = run_python(
        "import json\n"
        "import tensorflow as tf\n"
        "from dual_device_strategy import MirroredDataModelSplitStrategy, emulation\n"
        "from dual_device_strategy.devices import configure_devices\n"
        "emulation.start(gpus=6)\n"
        "devices = configure_devices([5, 1], [3, 1], model_gpu_memory_mb=256)\n"
        "strategy = MirroredDataModelSplitStrategy(\n"
        "    devices.data_device, devices.model_device, shares=(0.8, 0.2)\n"
        ")\n"
        "print(json.dumps([devices.data_device, devices.model_device, str(devices),\n"
        "    [d[-5:] for d in strategy.data_devices], [d[-5:] for d in strategy.model_devices],\n"
        "    len(tf.config.list_logical_devices('GPU'))]))\n"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    data, model, said, of_data, of_model, visible = json.loads(done.stdout.splitlines()[-1])
    assert (data, model, visible) == (["GPU:2", "GPU:0"], ["GPU:1", "GPU:0"], 3)
    assert (of_data, of_model) == (data, model)
    assert "data device GPU:2 (physical GPU 5" in said
    assert "model device GPU:1 (physical GPU 3, emulated GPU, memory limited to 256 MB" in said


@pytest.mark.parametrize(
    ("data", "model", "said"),
    [
        ([], [0], "data_gpu names no GPU"),
        ([1], None, "model_gpu names no GPU"),
        ([2], [0], "data_gpu=2 asks for GPU 2, but TensorFlow sees 2 GPUs"),
        ([1], [0, 0], "model_gpu=0,0 names GPU 0 more than once"),
    ],
)
def test_lists_that_make_no_sense_are_refused(data, model, said):
    with pytest.raises(ValueError) as raised:
        choosing.check_several(data, model, tf.config.list_physical_devices("GPU"))
    assert said in str(raised.value)
