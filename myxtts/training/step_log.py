"""steps.jsonl: the figures of every step of a run; a resumed run appends to it."""

import contextlib
import json
import os
from pathlib import Path

from myxtts import UserError


class StepLog:
    """Appends the lines of a stage; open one with `continued`. Without a path it writes nothing."""

    def __init__(self, path: Path | None, stage: str):
        self._path, self._stage = path, stage
        self._file = path and open(path, "a", encoding="utf-8")  # noqa: SIM115

    @classmethod
    def continued(cls, path: Path, stage: str, step: int) -> "StepLog":
        """Drops the lines of the stage from `step` on, because those steps are made again."""
        partial = path.with_name(f"{path.name}.partial")
        with _write_errors_as_sentences(path):
            with open(partial, "w", encoding="utf-8") as file:
                for line in read_steps(path):
                    if line["stage"] != stage or line["step"] < step:
                        file.write(json.dumps(line) + "\n")
            os.replace(partial, path)
            return cls(path, stage)

    def write(self, first: int, records: list[dict]) -> None:
        if self._file is None:
            return
        with _write_errors_as_sentences(self._path):
            for number, record in enumerate(records, first):
                line = {"stage": self._stage, "step": number, **record}
                self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_steps(path: Path) -> list[dict]:
    """The complete lines; a process that was killed may have left half a line."""
    lines = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
    return [line for line in lines if isinstance(line, dict) and {"stage", "step"} <= line.keys()]


@contextlib.contextmanager
def _write_errors_as_sentences(path: Path):
    """Turns a full or read-only disk into one sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}; make room or make it writable, and "
            "start the same command again"
        ) from None
