"""Streams and events under the compiler's sanitizers."""

import subprocess
from pathlib import Path

import pytest
import tensorflow as tf

from dual_device_strategy.emulation import building

HERE = Path(__file__).parent
PLUGIN = ["controls.cc", "machine.cc", "memory_pool.cc", "plugin.cc", "stream.cc"]


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_thousands_of_random_operations_by_eight_threads_are_clean(sanitizer, tmp_path):
    program, source = tmp_path / "streams_stress", tmp_path / "all.cc"
    # As one source, so that what all of them include is compiled once.
    sources = [*(building._SOURCE / name for name in PLUGIN), HERE / "streams_stress.cc"]
    source.write_text("".join(f'#include "{path}"\n' for path in sources))
    options = ["-std=c++17", "-O1", "-g1", "-pthread", f"-I{building._SOURCE}"]
    options += [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-isystem"]
    command = [*building._compiler(), *options, tf.sysconfig.get_include()]
    subprocess.run([*command, source, "-o", program], check=True)
    result = subprocess.run([program, "1000"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("ok: 8000 rounds") and "WARNING" not in result.stderr
