"""Batches from disk: the plan's clips, read, cut and padded by tf.data's C++ ops.

    dataset = read_batches(corpus, texts, plan, begin=(3, 17))

gives an endless stream that starts with batch 17 of epoch 3 and is the same every time. Python runs
once per epoch, to make its plan, and never per clip.

A batch is a dict. B is the number of clips, T samples and L tokens are the sizes of its bucket, C
samples that of the longest crop:

    waveform              int16 [B, T]   zero beyond its length
    waveform_lengths      int32 [B]      samples
    text                  int32 [B, L]   language tag and tokens, 0 beyond its length
    text_lengths          int32 [B]
    speaker, language     int32 [B]
    conditioning          int16 [B, C]   from another clip of the speaker if there is one
    conditioning_lengths  int32 [B]
    conditioning_starts   int32 [B]      where in its clip the crop begins
    clip                  int32 [B]      index into the corpus
    key                   int32 [B, 4]   (seed, epoch, batch, row): seeds all randomness, is the
                                         position to save after training on the batch, and says
                                         which row of it this is
"""

import os
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.texts import Texts
from myxtts.corpus.workers import default_workers

_PLANNED_CLIPS = 1_000_000  # 32 MB of a plan go to the service's workers
# Columns of the plan's rows as they travel through tf.data.
_CLIP, _CROP_CLIP, _CROP_START, _CROP_SAMPLES, _BUCKET, _EPOCH, _BATCH, _ROW = range(8)


def read_batches(
    corpus: Corpus,
    texts: Texts,
    plan: BatchPlan,
    *,
    begin: tuple[int, int] | Callable[[], tuple[int, int]] = (0, 0),
    epochs: int | None = None,
    workers: int | None = None,
    host_prefetch: int | None = None,
) -> tf.data.Dataset:
    """The batches of `epochs` epochs; the first one is `begin`, a number of an epoch and one of a
    batch in it. A function is asked for them by each iterator, if the epochs have no end."""
    config = plan.config
    workers = workers or default_workers()
    samples_of = plan.bucket_frames * plan.audio.hop_length
    tokens_of = _bucket_tokens(texts, plan)
    read = _clip_reader(corpus, texts=texts, plan=plan, samples_of=samples_of, tokens_of=tokens_of)
    rows = tf.data.Dataset.from_generator(
        lambda: _rows(plan, *(begin() if callable(begin) else begin), epochs),
        output_signature=tf.TensorSpec([None, 8], tf.int32),
    )
    rows = rows.prefetch(1)  # the next epoch's plan is made while this one is read

    def batched(clips: tf.data.Dataset) -> tf.data.Dataset:
        return clips.map(read, num_parallel_calls=workers, deterministic=True).batch(
            # Clips of one batch follow one another and have the shape of their bucket.
            config.batch_size,
            drop_remainder=config.drop_remainder,
        )

    if config.drop_remainder:
        dataset = batched(rows.unbatch())
    else:  # the incomplete last batch must not be filled up by the next epoch's clips
        dataset = rows.flat_map(lambda epoch: batched(tf.data.Dataset.from_tensor_slices(epoch)))
    if epochs is not None:
        dataset = dataset.apply(
            tf.data.experimental.assert_cardinality(plan.batches_per_epoch * epochs - begin[1])
        )
    if host_prefetch is None:
        host_prefetch = default_host_prefetch(plan, int(tokens_of.max()))
    return dataset.prefetch(host_prefetch).with_options(_without_tuning())


