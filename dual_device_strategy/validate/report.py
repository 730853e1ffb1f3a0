"""The numbered report: lines that pass, fail with a remedy, or only inform."""

import contextlib
import dataclasses
import enum
import time
from collections.abc import Iterator

from dual_device_strategy.out_of_memory import exhausted_device


class Status(str, enum.Enum):
    PASS = "PASS"
    FAIL = "FAIL"
    NOTE = "NOTE"


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the report; `figures` are its numbers, for programs."""

    number: str
    status: Status
    text: str
    remedy: str
    figures: dict


class Report:
    """A numbered report, printed line by line as results come in, and kept whole.

    Open a `section`, then `check` and `note` in it; `failed` and `summary` are for the end.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._section = 0
        self._started = time.monotonic()

    @contextlib.contextmanager
    def section(self, title: str, remedy: str) -> Iterator[None]:
        """Opens a section.  An error inside becomes its last line, FAIL, with this remedy."""
        self._section += 1
        print(f"{self._section}. {title}", flush=True)
        try:
            yield
        # Anything can go wrong on a user's machine, and the report must go on.
        except Exception as error:
            text = f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"
            if exhausted_device(error):
                text = "a device ran out of memory"
                remedy = (
                    "raise its limit (--data_gpu_memory_mb, --model_gpu_memory_mb), or end the "
                    "other programs that hold its memory"
                )
            self.check(False, text, remedy=remedy)

    def check(self, passed: bool, text: str, *, remedy: str, **figures) -> bool:
        status = Status.PASS if passed else Status.FAIL
        self._add(status, text, "" if passed else remedy, figures)
        return passed

    def note(self, text: str, **figures) -> None:
        self._add(Status.NOTE, text, "", figures)

    @property
    def failed(self) -> list[str]:
        return [line.number for line in self.lines if line.status is Status.FAIL]

    def summary(self) -> str:
        checks = sum(line.status is not Status.NOTE for line in self.lines)
        seconds = f"{time.monotonic() - self._started:.0f} s"
        if self.failed:
            which = ", ".join(self.failed)
            return f"{len(self.failed)} of {checks} checks failed in {seconds}: {which}"
        return f"All {checks} checks passed in {seconds}."

    def as_json(self) -> dict:
        return {
            "passed": not self.failed,
            "lines": [dataclasses.asdict(line) for line in self.lines],
        }

    def _add(self, status, text, remedy, figures):
        in_section = sum(line.number.startswith(f"{self._section}.") for line in self.lines)
        number = f"{self._section}.{in_section + 1}"
        self.lines.append(
            Line(number=number, status=status, text=text, remedy=remedy, figures=figures)
        )
        print(f"   {number} {status.value}  {text}", flush=True)
        if remedy:
            print(f"       remedy: {remedy}", flush=True)
