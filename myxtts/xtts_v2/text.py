"""Text as the published GPT reads it: a language tag, then BPE over the written form.

    tokens = Tokens(directory.vocabulary)
    tokens.encode("Hello world.", "en")     # [en]hello[SPACE]world.

The written form is this project's (`myxtts.text.normalise`), without quotation marks, which the
published cleaners drop. It agrees with theirs where there is nothing to put into words; numbers
and signs may be worded otherwise.
"""

import re

from absl import logging

from myxtts import UserError
from myxtts.text.normalise import normalise
from myxtts.xtts_v2.bpe import Bpe

# Languages that the published code writes in Latin letters first.
_ROMANISED = {
    "zh": "pinyin with tone numbers",
    "ja": "romaji",
    "ko": "Revised Romanisation",
}


class Tokens:
    """See the module; `vocabulary` is the text of vocab.json."""

    def __init__(self, vocabulary: str):
        self.bpe = Bpe(vocabulary)
        tags = (re.fullmatch(r"\[([a-z]{2,3}(?:-[a-z]+)?)\]", name) for name in self.bpe.special)
        self.languages = tuple(tag[1] for tag in tags if tag)

    def language_tag(self, language: str) -> str:
        """The tag of a language, whatever its country; UserError where there is none."""
        base = language.lower().split("-")[0]
        for known in self.languages:
            if known.split("-")[0] == base:
                return f"[{known}]"
        raise UserError(
            f"the model has no language {language!r}; it has {', '.join(sorted(self.languages))}"
        )

    def written(self, text: str, language: str) -> str:
        """What is encoded of a text, without the tag."""
        base = language.lower().split("-")[0]
        if base in _ROMANISED and not text.isascii():
            raise UserError(
                f"XTTS v2 reads {base} in {_ROMANISED[base]}, which is not made of {text!r} here; "
                "give the text written so"
            )
        return re.sub(r"\s+", " ", normalise(text, base).replace('"', "")).strip()

    def encode(self, text: str, language: str) -> list[int]:
        """Ids of one sentence; a warning says which share of them the model does not know."""
        tag, written = self.language_tag(language), self.written(text, language)
        ids = self.bpe.encode((tag + written).replace(" ", "[SPACE]"))
        unknown = ids.count(self.bpe.unknown)
        if unknown:
            logging.warning(
                "%d of %d tokens of %r are unknown to the model (%.0f %%)",
                *(unknown, len(ids), written, 100 * unknown / len(ids)),
            )
        return ids
