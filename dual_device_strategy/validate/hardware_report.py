"""The report of `--on_hardware`: one Markdown file, written as the checks go.

Each check is a section with what was expected and found, and a block of JSON for programs.  It is
on disk when the next one begins, which is named beforehand: where a run was stopped, or ended the
process, nothing is lost and the last line says what was under way.
"""

import contextlib
import dataclasses
import getpass
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

VERDICTS = {True: "as expected", False: "NOT as expected", None: "for information"}
_PATH = re.compile(r"(?<![\w:.])/(?:[\w.+-]+/)+[\w.+-]*")


@dataclasses.dataclass
class Finding:
    """What a check found; `as_expected` is None where there is nothing to expect."""

    text: str = "nothing"
    as_expected: bool | None = None
    figures: dict = dataclasses.field(default_factory=dict)

    def found(self, text: str, as_expected: bool | None = None, **figures) -> None:
        self.text, self.as_expected, self.figures = text, as_expected, figures


class HardwareReport:
    """Open it on a file that does not exist, then `check` one thing after the other.

    Raises:
      ValueError: if the file exists already, or cannot be written.
    """

    def __init__(self, path: str, title: str):
        try:
            self._file = open(path, "x")  # noqa: SIM115 -- open as long as checks go on
        except FileExistsError:
            raise ValueError(
                f"--report={path} exists already, and a report is not overwritten: name a new file."
            ) from None
        except OSError as error:
            raise ValueError(
                f"--report={path} cannot be written ({error.strerror}): name a file in a folder "
                "that exists and is yours to write to."
            ) from None
        self.unexpected: list[str] = []
        self.count = 0
        self._write(f"# {title}\n")

    @contextlib.contextmanager
    def check(self, name: str, expected: str) -> Iterator[Finding]:
        """One section.  An error inside is what it found, and not as expected."""
        self.count += 1
        self._write(f"\n## {self.count}. {name}\n\nExpected: {expected}.\n")
        print(f"{self.count}. {name}", flush=True)
        finding = Finding()
        try:
            yield finding
        # Anything can go wrong on hardware that was never tried, and the report must go on.
        except Exception as error:
            said = (str(error).strip() or "no message").splitlines()[0]
            finding.found(f"{type(error).__name__}: {said}", False)
        verdict = VERDICTS[finding.as_expected]
        if finding.as_expected is False:
            self.unexpected.append(f"{self.count}")
        text = without_private_data(finding.text)
        result = {"check": name, "as_expected": finding.as_expected, "found": text}
        figures = json.dumps({**result, "figures": finding.figures}, default=str)
        self._write(
            f"\nFound, {verdict}: {text}\n\n```json\n{without_private_data(figures)}\n```\n"
        )
        print(f"   {verdict}: {text}", flush=True)

    def close(self) -> str:
        """Writes the last line, and returns it."""
        if self.unexpected:
            which = ", ".join(self.unexpected)
            last = f"{len(self.unexpected)} of {self.count} checks were not as expected: {which}."
        else:
            last = f"None of {self.count} checks was unexpected."
        self._write(f"\n{last}\n")
        self._file.close()
        return last

    def _write(self, text):
        self._file.write(text)
        self._file.flush()
        os.fsync(self._file.fileno())


def read_results(path: str) -> list[dict]:
    """The JSON blocks of a report."""
    blocks = re.findall(r"^```json\n(.*?)\n```$", Path(path).read_text(), re.MULTILINE | re.DOTALL)
    return [json.loads(block) for block in blocks]


def without_private_data(text: str) -> str:
    """`text` without paths and without the names of the host and of the user."""
    text = _PATH.sub("<path>", text)
    names = [socket.gethostname()]
    with contextlib.suppress(KeyError, OSError):  # a user whom the system does not list
        names.append(getpass.getuser())
    for name in filter(None, names):
        text = re.sub(rf"\b{re.escape(name)}\b", "<name>", text)
    return text
