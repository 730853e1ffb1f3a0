"""What a mistake is."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mistake:
    """One piece of code that is wrong, and the tests that must notice.

    Attributes:
      place: the package, folder or file whose code holds `right` exactly once, so files may move.
      keyword: chooses among the tests, as `pytest -k`; without one all are run.
    """

    name: str
    place: str
    right: str
    wrong: str
    tests: str
    keyword: str = ""
