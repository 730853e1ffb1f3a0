"""What a corpus holds, counted while it is prepared."""

import collections
import dataclasses

from myxtts.corpus.clips import Clip
from myxtts.corpus.formats import Row
from myxtts.text.alphabets import LetterCount, outside_alphabet
from myxtts.text.normalise import normalise

_EDGES = (0.5, 1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 30)


@dataclasses.dataclass
class Summary:
    """Counts whose size does not grow with the number of clips."""

    sample_rate: int
    clips: int = 0
    samples: int = 0
    copies: int = 0
    trimmed: int = 0
    # Clips by the rate they were recorded at, if it is lower: they have no sound above half of it.
    recorded_lower: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    speakers: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    languages: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    lengths: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    characters: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    letters: dict[str, LetterCount] = dataclasses.field(default_factory=dict)
    rejected: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, row: Row, clip: Clip) -> None:
        self.clips += 1
        self.samples += clip.samples
        self.copies += bool(clip.copy)
        self.trimmed += clip.trimmed
        if clip.detail:
            self.recorded_lower[int(clip.detail)] += 1
        self.speakers[row.speaker] += 1
        self.languages[row.language] += clip.samples
        seconds = clip.samples / self.sample_rate
        self.lengths[sum(seconds >= edge for edge in _EDGES)] += 1
        text = normalise(row.text, row.language)
        self.characters.update(outside_alphabet(text, row.language))
        self.letters.setdefault(row.language, LetterCount(row.language)).add(text)

    def check_letters(self, corpus: str) -> None:
        """Raises UserError if texts are in another script than that of their language."""
        for letters in self.letters.values():
            letters.check(corpus)

    def reject(self, reason: str) -> None:
        self.rejected[reason] += 1

    @property
    def rejected_share(self) -> float:
        rejected = sum(self.rejected.values())
        return rejected / max(1, rejected + self.clips)

    def commonest_reasons(self) -> str:
        return ", ".join(f"{reason} ({count})" for reason, count in self.rejected.most_common(3))

    def __str__(self) -> str:
        hours = self._hours(self.samples)
        lines = [f"clips      {self.clips}, {hours}, {self.copies} of them copied"]
        if self.trimmed:
            lines.append(f"trimmed    {self._hours(self.trimmed)} of silence")
        for rate, count in sorted(self.recorded_lower.items()):
            lines.append(f"recorded   {count} at {rate:,} Hz, brought to {self.sample_rate:,}")
        most = self.speakers.most_common(5)
        named = ", ".join(f"{name} {count}" for name, count in most)
        more = f", and {len(self.speakers) - 5} more" if len(self.speakers) > 5 else ""
        lines.append(f"speakers   {len(self.speakers)}: {named}{more}")
        named = ", ".join(f"{n} {self._hours(s)}" for n, s in self.languages.most_common())
        lines.append(f"languages  {len(self.languages)}: {named}")
        lines.append("lengths")
        highest = max(self.lengths.values(), default=1)
        for i in range(len(_EDGES) + 1):
            if count := self.lengths[i]:
                low = _EDGES[i - 1] if i else 0
                high = f"{_EDGES[i]:>4g}" if i < len(_EDGES) else "   -"
                bar = "#" * max(1, round(40 * count / highest))
                lines.append(f"  {low:>4g} to {high} s {count:>8}  {bar}")
        if self.characters:
            shown = ", ".join(
                f"{c if c.isprintable() and c != ' ' else ''}U+{ord(c):04X} {n}"
                for c, n in self.characters.most_common(20)
            )
            lines.append(f"characters outside the alphabet  {len(self.characters)}: {shown}")
        rejected = sum(self.rejected.values())
        lines.append(f"rejected   {rejected} ({self.rejected_share:.1%})")
        lines += [f"  {count:>8}  {reason}" for reason, count in self.rejected.most_common()]
        return "\n".join(lines)

    def _hours(self, samples: int) -> str:
        seconds = samples / self.sample_rate
        return f"{seconds / 3600:.2f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
