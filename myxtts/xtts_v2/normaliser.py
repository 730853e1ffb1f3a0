"""Writes the texts of a model in the form that is encoded, and records how.

    normaliser = Normaliser()                    # a published model: its 17 languages
    normaliser = normaliser.with_language("fa")  # another one, written by `myxtts.text`
    normaliser.written("Dr. Smith", "en")        # doctor smith

A run and an exported directory keep it as text.json. A model speaks only with the normaliser that
it was trained with: another version is refused, and so is a missing library.
"""

import dataclasses
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from absl import logging

from myxtts import UserError
from myxtts.config import write_whole
from myxtts.text.languages import base_language
from myxtts.text.normalise import normalise
from myxtts.xtts_v2 import cleaners
from myxtts.xtts_v2.cleaners import libraries

FILE = "text.json"
# Goes up with every change of myxtts.text that words some text differently.
_OWN_VERSION = 1
_PUBLISHED = {"name": "xtts_v2 cleaners", "version": cleaners.VERSION}
_OWN = {"name": "myxtts.text", "version": _OWN_VERSION}


@dataclasses.dataclass(frozen=True)
class Normaliser:
    """The written form of texts; the module's docstring shows its use. Normalisers that are not
    equal (==) may write some text differently."""

    own: tuple[str, ...] = ()  # the languages that were added, written by myxtts.text
    # Versions of the libraries it was trained with; empty for a directory from others.
    versions: tuple[tuple[str, str], ...] = ()

    def with_language(self, language: str) -> "Normaliser":
        """The same with an added language; a language with cleaners keeps them."""
        language = base_language(language)
        if language in (*self.own, *cleaners.LANGUAGES):
            return self
        return dataclasses.replace(self, own=(*self.own, language))

    def written(self, text: str, language: str) -> str:
        """The form of a text that is encoded. UserError if a library or words are missing."""
        language = base_language(language)
        if language in self.own:
            return re.sub(r"\s+", " ", normalise(text, language).replace('"', "")).strip()
        return cleaners.cleaned(text, language)

    def recorded(self, languages: Iterable[str]) -> "Normaliser":
        """The same, with the installed versions of the libraries for these languages."""
        found: dict[str, str] = {}
        for language in map(base_language, languages):
            if language not in self.own:
                found |= libraries.versions(language)
        return dataclasses.replace(self, versions=tuple(sorted(found.items())))

    def save(self, directory: str | os.PathLike) -> None:
        values = {
            "published": _PUBLISHED,
            "own": {**_OWN, "languages": self.own},
            "libraries": dict(self.versions),
        }
        write_whole(Path(directory) / FILE, json.dumps(values, indent=1) + "\n")

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Normaliser":
        """The normaliser of a directory; without a text.json, the published cleaners.

        UserError if text.json is of another normaliser. Other versions of libraries give only a
        warning: they word few texts differently.
        """
        path = Path(directory) / FILE
        if not path.exists():
            return cls()
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            own = tuple(map(str, values["own"].pop("languages")))
            versions = tuple(sorted((str(k), str(v)) for k, v in values["libraries"].items()))
            named = (values["published"], values["own"] if own else _OWN)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} does not say how texts are written: {error!r}") from None
        for found, here in zip(named, (_PUBLISHED, _OWN), strict=True):
            if found != here:
                raise UserError(
                    f"{path}: the model's texts were written by {_described(found)}, and this is "
                    f"{_described(here)}; speak with the version of myxtts that trained the model"
                )
        made = cls(own, versions)
        made._compare_libraries(path)
        return made

    def _compare_libraries(self, path: Path) -> None:
        for name, trained in self.versions:
            here = libraries.installed(name)
            if here not in (None, trained):  # a missing one is refused when a text needs it
                logging.warning(
                    "%s: trained with %s %s, here is %s; some texts may be read otherwise",
                    *(path, name, trained, here),
                )


def _described(normaliser: dict) -> str:
    return f"{normaliser.get('name')} version {normaliser.get('version')}"
