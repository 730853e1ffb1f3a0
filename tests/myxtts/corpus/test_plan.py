"""The order of an epoch follows from (seed, epoch), wastes little, and leaves nobody out."""

import collections
import itertools

import numpy as np
import pytest

from myxtts import UserError
from myxtts.config import AudioConfig, BatchConfig
from myxtts.corpus.plan import BatchPlan, bucket_frames

AUDIO = AudioConfig()


def corpus(clips, seed=0, speakers=7, languages=2):
    chance = np.random.default_rng(seed)
    seconds = np.clip(chance.normal(6.5, 2.2, clips), 1.1, 10.1)  # LJSpeech's lengths
    speaker_ids = chance.integers(0, speakers, clips)
    return (seconds * 22050).astype(int), speaker_ids, speaker_ids % languages


def plan_of(clips=1000, config=None, **kwargs):
    return BatchPlan(*corpus(clips, **kwargs), config=config or BatchConfig(), audio=AUDIO)


def same(a, b):
    return all(
        np.array_equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True)
    )


def test_an_epoch_is_a_pure_function_of_seed_and_epoch():
    first, second = plan_of(), plan_of()
    epochs = [first.epoch(e) for e in range(5)]
    for e in (4, 0, 3, 1, 2):  # asked in any order
        assert same(second.epoch(e), epochs[e])
    assert not same(epochs[0], epochs[1])
    other = plan_of(config=BatchConfig(seed=1))
    assert not np.array_equal(other.epoch(0).clips, epochs[0].clips)


def test_the_order_is_the_same_on_every_machine_and_version():
    """These numbers may never change: runs that continue stand on them."""
    plan = BatchPlan(
        np.arange(1, 41) * 5000,
        speaker_ids=np.arange(40) % 3,
        language_ids=np.zeros(40, int),
        config=BatchConfig(4),
        audio=AUDIO,
    )
    epoch = plan.epoch(2)
    found = (epoch.clips[0], epoch.crop_clips[0], epoch.crop_start[0], epoch.crop_samples[0])
    assert [values.tolist() for values in found] == GOLDEN


GOLDEN = [[34, 32, 33, 39], [16, 29, 36, 15], [0, 18092, 34814, 0], [85000, 118350, 111948, 80000]]


def test_every_clip_comes_once_and_the_left_over_ones_change():
    plan = plan_of(1003)
    left_out = []
    for e in range(20):
        clips = plan.epoch(e).clips
        assert clips.shape == (62, 16) and len(np.unique(clips)) == 992
        left_out.append(frozenset(range(1003)) - frozenset(clips.reshape(-1).tolist()))
    assert len(frozenset.union(*left_out)) > 150  # not always the same 11


def test_without_dropping_the_last_batch_is_short_and_everyone_is_there():
    for shuffle in (True, False):
        config = BatchConfig(drop_remainder=False, shuffle=shuffle)
        plan = plan_of(1003, config)
        epoch = plan.epoch(3)
        assert len(epoch) == plan.batches_per_epoch == 63
        clips = epoch.clips[epoch.clips >= 0]
        assert sorted(clips) == list(range(1003))
        assert (epoch.clips[:-1] >= 0).all() and (epoch.clips[-1] >= 0).sum() == 11
    assert same(plan.epoch(3), plan_of(1003, config).epoch(3))