def _without_tuning() -> tf.data.Options:
    """Switches tf.data's tuner off: nothing here is left to tune. Dropping an iterator waits for
    the tuner, which may miss its cancellation and then sleep for up to a minute. (TensorFlow wakes
    its thread before it sets the cancellation.)"""
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def served_batches(
    corpus: Corpus,
    texts: Texts,
    plan: BatchPlan,
    *,
    begin: tuple[int, int] = (0, 0),
    count: int | None = None,
    parts: tuple[int, int, int] = (0, 1, 1),
) -> tf.data.Dataset:
    """The same batches for a tf.data service, whose workers run no Python: plans are made at once.

    Without `count` they go on without end, but after some epochs their plans come again. One
    element of the source makes one batch, so the service may divide and reorder them as it likes.
    `parts` (first, end, count) cuts each batch into so many and takes some of them, as batches of
    their own.
    """
    clips = plan.batches_per_epoch * plan.config.batch_size
    epochs = 1 if count is not None else int(np.clip(_PLANNED_CLIPS // clips, 1, 100))
    size = plan.config.batch_size
    rows = np.concatenate([*_rows(plan, *begin, epochs)])
    if len(rows) % size:
        raise ValueError(f"{len(rows)} clips do not make whole batches of {size}")
    read = _clip_reader(
        corpus,
        texts=texts,
        plan=plan,
        samples_of=plan.bucket_frames * plan.audio.hop_length,
        tokens_of=_bucket_tokens(texts, plan),
    )
    first, end, cut = parts
    rows = rows.reshape(-1, cut, size // cut, rows.shape[-1])[:count, first:end]
    dataset = tf.data.Dataset.from_tensor_slices(rows.reshape(-1, *rows.shape[2:]))
    dataset = dataset if count is not None else dataset.repeat()
    row = tf.TensorSpec(rows.shape[-1:], tf.int32)
    made = tf.function(read).get_concrete_function(row).structured_outputs
    specs = tf.nest.map_structure(lambda made: tf.TensorSpec(made.shape, made.dtype), made)
    return dataset.map(
        lambda rows: tf.map_fn(read, rows, fn_output_signature=specs),
        num_parallel_calls=tf.data.AUTOTUNE,  # on a machine that is not this one
    )


def default_host_prefetch(plan: BatchPlan, tokens: int) -> int:
    """Batches held ready in host memory: enough for a pause of half a second at 100 batches/s, but
    at most a twentieth of the free memory."""
    samples = int(plan.bucket_frames.max()) * plan.audio.hop_length + plan.conditioning_samples
    batch_bytes = plan.config.batch_size * (2 * samples + 4 * tokens)
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return int(np.clip(free // 20 // batch_bytes, 2, 50))


def _rows(plan: BatchPlan, epoch: int, batch: int, epochs: int | None) -> Iterator[np.ndarray]:
    number = epoch
    while epochs is None or number < epoch + epochs:
        this = plan.epoch(number)
        size = this.clips.shape[1]
        rows = np.stack(
            [
                this.clips,
                this.crop_clips,
                this.crop_start,
                this.crop_samples,
                np.repeat(this.bucket[:, None], size, 1),
                np.full(this.clips.shape, number),
                np.repeat(np.arange(len(this))[:, None], size, 1),
                np.repeat(np.arange(size)[None], len(this), 0),
            ],
            axis=-1,
        )
        rows = rows[batch if number == epoch else 0 :].reshape(-1, 8)
        yield rows[rows[:, _CLIP] >= 0].astype(np.int32)
        number += 1


def _bucket_tokens(texts: Texts, plan: BatchPlan) -> np.ndarray:
    """Text length of every bucket: the longest text it can hold. A clip may move up a bucket to
    complete a batch, so a bucket has room for the texts of the shorter buckets."""
    longest = np.zeros(len(plan.bucket_frames), np.int64)
    np.maximum.at(longest, plan.bucket_of, texts.lengths)
    return np.maximum.accumulate(longest)


def _clip_reader(corpus: Corpus, *, texts: Texts, plan: BatchPlan, samples_of, tokens_of):
    paths = tf.constant(list(corpus.paths))
    samples = tf.constant(corpus.samples, tf.int32)
    offsets = tf.constant(corpus.data_offsets, tf.int32)
    speakers = tf.constant(corpus.speaker_ids, tf.int32)
    languages = tf.constant(corpus.language_ids, tf.int32)
    token_ids = tf.constant(texts.ids, tf.int32)
    token_starts = tf.constant(texts.starts, tf.int64)
    token_counts = tf.constant(texts.lengths, tf.int32)
    bucket_samples = tf.constant(samples_of, tf.int32)
    bucket_tokens = tf.constant(tokens_of, tf.int32)
    crop_size = plan.conditioning_samples
    one_shape = len(samples_of) == 1
    seed = plan.config.seed

    def pcm(clip, start, count):
        """`count` samples of a clip from `start` on. Cutting out the bytes is 5 times faster than
        decode_wav, which goes through floats; the manifest was compared with the header before."""
        content = tf.io.read_file(paths[clip])
        begin = offsets[clip] + 2 * start
        whole = tf.debugging.Assert(
            tf.strings.length(content) >= begin + 2 * count,
            ["clip is shorter than when it was prepared; prepare the corpus again:", paths[clip]],
        )
        with tf.control_dependencies([whole]):
            part = tf.strings.substr(content, begin, 2 * count)
        return tf.io.decode_raw(part, tf.int16)

    def padded(values, size):
        return tf.pad(values, [[0, size - tf.shape(values)[0]]])

    @tf.autograph.experimental.do_not_convert  # there is nothing to convert, but looking takes time
    def read(row):
        clip, bucket = row[_CLIP], row[_BUCKET]
        waveform = padded(pcm(clip, 0, samples[clip]), bucket_samples[bucket])
        crop = pcm(row[_CROP_CLIP], row[_CROP_START], row[_CROP_SAMPLES])
        crop = tf.ensure_shape(padded(crop, crop_size), [crop_size])
        start, count = token_starts[clip], token_counts[clip]
        ids = padded(token_ids[start : start + tf.cast(count, tf.int64)], bucket_tokens[bucket])
        if one_shape:
            waveform = tf.ensure_shape(waveform, [int(samples_of[0])])
            ids = tf.ensure_shape(ids, [int(tokens_of[0])])
        return {
            "waveform": waveform,
            "waveform_lengths": samples[clip],
            "text": ids,
            "text_lengths": count,
            "speaker": speakers[clip],
            "language": languages[clip],
            "conditioning": crop,
            "conditioning_lengths": row[_CROP_SAMPLES],
            "conditioning_starts": row[_CROP_START],
            "clip": clip,
            "key": tf.stack([seed, row[_EPOCH], row[_BATCH], row[_ROW]]),
        }

    return read
