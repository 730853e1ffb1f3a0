"""`train.py` in a process and a directory of its own, with small networks.

`TOY` is train.py with a stage that is traced within a second, for what is not about networks.
"""

import os
from pathlib import Path

from tests.warm_processes import WarmProcess, WarmProcesses

ROOT = Path(__file__).resolve().parent.parent
TOY = ROOT / "tests/train_toy.py"
SMALL = [
    f"--model_config={ROOT}/tests/tiny_networks.json",
    "--batch_size=4",
    "--evaluation_clips=4",
    "--evaluate_steps=4",
    "--sample_steps=1000",
    "--log_steps=1",
    "--steps_per_call=1",
    "--precision=float32",
]


class Command:
    """train.py in a directory of its own."""

    def __init__(self, place: Path, processes: WarmProcesses):
        self.place = place
        self.processes = processes
        self.program = ROOT / "train.py"
        self.rewrites_graphs = False  # as a user's does; see warm_processes.py

    def start(self, *flags: str) -> WarmProcess:
        unoptimized = "" if self.rewrites_graphs else "1"
        env = {**os.environ, "PYTHONPATH": str(ROOT), "UNOPTIMIZED_GRAPHS": unoptimized}
        return self.processes.start([self.program, *flags], cwd=self.place, env=env)

    def run(self, *flags: str, code: int = 0) -> tuple[str, str]:
        process = self.start(*flags)
        out, err = process.communicate(timeout=600)
        assert process.returncode == code, f"{process.returncode}\n{out[-2000:]}\n{err[-4000:]}"
        return out, err
