"""The known mistakes fit the code as it is; `python -m tests.mutations` puts the tests on trial."""

import re
from pathlib import Path

import pytest

from tests.mutations.__main__ import MISTAKES, put_in

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The packages' Python files."""
    place = tmp_path_factory.mktemp("copy")
    for package in ("dual_device_strategy", "myxtts"):
        for path in (ROOT / package).rglob("*.py"):
            made = place / path.relative_to(ROOT)
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_bytes(path.read_bytes())
    return place


def names_of_tests(path: Path) -> list[str]:
    files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    texts = [f"{file.stem} {file.read_text(encoding='utf-8')}" for file in files]
    return [name for text in texts for name in re.findall(r"test_\w+", text)]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_fits_the_code_and_names_tests(mistake, copy):
    path = put_in(mistake, copy)  # raises unless its snippet is there exactly once
    compile(path.read_text(encoding="utf-8"), str(path), "exec")
    path.write_bytes((ROOT / path.relative_to(copy)).read_bytes())
    names = [name for tests in mistake.tests.split() for name in names_of_tests(ROOT / tests)]
    words = mistake.keyword.split(" or ")
    assert any(word in name for word in words for name in names), mistake.keyword
