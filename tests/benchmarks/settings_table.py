"""Prints docs/voice.md's table of settings by GPU memory.

    python tests/benchmarks/settings_table.py

From the estimates of `myxtts.training.memory`, which were never compared with a hardware GPU.
"""

from myxtts.model.config import SIZES
from myxtts.training.config import TrainConfig
from myxtts.training.memory import DATA, LIBRARIES, MODEL, estimate
from myxtts.training.stages import LongestClip, stage_names

LONGEST = LongestClip(frames=1034, text_tokens=200)  # 12 s
MEMORY_GB = (6, 8, 12, 16, 24, 40, 80)
BATCHES = (256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 2, 1)
USED = 0.85  # the rest is for fragments
GB = 1 << 30


def rows() -> list[str]:
    """The lines of the table."""
    names = list(SIZES)
    lines = [
        "| memory of the model GPU | " + " | ".join(f"`{name}`" for name in names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    of_size = {name: _estimates(name) for name in names}
    for memory in MEMORY_GB:
        cells = [_cell(of_size[name], USED * memory * GB) for name in names]
        lines.append(f"| {memory} GB | " + " | ".join(cells) + " |")
    cells = [
        f"{max(e.on(DATA, 32) for e in of_size[name].values()) / GB:.1f} GB" for name in names
    ]
    lines.append("| data GPU, batches of 32 | " + " | ".join(cells) + " |")
    return lines


def _estimates(name: str):
    config = TrainConfig(model=SIZES[name])
    return {
        stage: estimate(config, stage, LONGEST, 2048, precision="bfloat16", libraries=LIBRARIES)
        for stage in stage_names(config.model.form)
    }


def _cell(estimates, room: float) -> str:
    fitting = {
        stage: next((n for n in BATCHES if n <= e.largest_batch(MODEL, room)), 0)
        for stage, e in estimates.items()
    }
    if not all(fitting.values()):
        return "-"
    most = min(fitting["tokenizer"], fitting["gpt"])
    return str(most) if fitting["vocoder"] >= most else f"{most} (vocoder {fitting['vocoder']})"


if __name__ == "__main__":
    print("\n".join(rows()))
