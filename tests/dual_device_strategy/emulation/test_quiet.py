"""What a command with emulated GPUs leaves out of stderr."""

import subprocess
import sys

from dual_device_strategy.emulation import quiet

# The file alone, because importing the package takes seconds.
DYING = """
import os, runpy, sys
stderr = os.fstat(2)
runpy.run_path(sys.argv[1])["leave_out_missing_cuda"]()
os.write(2, b"E0000 utils.cc] Failed to get device properties, error code: 302\\nlast words\\n")
assert os.path.samestat(os.fstat(sys.stderr.fileno()), stderr)  # what bars are drawn on
os.abort()
"""
A_FUNCTION = """
import os
os.environ.pop("TF_CPP_MIN_LOG_LEVEL")
import tensorflow as tf
from dual_device_strategy import emulation
from dual_device_strategy.emulation import quiet
emulation.start(gpus=1)
quiet.leave_out_missing_cuda()
tf.function(lambda x: x + x)(tf.ones([2]))
os.write(2, b"the end\\n")
"""


def test_only_the_message_about_cuda_is_left_out_even_when_the_process_dies():
    done = subprocess.run(
        [sys.executable, "-c", DYING, quiet.__file__], env={}, capture_output=True, timeout=60
    )
    assert done.stderr == b"last words\n"


def test_a_function_on_an_emulated_gpu_prints_no_error(run_python):
    stderr = run_python(A_FUNCTION).stderr
    assert "device properties" not in stderr
    assert stderr.endswith("the end\n")
