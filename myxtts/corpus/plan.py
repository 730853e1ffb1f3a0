"""The batch plan: which clips go into each batch of each epoch.

plan = BatchPlan(corpus.samples, corpus.speaker_ids, corpus.language_ids, config, audio)
epoch = plan.epoch(3)        # a function of (seed, 3) alone: nothing to replay, nothing to save
epoch.clips[17]              # the clips of its batch 17
"""

import dataclasses
import functools

import numpy as np

from myxtts import UserError
from myxtts.config import AudioConfig, BatchConfig

# Independent streams of random numbers.
_CHOICE, _ORDER, _BATCHES, _PARTNER, _CROP = range(5)


def random_words(seed: int, epoch: int, stream: int, count: int) -> np.ndarray:
    """64-bit words keyed by (seed, epoch, stream). NumPy keeps Philox's stream the same in every
    release, but not Generator.shuffle, so clips are put in order by sorting these words."""
    key = (seed << 32 | stream, epoch)
    return np.random.Philox(key=np.array(key, np.uint64)).random_raw(count)


def _unit(words: np.ndarray) -> np.ndarray:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclasses.dataclass(frozen=True)
class EpochPlan:
    """The batches of one epoch, a row each. -1 marks the empty places of an incomplete last
    batch."""

    clips: np.ndarray  # [batches, batch_size]
    bucket: np.ndarray  # [batches]
    crop_clips: np.ndarray  # [batches, batch_size]: the clip that the conditioning crop comes from
    crop_start: np.ndarray  # [batches, batch_size] in samples
    crop_samples: np.ndarray  # [batches, batch_size]

    def __len__(self) -> int:
        return len(self.bucket)


