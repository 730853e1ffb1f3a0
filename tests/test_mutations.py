"""The known mistakes fit the code as it is; `python -m tests.mutations` puts the tests on trial."""

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


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_fits_the_code_and_names_tests(mistake, copy):
    path = put_in(mistake, copy)  # raises unless its snippet is there exactly once
    compile(path.read_text(encoding="utf-8"), str(path), "exec")
    path.write_bytes((ROOT / path.relative_to(copy)).read_bytes())
    for tests in mistake.tests.split():
        assert (ROOT / tests).exists(), tests
