"""Coverage of the embedded corpus's text, counted in the phonemes of some minutes of speech.

    python tests/benchmarks/corpus_text.py [--minutes=20] [--languages=en,de,es,fr,fa]

For each language: sentences, distinct words, distinct phonemes in pairs and threes, and how often
the commonest three words come. For English also what share of the pairs and threes of phonemes,
and of the words and pairs of words, of other_sentences.txt (sentences nobody drew from patterns)
the corpus has at least once.
"""

import collections
from pathlib import Path

from absl import app, flags

from myxtts.corpus.embedded import EmbeddedConfig
from myxtts.espeak import espeak
from myxtts.text.normalise import normalise

MINUTES = flags.DEFINE_float("minutes", 20.0, "Of speech.")
LANGUAGES = flags.DEFINE_list("languages", ["en", "de", "es", "fr", "fa"], "Counted one by one.")
OTHER = Path(__file__).with_name("other_sentences.txt")


def runs(symbols, length):
    """Every run of `length` neighbours."""
    return zip(*(symbols[i:] for i in range(length)), strict=False)


class Coverage:
    """Counts of words and phonemes, one by one and in runs."""

    def __init__(self, language: str):
        self.language = language
        self.counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)

    def add(self, text: str) -> None:
        written = normalise(text, self.language)
        words = [word.strip(".,!?;:¿¡\"'()،؛؟") for word in written.split()]
        spoken = [c for c in espeak().phonemes(written, self.language) if c not in "ˈˌː"]
        for length, name in ((1, "words"), (2, "pairs of words"), (3, "threes of words")):
            self.counts[name].update(runs(words, length))
        for length, name in ((2, "pairs of phonemes"), (3, "threes of phonemes")):
            self.counts[name].update(runs(spoken, length))
        self.counts["longer runs (8 phonemes)"].update(runs(spoken, 8))

    def share_of(self, other: "Coverage", name: str) -> float:
        """Of what the other one says, how much is here at least once."""
        said = other.counts[name]
        return sum(n for run, n in said.items() if run in self.counts[name]) / said.total()


def minutes_of(language: str, minutes: float) -> tuple[int, Coverage]:
    settings = EmbeddedConfig(minutes=minutes, languages=(language,), voices=1)
    coverage, samples, sentences = Coverage(language), 0, 0
    for clip in settings.clips():
        if samples >= minutes * 60 * espeak().sample_rate:
            break
        samples += len(espeak().say(normalise(clip.text, language), language)) // 2
        coverage.add(clip.text)
        sentences += 1
    return sentences, coverage


def main(_) -> None:
    for language in LANGUAGES.value:
        sentences, coverage = minutes_of(language, MINUTES.value)
        print(f"{language}: {MINUTES.value:g} minutes, {sentences} sentences")
        for name, counts in coverage.counts.items():
            print(f"  {name:<26} {len(counts):>7,} distinct of {counts.total():>7,}")
        (three, times) = coverage.counts["threes of words"].most_common(1)[0]
        print(f"  the commonest three words  {' '.join(three)!r}, {times} times")
        if language == "en":
            other = Coverage("en")
            for text in OTHER.read_text(encoding="utf-8").splitlines():
                other.add(text)
            for name in coverage.counts:
                print(f"  {coverage.share_of(other, name):>6.1%} of the {name} of {OTHER.name}")


if __name__ == "__main__":
    app.run(main)
