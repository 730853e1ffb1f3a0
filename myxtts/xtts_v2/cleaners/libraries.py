"""The libraries that write numbers in words and texts in Latin letters: extra `languages`."""

import functools
import importlib
import importlib.metadata
from types import ModuleType

from myxtts import UserError

# The distributions of each module; the version of a dictionary matters, too.
_DISTRIBUTIONS = {
    "num2words": ("num2words",),
    "pypinyin": ("pypinyin",),
    "cutlet": ("cutlet", "fugashi", "unidic-lite"),
    "hangul_romanize": ("hangul-romanize",),
}
_ROMANISERS = {"zh": "pypinyin", "ja": "cutlet", "ko": "hangul_romanize"}


def modules(language: str) -> tuple[str, ...]:
    """The modules that a language may need; num2words only for texts with numbers."""
    romaniser = _ROMANISERS.get(language)
    numbers = () if language in ("zh", "ja") else ("num2words",)
    return (*numbers, romaniser) if romaniser else numbers


def versions(language: str) -> dict[str, str]:
    """The installed versions of the libraries that a language needs; UserError if one is
    missing."""
    found = {}
    for module in modules(language):
        library(module, language)
        for distribution in _DISTRIBUTIONS[module]:
            found[distribution] = importlib.metadata.version(distribution)
    return found


def installed(distribution: str) -> str | None:
    """The version of a distribution, None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def library(module: str, language: str) -> ModuleType:
    """The imported module; UserError says how to install it."""
    try:
        for distribution in _DISTRIBUTIONS[module][1:]:
            importlib.metadata.version(distribution)
        return importlib.import_module(module)
    except ImportError:  # includes PackageNotFoundError
        names = " ".join(_DISTRIBUTIONS[module])
        raise UserError(
            f"XTTS v2 reads {language!r} texts with {names}, which is not installed here; "
            f"`pip install {names}`"
        ) from None