def test_clips_fit_their_bucket_and_padding_is_small():
    plan = plan_of(5000)
    epoch = plan.epoch(1)
    assert len(plan.bucket_frames) == 8 and (plan.bucket_frames % 4 == 0).all()
    frames = -(-corpus(5000)[0] // AUDIO.hop_length)
    assert (frames[epoch.clips] <= plan.bucket_frames[epoch.bucket][:, None]).all()
    assert plan.padding_share(1) <= 0.10
    assert plan_of(5000, BatchConfig(buckets=16)).padding_share() < plan.padding_share() - 0.02


def test_batches_of_one_bucket_come_in_random_order_not_by_length():
    buckets = plan_of(5000).epoch(0).bucket
    assert np.abs(np.diff(buckets)).mean() > 1.5


def test_static_shapes_are_one_shape():
    plan = plan_of(200, BatchConfig(static_shapes=True))
    frames = -(-corpus(200)[0] // AUDIO.hop_length)
    assert plan.bucket_frames.tolist() == [-(-frames.max() // 4) * 4]


def test_the_buckets_are_the_best_there_are():
    chance = np.random.default_rng(3)
    for _ in range(60):
        frames = chance.integers(1, 40, chance.integers(1, 30))
        buckets = int(chance.integers(1, 5))
        found = bucket_frames(frames, buckets, 1)
        values = np.unique(frames)
        best = min(
            np.array(edges)[np.searchsorted(edges, frames)].sum()
            for k in range(buckets)
            for inner in itertools.combinations(values[:-1], min(k, len(values) - 1))
            for edges in [[*inner, values[-1]]]
        )
        assert len(found) <= buckets
        assert found[np.searchsorted(found, frames)].sum() == best


def test_a_wide_corpus_keeps_its_longest_clip():
    frames = np.arange(1, 20_000, 7)
    found = bucket_frames(frames, 8, 4)
    assert len(found) == 8 and found[-1] >= frames.max() and found[-1] - frames.max() < 50


def test_the_conditioning_crop_is_another_clip_of_the_speaker():
    samples, speakers, languages = corpus(500, speakers=5)
    samples = np.append(samples, 5 * 22050)
    speakers, languages = np.append(speakers, 99), np.append(languages, 0)  # has one clip only
    plan = BatchPlan(
        samples, speaker_ids=speakers, language_ids=languages, config=BatchConfig(3), audio=AUDIO
    )
    drawn = collections.Counter()
    for e in range(30):
        epoch = plan.epoch(e)
        alone = epoch.clips == 500
        assert (epoch.crop_clips[alone] == 500).all()
        assert (epoch.crop_clips != epoch.clips)[~alone].all()
        assert (speakers[epoch.crop_clips] == speakers[epoch.clips]).all()
        assert (epoch.crop_start >= 0).all()
        ends = epoch.crop_start + epoch.crop_samples
        assert (ends <= samples[epoch.crop_clips]).all()
        assert (epoch.crop_samples >= 3 * 22050).all()
        assert (epoch.crop_samples <= 6 * 22050).all()
        drawn.update(epoch.crop_clips.reshape(-1).tolist())
    long_enough = np.flatnonzero(samples >= 3 * 22050)
    assert set(drawn) <= set(long_enough.tolist())  # shorter ones only where there is no other
    assert len(drawn) > 0.99 * len(long_enough) and max(drawn.values()) < 80


def test_a_speaker_of_short_clips_lends_a_whole_one():
    samples = np.full(10, 22050)
    plan = BatchPlan(
        samples,
        speaker_ids=np.zeros(10, int),
        language_ids=np.zeros(10, int),
        config=BatchConfig(2),
        audio=AUDIO,
    )
    epoch = plan.epoch(0)
    assert (epoch.crop_samples == 22050).all() and (epoch.crop_start == 0).all()
    assert (epoch.crop_clips != epoch.clips).all()
    assert plan.conditioning_samples == 132352  # 6 s, up to a whole frame


def test_temperature_brings_rare_speakers_and_languages_forward():
    speakers = np.repeat([0, 1, 2, 3], [800, 100, 60, 40])
    languages = np.repeat([0, 0, 1, 1], [800, 100, 60, 40])
    samples = corpus(1000)[0]

    def shares(temperature):
        plan = BatchPlan(
            samples,
            speaker_ids=speakers,
            language_ids=languages,
            config=BatchConfig(10, temperature=temperature),
            audio=AUDIO,
        )
        counts = sum(np.bincount(speakers[plan.epoch(e).clips.reshape(-1)]) for e in range(4))
        return counts / counts.sum()

    np.testing.assert_allclose(shares(1.0), [0.8, 0.1, 0.06, 0.04], atol=1e-9)
    np.testing.assert_allclose(shares(1e6), [0.25] * 4, atol=0.002)
    root = np.sqrt([900, 100])
    language = root / root.sum()
    expected = [
        language[0] * np.sqrt(800) / (np.sqrt(800) + 10),
        language[0] * 10 / (np.sqrt(800) + 10),
        language[1] * np.sqrt(60) / (np.sqrt(60) + np.sqrt(40)),
        language[1] * np.sqrt(40) / (np.sqrt(60) + np.sqrt(40)),
    ]
    np.testing.assert_allclose(shares(2.0), expected, atol=0.002)


def test_clips_of_a_balanced_speaker_take_turns_over_the_epochs():
    speakers = np.repeat([0, 1], [900, 100])
    config = BatchConfig(10, temperature=1e6)
    plan = BatchPlan(
        corpus(1000)[0],
        speaker_ids=speakers,
        language_ids=np.zeros(1000, int),
        config=config,
        audio=AUDIO,
    )
    seen = np.zeros(1000, int)
    for e in range(9):
        seen += np.bincount(plan.epoch(e).clips.reshape(-1), minlength=1000)
    assert set(seen[:900]) == {5}  # 9 epochs x 500 draws from 900 clips
    assert set(seen[900:]) == {45}


def test_too_few_clips_are_said():
    with pytest.raises(UserError, match=r"10 clips do not fill one batch of batch_size=16"):
        plan_of(10)
    with pytest.raises(UserError, match="there is no clip"):
        plan_of(0)
    assert len(plan_of(10, BatchConfig(drop_remainder=False)).epoch(0)) == 1
