"""The files of a monitored run: TensorBoard's, and JSON lines for `compare --logs`.

The JSON file has a header, lines of figures, and a summary as its last line.
"""

import json
from pathlib import Path
from typing import IO

import tensorflow as tf
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.scalar.summary_v2 import scalar_pb

from dual_device_strategy.devices import Sample
from dual_device_strategy.monitor.memory import in_mb

FORMAT = "dual_device_strategy.monitor"
VERSION = 1


class LogError(Exception):
    """A log that cannot be used; `lines` holds what could be read."""

    def __init__(self, message: str, lines: list[dict] | None = None):
        super().__init__(message)
        self.lines = lines or []


class RunLog:
    """Writes a JSON file; each line is in the file, whole, as soon as `write` returns."""

    def __init__(self, path: str | Path, header: dict):
        self._path = path
        self._file: IO[str] = open(path, "w")  # noqa: SIM115, it stays open while the run lasts
        self.write({"format": FORMAT, "version": VERSION, **header})

    def write(self, line: dict) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self, summary: dict) -> None:
        self._end = self._file.tell()
        self.write({"summary": summary})
        self._file.close()

    def reopen(self) -> None:
        """Goes on after the last line of figures; `close` will write the summary again."""
        self._file = open(self._path, "r+")  # noqa: SIM115
        self._file.seek(self._end)
        self._file.truncate()


class RunFiles:
    """The files of one run: either kind, both or none."""

    def __init__(self, json_file: str | Path | None, log_dir: str | Path | None, header: dict):
        self._log = RunLog(json_file, header) if json_file else None
        self._log_dir = str(log_dir) if log_dir else None
        self._writer = self._new_writer()

    def write(self, step: int, seconds: float, values: dict[str, float | None]) -> None:
        if self._log:
            self._log.write({"step": step, "seconds": seconds, **values})
        if self._writer:
            # One record for all: a tf.summary.scalar for each would take seven times as long.
            record = Summary()
            for name, value in values.items():
                if value is not None:
                    record.value.extend(scalar_pb(f"monitor/{name}", value).value)
            with tf.device("/CPU:0"), self._writer.as_default(step=step):
                tf.summary.experimental.write_raw_pb(record.SerializeToString())

    def close(self, summary: dict) -> None:
        if self._log:
            self._log.close(summary)
        if self._writer:
            self._writer.close()

    def reopen(self) -> None:
        if self._log:
            self._log.reopen()
        self._writer = self._new_writer()

    def _new_writer(self):
        return tf.summary.create_file_writer(self._log_dir) if self._log_dir else None


def line_of(
    recent: dict[str, float | None], ready: float | None, samples: dict[str, Sample]
) -> dict[str, float | None]:
    """The figures of one line.

    Args:
      recent: of `StepTimes.recent`.
      ready: the mean number of READY batches since the line before.
      samples: by role ("data", or "data 0" and so on), what is known about that device.
    """
    names = ("step_ms", "std_ms", "variation", "wait_share", "steps_per_second")
    values = {**{name: recent[name] for name in names}, "ready": ready}
    for role, sample in samples.items():
        role = role.replace(" ", "_")
        values[f"{role}_busy"] = sample.busy
        values[f"{role}_memory_mb"] = in_mb(sample.memory)
        values[f"{role}_peak_mb"] = in_mb(sample.peak)
    return values


def read(path: str | Path) -> tuple[dict, list[dict], dict]:
    """The header, the lines between, and the summary of a finished run.

    Raises:
      LogError: if the file is no such log, or does not end with a summary.
    """
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise LogError(f"{path} cannot be read: {reason}") from None
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            if number == 1:
                raise _not_a_log(path) from None
            raise LogError(f"{path} is cut off or damaged in line {number}", lines[1:]) from None
    if not lines or not isinstance(lines[0], dict) or lines[0].get("format") != FORMAT:
        raise _not_a_log(path)
    if lines[0].get("version") != VERSION:
        raise LogError(
            f"{path} has version {lines[0].get('version')} of the log format, this program reads "
            f"version {VERSION}"
        )
    if not isinstance(lines[-1], dict) or "summary" not in lines[-1]:
        raise LogError(
            f"{path} has no summary at its end: the run has not ended, or was killed, or the file "
            "was cut off",
            lines[1:],
        )
    return lines[0], lines[1:-1], lines[-1]["summary"]


def _not_a_log(path):
    return LogError(
        f"{path} is not the log of a monitored run: give the file named in Monitor(json_file=...)"
    )