class BatchPlan:
    """Batches of clips of similar length; the same seed and epoch give the same batches.

    With `drop_remainder` an epoch has `len(clips) // batch_size` batches; the few clips
    left over differ from epoch to epoch. Without it, the last batch may be incomplete.

    With `temperature` 1 every clip comes once per epoch. Above 1, rare speakers and languages come
    more often: a group of n clips gets a share in proportion to n ** (1 / temperature), first among
    the languages, then among the speakers of each language. Clips of a group take turns over the
    epochs.
    """

    def __init__(
        self,
        samples: np.ndarray,
        speaker_ids: np.ndarray,
        language_ids: np.ndarray,
        *,
        config: BatchConfig,
        audio: AudioConfig,
    ):
        if not len(samples):
            raise UserError("there is no clip to make batches of")
        if len(samples) < config.batch_size and config.drop_remainder:
            raise UserError(
                f"{len(samples)} clips do not fill one batch of batch_size={config.batch_size}; "
                "take a smaller one"
            )
        self.config, self.audio = config, audio
        self._samples = np.asarray(samples, np.int64)
        frames = audio.frames(self._samples)
        self.bucket_frames = bucket_frames(
            frames, 1 if config.static_shapes else config.buckets, config.frame_multiple
        )
        self.bucket_of = np.searchsorted(self.bucket_frames, frames)
        self._partners = _Partners(
            self._samples, speaker_ids, round(config.conditioning_seconds[0] * audio.sample_rate)
        )
        self._groups = _groups(speaker_ids, language_ids, config.temperature)

    @property
    def batches_per_epoch(self) -> int:
        clips, size = len(self._samples), self.config.batch_size
        return clips // size if self.config.drop_remainder else -(-clips // size)

    @property
    def conditioning_samples(self) -> int:
        """Length of every conditioning crop as it stands in a batch, padding included."""
        high = self.config.conditioning_seconds[1]
        hop = self.audio.hop_length
        return -(-round(high * self.audio.sample_rate) // hop) * hop

    @functools.lru_cache(maxsize=4)  # noqa: B019 -- a plan lives as long as its run
    def epoch(self, epoch: int) -> EpochPlan:
        config = self.config
        chosen = self._chosen(epoch)
        size, remainder = config.batch_size, len(chosen) % config.batch_size
        if config.drop_remainder and remainder:
            # In random order, so that each epoch drops different clips.
            chosen = chosen[: len(chosen) - remainder]
        clips, bucket = self._batches(chosen, size)
        if config.shuffle:
            order = np.argsort(self._words(epoch, _BATCHES, len(bucket)), kind="stable")
            if clips[-1, -1] < 0:  # the incomplete batch stays last
                order = np.append(order[order != len(bucket) - 1], len(bucket) - 1)
            clips, bucket = clips[order], bucket[order]
        flat = clips.reshape(-1)
        real = flat >= 0
        partner, start, length = np.full((3, len(flat)), -1, np.int64)
        words = self._words(epoch, _PARTNER, len(flat))
        crops = self._words(epoch, _CROP, 2 * len(flat)).reshape(2, -1)
        same = config.crop == "same_clip"
        partner[real] = flat[real] if same else self._partners.of(flat[real], words[real])
        start[real], length[real] = self._crop(partner[real], *_unit(crops)[:, real])
        shape = clips.shape
        return EpochPlan(
            clips,
            bucket=bucket,
            crop_clips=partner.reshape(shape),
            crop_start=start.reshape(shape),
            crop_samples=length.reshape(shape),
        )

    def _words(self, epoch: int, stream: int, count: int) -> np.ndarray:
        return random_words(self.config.seed, epoch, stream, count)

    def _chosen(self, epoch: int) -> np.ndarray:
        """The clips of an epoch in random order (in the corpus's order without shuffling)."""
        clips = len(self._samples)
        chosen = np.arange(clips)
        if self._groups is not None:
            parts = []
            for number, (members, count) in enumerate(self._groups):
                # Think of shuffled decks laid out in an endless row; this epoch takes the next
                # `count` cards.
                first, size = epoch * count, len(members)
                for deck in range(first // size, (first + count - 1) // size + 1):
                    words = self._words(deck, 16 + number, size)
                    row = members[np.argsort(words, kind="stable")]
                    low = max(first - deck * size, 0)
                    parts.append(row[low : first + count - deck * size])
            chosen = np.concatenate(parts)
        if not self.config.shuffle:
            return np.sort(chosen)
        return chosen[np.argsort(self._words(epoch, _ORDER, clips), kind="stable")]

    def _batches(self, chosen: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Full batches of each bucket; clips left over move up to the next longer bucket."""
        rows, buckets, rest = [], [], np.empty(0, np.int64)
        for number in range(len(self.bucket_frames)):
            here = np.concatenate([rest, chosen[self.bucket_of[chosen] == number]])
            left = len(here) % size
            # The longest clips move up: they need the least padding there.
            ranks = np.argsort(self._samples[here], kind="stable")
            moving = np.sort(ranks[len(here) - left :])
            rest = here[moving]
            here = np.delete(here, moving)
            rows.append(here.reshape(-1, size))
            buckets += [number] * (len(here) // size)
        if len(rest):
            fill = np.full(size - len(rest), -1, np.int64)
            rows.append(np.concatenate([rest, fill])[None])
            buckets.append(int(self.bucket_of[rest].max()))
        return np.concatenate(rows), np.array(buckets)

    def _crop(self, clips: np.ndarray, where: np.ndarray, how_long: np.ndarray):
        low, high = (round(s * self.audio.sample_rate) for s in self.config.conditioning_seconds)
        samples = self._samples[clips]
        length = low + (how_long * (high - low + 1)).astype(np.int64)
        if self.config.crop == "same_clip":
            length = np.where(length > samples, samples // 2, length)
        length = np.minimum(length, samples)
        return (where * (samples - length + 1)).astype(np.int64), length

    def padding_share(self, epoch: int = 0) -> float:
        """The share of an epoch's waveform samples that is padding."""
        plan = self.epoch(epoch)
        real = self._samples[plan.clips[plan.clips >= 0]].sum()
        rows = (plan.clips >= 0).sum(1)
        padded = (self.bucket_frames[plan.bucket] * rows).sum() * self.audio.hop_length
        return float(1 - real / padded)


def bucket_frames(frames: np.ndarray, buckets: int, multiple: int) -> np.ndarray:
    """Bucket lengths with the least total padding: at most `buckets`, multiples of `multiple`.

    Exact: dynamic programming over the lengths that occur, merged to at most 512.
    """
    lengths = -(-np.asarray(frames, np.int64) // multiple) * multiple
    values, counts = np.unique(lengths, return_counts=True)
    if len(values) > 512:
        step = multiple * -(-(int(values[-1]) // multiple) // 512)
        values, counts = np.unique(
            np.minimum(-(-lengths // step) * step, values[-1]), return_counts=True
        )
    buckets = min(buckets, len(values))
    total = np.concatenate([[0], np.cumsum(counts)])
    # cost[j]: padded frames of the first j lengths in k buckets. One bucket over i..j costs
    # values[j - 1] per clip; the clips' own frames are the same in every solution.
    one = values[None, :] * (total[None, 1:] - total[:-1, None])  # [from i, up to j + 1]
    one = np.where(np.arange(len(values))[:, None] <= np.arange(len(values)), one, np.inf)
    cost, cuts = one[0], []
    for _ in range(buckets - 1):
        # The last bucket begins at i >= 1, after the best for the first i lengths.
        options = cost[:-1, None] + one[1:]
        cut = options.argmin(0) + 1
        cuts.append(cut)
        cost = options.min(0)
    ends, last = [len(values) - 1], len(values) - 1
    for cut in reversed(cuts):
        last = cut[last] - 1
        ends.append(last)
    return values[ends[::-1]].astype(np.int64)


class _Partners:
    """Finds another clip of the same speaker for every clip, long enough for a crop if possible."""

    def __init__(self, samples: np.ndarray, speaker_ids: np.ndarray, enough: int):
        long_enough = samples >= enough
        # By speaker, the long ones first within each.
        self._order = np.lexsort((np.arange(len(samples)), ~long_enough, speaker_ids))
        self._rank = np.empty_like(self._order)
        self._rank[self._order] = np.arange(len(samples))
        speakers, first, count = np.unique(
            np.asarray(speaker_ids)[self._order], return_index=True, return_counts=True
        )
        index = np.searchsorted(speakers, speaker_ids)
        self._first, self._count = first[index], count[index]
        self._long = np.bincount(index, long_enough, len(speakers)).astype(np.int64)[index]

    def of(self, clips: np.ndarray, words: np.ndarray) -> np.ndarray:
        place = self._rank[clips] - self._first[clips]
        long, every = self._long[clips], self._count[clips]
        among = np.where(long - (place < long) > 0, long, every)
        others = among - (place < among)
        skip = (words % np.maximum(others, 1).astype(np.uint64)).astype(np.int64)
        # The clip itself is left out of the draw.
        drawn = np.where(place < among, (place + 1 + skip) % among, skip)
        return self._order[self._first[clips] + np.where(others > 0, drawn, place)]


def _groups(speaker_ids, language_ids, temperature: float) -> list | None:
    """(clips, how many of them an epoch takes) for every speaker of every language."""
    if temperature == 1.0:
        return None
    speaker_ids, language_ids = np.asarray(speaker_ids), np.asarray(language_ids)
    pairs, group = np.unique(np.stack([language_ids, speaker_ids]), axis=1, return_inverse=True)
    group = group.reshape(-1)
    sizes = np.bincount(group).astype(np.float64)
    _, language = np.unique(pairs[0], return_inverse=True)
    by_language = np.bincount(language, sizes) ** (1 / temperature)
    by_speaker = sizes ** (1 / temperature)
    share = by_language[language] / by_language.sum()
    share *= by_speaker / np.bincount(language, by_speaker)[language]
    counts = _whole(share * len(group))
    return [(np.flatnonzero(group == g), int(counts[g])) for g in range(len(sizes))]


def _whole(wanted: np.ndarray) -> np.ndarray:
    """Integers with the same sum, each at least 1."""
    total = round(float(wanted.sum()))
    floor = np.maximum(np.floor(wanted), 1)
    order = np.argsort(-(wanted - floor), kind="stable")
    short = total - int(floor.sum())
    if short >= 0:
        floor[order[np.arange(short) % len(order)]] += 1
    while floor.sum() > total:
        floor[np.argmax(floor)] -= 1
    return floor.astype(np.int64)
