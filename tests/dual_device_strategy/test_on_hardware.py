"""`validate --on_hardware`: its report, rehearsed on emulated GPUs."""

import getpass
from pathlib import Path

import pytest

from dual_device_strategy.validate.hardware_report import HardwareReport, read_results

ROOT = Path(__file__).resolve().parent.parent.parent

CHECKS = {
    "Machine",
    "The five sections of validate",
    "Links",
    "Work runs beside its caller",
    "A read waits for the work queued on the compute stream",
    "A read does not wait for copies on other streams",
    "A copy between GPUs waits for both",
    "Pageable memory holds the thread that copies it",
    "Graph optimizers, channels-first convolutions",
    "XLA",
    "cuDNN's LSTM",
    "NCCL",
    "Batches of 8",
    "Kinds of loops",
    "A run of 0.05 minutes",
    "Memory of the model device",
}
# What is not about time, and so is the same on a busy machine.
CERTAIN = {
    "The five sections of validate",
    "Graph optimizers, channels-first convolutions",
    "cuDNN's LSTM",
    "NCCL",
    "Memory of the model device",
}


@pytest.mark.slow
def test_on_emulated_gpus_the_hardware_report_is_a_rehearsal_of_every_check(run_python, tmp_path):
    path = tmp_path / "report.md"
    command = ["-m", "dual_device_strategy.validate", "--on_hardware", f"--report={path}"]
    two = {"EMULATED_GPUS": "2", "EMULATED_GPUS_MEMORY_MB": "512"}
    done = run_python(command, **two)
    results = {result["check"]: result for result in read_results(path)}
    assert set(results) == CHECKS, done.stdout + done.stderr
    assert {name: results[name]["as_expected"] for name in CERTAIN} == dict.fromkeys(CERTAIN, True)
    assert all(result["figures"] for name, result in results.items() if name != "XLA")
    assert set(results["Kinds of loops"]["figures"]["ms"]) == {
        "read on every step",
        "read on every tenth",
        "ten in one function",
        "fit",
    }
    text = path.read_text()
    assert text.startswith("# A rehearsal on emulated GPUs: nothing here was measured on hardware")
    unexpected = [name for name, result in results.items() if result["as_expected"] is False]
    assert done.returncode == bool(unexpected)
    assert str(tmp_path) not in text and str(ROOT) not in text
    again = run_python(command, **two)
    assert (again.returncode, path.read_text()) == (1, text)
    assert again.stderr.splitlines()[-1] == (
        f"--report={path} exists already, and a report is not overwritten: name a new file."
    )


def test_without_two_gpus_the_hardware_report_is_refused_in_a_sentence(run_python, tmp_path):
    path = tmp_path / "report.md"
    done = run_python(["-m", "dual_device_strategy.validate", "--on_hardware", f"--report={path}"])
    assert (done.returncode, path.exists()) == (1, False)
    assert done.stderr.splitlines()[-1] == (
        "--on_hardware needs two GPUs and TensorFlow sees none: run it where there are two, or "
        "rehearse it with --emulate_gpus=2."
    )


def test_the_hardware_report_is_on_disk_before_the_next_check_and_survives_one_that_fails(tmp_path):
    path = tmp_path / "report.md"
    report = HardwareReport(str(path), "Two GPUs")
    with report.check("first", "that it ends") as finding:
        finding.found("3 ms", True, ms=3)
    assert read_results(path)[-1]["figures"] == {"ms": 3}
    with report.check("second", "no error"):
        raise OSError(
            f"{tmp_path}/secret.txt of {getpass.getuser()} on /job:localhost/device:GPU:0"
        )
    with report.check("third", "nothing"):
        assert "## 3. third" in path.read_text()
    assert report.close() == "1 of 3 checks were not as expected: 2."
    second = read_results(path)[1]
    assert second["found"] == "OSError: <path> of <name> on /job:localhost/device:GPU:0"
    assert second["as_expected"] is False
