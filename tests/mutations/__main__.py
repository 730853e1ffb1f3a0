"""`python -m tests.mutations`: see the package's docstring."""

import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from absl import app, flags

from tests.mutations import in_strategy, in_trainer
from tests.mutations.mistake import Mistake
from tests.warm_processes import WarmProcesses

MISTAKES = (*in_strategy.MISTAKES, *in_trainer.MISTAKES)
ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "runs", "*.egg-info", "build")

_ONLY = flags.DEFINE_list("only", [], "Words, of which a mistake's name must contain one.")
_LIST = flags.DEFINE_bool("list", False, "Prints the names and ends.")


class Stale(Exception):
    """The snippet is not there exactly once."""


def put_in(mistake: Mistake, root: Path) -> Path:
    """Writes the mistake into its file; returns the file."""
    place = root / mistake.place
    paths = [place] if place.is_file() else sorted(place.rglob("*.py"))
    found = [
        (path, text)
        for path in paths
        if mistake.right in (text := path.read_text(encoding="utf-8"))
    ]
    if len(found) != 1 or found[0][1].count(mistake.right) != 1:
        raise Stale(f"its snippet is in {len(found)} files, and must be in one place")
    path, text = found[0]
    path.write_text(text.replace(mistake.right, mistake.wrong), encoding="utf-8")
    return path


class Copy:
    """A copy of the repository, and its tests."""

    def __init__(self, place: Path):
        self.root = place / "copy"
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT)
        self._processes = WarmProcesses()

    def failed(self, tests: str, keyword: str) -> str | None:
        """The first test that fails; None where all pass."""
        arguments = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.split()]
        chosen = ["-k", keyword] if keyword else []
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        done = self._processes.run([*arguments, *chosen], cwd=self.root, env=environment)
        if done.returncode == 0:
            return None
        named = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        if not named:
            raise SystemExit(f"no test was run:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return named[1]


def judge(mistake: Mistake, copy: Copy, sound: dict) -> str:
    """One line about the mistake; it begins with "caught" if all is well."""
    chosen = mistake.tests, mistake.keyword
    if chosen not in sound:
        sound[chosen] = copy.failed(*chosen)
    if sound[chosen]:
        return f"NOT JUDGED: {sound[chosen]} fails without it"
    try:
        path = put_in(mistake, copy.root)
    except Stale as stale:
        return f"NOT JUDGED: {stale}"
    try:
        failed = copy.failed(*chosen)
    finally:
        shutil.copy(ROOT / path.relative_to(copy.root), path)
    return f"caught by {failed}" if failed else f"SURVIVED {mistake.tests}"


def main(_) -> None:
    words = _ONLY.value
    chosen = [m for m in MISTAKES if not words or any(word in m.name for word in words)]
    if _LIST.value:
        print(*(mistake.name for mistake in chosen), sep="\n")
        return
    caught, sound = 0, {}
    with tempfile.TemporaryDirectory() as place:
        copy = Copy(Path(place))
        for mistake in chosen:
            began = time.monotonic()
            said = judge(mistake, copy, sound)
            caught += said.startswith("caught")
            print(f"{mistake.name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    raise SystemExit(caught < len(chosen))


if __name__ == "__main__":
    app.run(main)
