"""Log-mels are librosa's, chance follows the batch's key, and every op can run on a GPU."""

import dataclasses

import librosa
import numpy as np
import pytest
import soundfile
import tensorflow as tf
from tensorflow.python.framework import kernels

from myxtts.config import AudioConfig, AugmentConfig, FeatureConfig
from myxtts.features import make_features, make_log_mel

AUDIO = AudioConfig()
EVERYTHING = AugmentConfig(noise_probability=1.0, gain_probability=1.0, mask_probability=1.0)


def librosa_log_mel(samples, audio):
    mel = librosa.feature.melspectrogram(
        y=samples,
        sr=audio.sample_rate,
        n_fft=audio.n_fft,
        hop_length=audio.hop_length,
        n_mels=audio.n_mels,
        fmin=audio.f_min,
        fmax=audio.f_max,
        power=audio.power,
    )
    return np.log(np.maximum(mel, audio.log_floor)).T


def batch_of(clips, key=(0, 0, 0), crops=None):
    """A batch as the reader makes it, from int16 clips."""
    crops = crops or clips

    def padded(rows):
        size = -(-max(map(len, rows)) // 1024) * 1024
        return np.stack([np.pad(row, (0, size - len(row))) for row in rows])

    return {
        "waveform": tf.constant(padded(clips)),
        "waveform_lengths": tf.constant([len(c) for c in clips], tf.int32),
        "conditioning": tf.constant(padded(crops)),
        "conditioning_lengths": tf.constant([len(c) for c in crops], tf.int32),
        "speaker": tf.zeros([len(clips)], tf.int32),
        "key": tf.constant([(*key, row) for row in range(len(clips))], tf.int32),
    }


def pcm(samples):
    return np.rint(np.clip(samples, -1, 32767 / 32768) * 32768).astype(np.int16)


def synthetic():
    time = np.arange(30000) / 22050
    chance = np.random.default_rng(0)
    click = np.zeros(22050)
    click[5000] = 1.0
    return {
        "loud tone": pcm(0.99 * np.sin(2 * np.pi * 440 * time)),
        "tone beside silence": pcm(np.where(time < 0.7, np.sin(2 * np.pi * 3000 * time), 0)),
        "noise": pcm(0.1 * chance.standard_normal(25600)),  # a multiple of the hop
        "full-scale noise": pcm(chance.uniform(-1, 1, 22051)),
        "click": pcm(click),
        "chirp": pcm(0.9 * librosa.chirp(fmin=40, fmax=11000, sr=22050, length=44100)),
        "silence": np.zeros(8000, np.int16),
        "one frame": pcm(0.5 * np.sin(time[:200] * 3000)),
    }


@pytest.fixture(scope="module")
def spoken(spoken_corpus):
    return [soundfile.read(path, dtype="int16")[0] for path in spoken_corpus.paths[:24]]


@pytest.mark.parametrize(
    "audio",
    [AUDIO, AudioConfig(n_mels=128, f_max=11025.0, power=1.0, hop_length=128, log_floor=1e-4)],
    ids=["default", "other parameters"],
)
def test_log_mels_equal_librosa_on_real_and_synthetic_signals(audio, spoken):
    clips = [*synthetic().values(), *spoken]
    features = make_features(FeatureConfig(audio))
    batch = features(batch_of(clips))
    worst = 0.0
    for row, clip in enumerate(clips):
        frames = int(batch["mel_lengths"][row])
        assert frames == audio.frames(len(clip))
        expected = librosa_log_mel(clip.astype(np.float32) / 32768, audio)
        found = batch["mel"][row].numpy()
        worst = max(worst, float(np.abs(found[:frames] - expected[:frames]).max()))
        np.testing.assert_allclose(found[frames:], np.log(audio.log_floor), atol=2e-6)
    assert worst < 1e-5
    np.testing.assert_array_equal(batch["conditioning_mel"], batch["mel"])


def test_a_clip_has_the_same_mels_in_any_company(spoken):
    log_mel = tf.function(make_log_mel(AUDIO))

    def mels(clips):
        batch = batch_of(clips)
        waveform = tf.cast(batch["waveform"], tf.float32) / 32768
        return log_mel(waveform, batch["waveform_lengths"])

    together, lengths = mels(spoken)
    for row in (0, 5, 23):
        alone, _ = mels([spoken[row]])
        frames = int(lengths[row])
        np.testing.assert_array_equal(alone[0, :frames], together[row, :frames])


def test_a_map_on_a_dataset_gives_the_same_as_a_call(spoken):
    batch = batch_of(spoken[:5], key=(1, 2, 3))
    features = make_features(FeatureConfig(augment=EVERYTHING))
    called = features(batch)
    dataset = tf.data.Dataset.from_tensors(batch).map(features)
    [mapped] = dataset
    assert called.keys() == mapped.keys()
    for name in called:
        np.testing.assert_allclose(called[name], mapped[name], rtol=1e-6, atol=1e-6)


def test_the_waveform_is_handed_on_only_when_wanted(spoken):
    batch = batch_of(spoken[:2])
    kept = make_features(FeatureConfig())(batch)
    np.testing.assert_array_equal(kept["waveform"], batch["waveform"])
    dropped = make_features(FeatureConfig(keep_waveform=False))(batch)
    assert kept.keys() - dropped.keys() == {"waveform"}
    assert "conditioning" not in kept and "speaker" in kept and "waveform_lengths" in kept


def test_chance_depends_on_seed_epoch_and_batch_alone(spoken):
    features = make_features(FeatureConfig(augment=EVERYTHING))

    def mel(*key):
        return features(batch_of(spoken[:3], key))["conditioning_mel"].numpy()

    first = mel(5, 2, 7)
    np.testing.assert_array_equal(first, mel(5, 2, 7))
    others = [mel(*key) for key in ((6, 2, 7), (5, 3, 7), (5, 2, 8), (2**31 - 1, 2000, 1))]
    assert all(np.abs(first - other).max() > 0.1 for other in others)


def test_a_batch_is_augmented_alike_whether_or_not_another_was_fetched_before(spoken):
    features = make_features(FeatureConfig(augment=EVERYTHING))
    batches = [batch_of(spoken[i : i + 2], (0, 0, i)) for i in range(4)]
    stacked = {k: tf.stack([pad_to(b[k], 150_000) for b in batches]) for k in batches[0]}
    dataset = tf.data.Dataset.from_tensor_slices(stacked)
    all_four = list(dataset.map(features))
    [last] = dataset.skip(3).map(features, num_parallel_calls=2)
    np.testing.assert_array_equal(all_four[3]["conditioning_mel"], last["conditioning_mel"])


def pad_to(tensor, size):
    if tensor.dtype != tf.int16:
        return tensor
    size = -(-size // 256) * 256
    return tf.pad(tensor, [[0, 0], [0, size - tensor.shape[1]]])


def test_noise_has_the_ratio_asked_for_and_stays_inside_the_crop():
    clip = pcm(0.1 * np.sin(np.arange(60000) / 7))
    batch = batch_of([clip, clip[:30000]] * 4)
    augment = AugmentConfig(noise_probability=1.0, noise_snr_db=(20.0, 20.0))
    clean = make_features(FeatureConfig())(batch)
    noisy = make_features(FeatureConfig(augment=augment))(batch)
    np.testing.assert_array_equal(clean["mel"], noisy["mel"])  # the target stays clean
    mels = librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0, fmax=8000)
    # White noise of variance v has a power of v * sum(window ** 2) in every bin.
    variance = 0.1**2 / 2 / 100
    expected = variance * np.square(np.hanning(1025)[:-1]).sum() * mels.sum(1)
    far = np.arange(40, 80)  # bands the tone does not reach
    found = np.exp(noisy["conditioning_mel"].numpy())[:, 5:100, far].mean((0, 1))
    np.testing.assert_allclose(found, expected[far], rtol=0.15)
    beyond = noisy["conditioning_mel"][1, 30000 // 256 + 1 :]
    np.testing.assert_allclose(beyond, np.log(1e-5), atol=2e-6)


def test_gain_moves_clip_crop_and_waveform_alike():
    clip = pcm(0.1 * np.sin(np.arange(30000) / 7))
    batch = batch_of([clip] * 6)
    augment = AugmentConfig(gain_probability=1.0, gain_db=(-6.0, 3.0))
    changed = make_features(FeatureConfig(augment=augment))(batch)
    plain = make_features(FeatureConfig())(batch)
    peak = plain["mel"].numpy()[:, 20:60].max((1, 2))
    gains = (changed["mel"].numpy()[:, 20:60].max((1, 2)) - peak) * 10 / np.log(10)
    assert len(np.unique(gains)) == 6 and gains.min() > -6.01 and gains.max() < 3.01
    np.testing.assert_array_equal(changed["mel"], changed["conditioning_mel"])
    waveform = changed["waveform"].numpy().astype(float)
    level = 20 * np.log10(np.abs(waveform).max(1) / np.abs(clip.astype(float)).max())
    np.testing.assert_allclose(level, gains, atol=0.02)
    some = AugmentConfig(gain_probability=0.5)
    mixed = make_features(FeatureConfig(augment=some))(batch_of([clip] * 64))["mel"].numpy()
    unchanged = np.isclose(mixed[:, 50].max(1), plain["mel"].numpy()[0, 50].max()).sum()
    assert 15 < unchanged < 49


def test_masks_hide_whole_stretches_and_bands_of_the_conditioning_only():
    clip = pcm(0.3 * np.random.default_rng(0).standard_normal(60000))
    augment = AugmentConfig(mask_probability=1.0, time_mask_frames=20, mel_mask_bands=10)
    batch = make_features(FeatureConfig(augment=augment))(batch_of([clip] * 32))
    hidden = batch["conditioning_mel"].numpy()[:, :230] == np.float32(np.log(1e-5))
    assert not (batch["mel"].numpy()[:, :230] == np.float32(np.log(1e-5))).any()
    times, bands = hidden.all(2).sum(1), hidden.all(1).sum(1)
    assert times.max() <= 40 and bands.max() <= 20 and times.mean() > 8 and bands.mean() > 4
    whole = hidden.all(2)[:, :, None] | hidden.all(1)[:, None, :]
    np.testing.assert_array_equal(hidden, whole)


def test_every_op_has_a_gpu_kernel_and_names_no_device():
    features = make_features(FeatureConfig(augment=EVERYTHING))
    for rows in (4, None):
        spec = {
            "waveform": tf.TensorSpec([rows, None], tf.int16),
            "waveform_lengths": tf.TensorSpec([rows], tf.int32),
            "conditioning": tf.TensorSpec([rows, 132352], tf.int16),
            "conditioning_lengths": tf.TensorSpec([rows], tf.int32),
            "key": tf.TensorSpec([rows, 4], tf.int32),
        }
        graph = tf.function(features).get_concrete_function(spec).graph
        without = {
            f"{op.type}({', '.join(t.dtype.name for t in op.inputs)})"
            for op in graph.get_operations()
            if op.type != "Placeholder" and not has_gpu_kernel(op)
        }
        assert without == set()
        assert {op.device for op in graph.get_operations()} == {""}


def has_gpu_kernel(op):
    """Whether TensorFlow registers a GPU kernel for this op with these types.

    "DEFAULT" kernels serve every device; for a GPU they keep int32 shapes in host memory.
    """
    for kernel in kernels.get_registered_kernels_for_op(op.type).kernel:
        if kernel.device_type in ("GPU", "DEFAULT") and all(
            not hasattr(op.get_attr(c.name), "as_datatype_enum")
            or op.get_attr(c.name).as_datatype_enum in c.allowed_values.list.type
            for c in kernel.constraint
        ):
            return True
    return False


def test_a_device_that_is_not_the_host_gives_the_same_mels(spoken):
    """On an emulated GPU, which the caller names; the features do not."""
    if not tf.config.list_logical_devices("GPU"):
        pytest.skip("no emulated GPU in this process")
    features = tf.function(make_features(FeatureConfig(augment=EVERYTHING)))
    batch = batch_of(spoken[:4], key=(1, 1, 1))
    with tf.device("CPU:0"):
        host = features(batch)
    with tf.device("GPU:0"):
        device = features({name: tf.identity(value) for name, value in batch.items()})
    assert "GPU:0" in device["mel"].device
    for name in ("mel", "conditioning_mel"):
        np.testing.assert_allclose(host[name], device[name], atol=1e-4)


def test_a_part_of_a_batch_is_given_what_it_has_in_the_whole(spoken):
    """As on one of several machines, each of which prepares its own rows."""
    features = make_features(FeatureConfig(augment=EVERYTHING, keep_waveform=True))
    batch = batch_of(spoken[:4], key=(1, 2, 3))
    whole, part = features(batch), features({name: value[2:] for name, value in batch.items()})
    for name, value in part.items():
        np.testing.assert_array_equal(value, whole[name][2:], name)


def test_settings_of_one_kind_of_chance_leave_the_others_alone(spoken):
    both = make_features(FeatureConfig(augment=EVERYTHING))
    noise_off = dataclasses.replace(EVERYTHING, noise_probability=0.0)
    batch = batch_of(spoken[:3], key=(1, 2, 3))
    np.testing.assert_array_equal(
        both(batch)["mel"], make_features(FeatureConfig(augment=noise_off))(batch)["mel"]
    )
