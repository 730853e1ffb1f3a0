"""Batches hold what is on the disk, and can be had from any point of any epoch."""

import dataclasses
import itertools
import shutil

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from dual_device_strategy import DataService
from myxtts import UserError
from myxtts.config import AudioConfig, BatchConfig, TextConfig
from myxtts.corpus.batches import default_host_prefetch, read_batches, served_batches
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.texts import encode_texts
from myxtts.text.vocabulary import Vocabulary

AUDIO = AudioConfig()


@pytest.fixture(scope="module")
def vocabulary(spoken_corpus):
    languages = [spoken_corpus.language_of(i) for i in range(len(spoken_corpus))]
    return Vocabulary.train(spoken_corpus.texts, languages, TextConfig(vocabulary_size=400))


@pytest.fixture(scope="module")
def encoded(spoken_corpus, vocabulary):
    return encode_texts(spoken_corpus, vocabulary, 402)


def reader(encoded, config=None, **kwargs):
    corpus, texts = encoded
    config = config or BatchConfig(8, buckets=3)
    plan = BatchPlan(
        corpus.samples,
        speaker_ids=corpus.speaker_ids,
        language_ids=corpus.language_ids,
        config=config,
        audio=AUDIO,
    )
    return plan, read_batches(corpus, texts, plan, **kwargs)


def take(dataset, count):
    return [{k: v.numpy() for k, v in batch.items()} for batch in dataset.take(count)]


def equal(a, b):
    return len(a) == len(b) and all(
        x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x)
        for x, y in zip(a, b, strict=True)
    )


def test_no_tuner_runs_that_the_end_of_an_iterator_may_wait_a_minute_for(encoded):
    _, dataset = reader(encoded)
    assert dataset.options().autotune.enabled is False


def test_a_data_service_is_given_the_same_batches_without_a_python_function(encoded):
    plan, dataset = reader(encoded)
    served = served_batches(*encoded, plan)
    assert equal(take(served, 5), take(dataset, 5))
    assert int(served_batches(*encoded, plan, count=2).cardinality()) == 2
    parts = take(served_batches(*encoded, plan, count=2, parts=(1, 3, 4)), 4)  # two of four
    halves = [{k: v[i : i + 2] for k, v in b.items()} for b in take(dataset, 2) for i in (2, 4)]
    assert equal(parts, halves)
    DataService("localhost:1", mode="at most once")._refuse_operations(served)
    with pytest.raises(ValueError, match="Python function"):
        DataService("localhost:1", mode="at most once")._refuse_operations(dataset)


def test_a_batch_holds_the_clips_of_the_plan(encoded, spoken_corpus, vocabulary):
    plan, dataset = reader(encoded)
    epoch = plan.epoch(0)
    for number, batch in enumerate(take(dataset, 5)):
        np.testing.assert_array_equal(batch["clip"], epoch.clips[number])
        np.testing.assert_array_equal(batch["key"], [[0, 0, number, row] for row in range(8)])
        frames = plan.bucket_frames[epoch.bucket[number]]
        assert batch["waveform"].shape == (8, frames * 256)
        assert batch["waveform"].dtype == batch["conditioning"].dtype == np.int16
        for row, clip in enumerate(batch["clip"]):
            on_disk = soundfile.read(spoken_corpus.paths[clip], dtype="int16")[0]
            length = batch["waveform_lengths"][row]
            assert length == len(on_disk)
            np.testing.assert_array_equal(batch["waveform"][row, :length], on_disk)
            assert not batch["waveform"][row, length:].any()
            ids = batch["text"][row, : batch["text_lengths"][row]]
            language = spoken_corpus.languages[batch["language"][row]]
            text = vocabulary.written(spoken_corpus.texts[clip], language)
            assert vocabulary.decode(ids) == text and ids[0] == vocabulary.language_tag(language)
            assert not batch["text"][row, batch["text_lengths"][row] :].any()
            assert batch["speaker"][row] == spoken_corpus.speaker_ids[clip]
            source = epoch.crop_clips[number, row]
            start, count = epoch.crop_start[number, row], epoch.crop_samples[number, row]
            on_disk = soundfile.read(spoken_corpus.paths[source], dtype="int16")[0]
            assert batch["conditioning_lengths"][row] == count
            np.testing.assert_array_equal(
                batch["conditioning"][row, :count], on_disk[start : start + count]
            )
            assert not batch["conditioning"][row, count:].any()


def test_reading_can_start_at_any_batch_of_any_epoch(encoded):
    plan, dataset = reader(encoded)
    epoch = plan.batches_per_epoch
    stream = take(dataset, 3 * epoch)
    assert [tuple(b["key"][0, 1:3]) for b in stream] == [*itertools.product(range(3), range(epoch))]
    for start in (0, 1, epoch - 1, epoch, epoch + 3, 3 * epoch - 1):
        _, other = reader(encoded, begin=divmod(start, epoch), workers=1)
        assert equal(take(other, 3), stream[start : start + 3]) or start > 3 * epoch - 3
        assert equal(take(other, 1), stream[start : start + 1])


def test_an_iterator_can_be_dropped_and_another_gives_the_same(encoded):
    _, dataset = reader(encoded)
    next(iter(dataset))
    assert equal(take(dataset, 2), take(dataset, 2))


def test_the_number_of_batches_is_known_and_kept(encoded):
    plan, dataset = reader(encoded, epochs=2, begin=(0, 3))
    assert dataset.cardinality().numpy() == 2 * plan.batches_per_epoch - 3
    assert len(take(dataset, 10**6)) == 2 * plan.batches_per_epoch - 3


def test_an_evaluation_sees_every_clip_once(encoded, spoken_corpus):
    config = BatchConfig(8, buckets=3, drop_remainder=False, shuffle=False)
    _, dataset = reader(encoded, config, epochs=1)
    batches = take(dataset, 10**6)
    clips = np.concatenate([batch["clip"] for batch in batches])
    assert sorted(clips) == list(range(len(spoken_corpus)))
    assert {len(batch["clip"]) for batch in batches[:-1]} == {8}


def test_an_incomplete_last_batch_is_not_filled_from_the_next_epoch(encoded):
    config = BatchConfig(8, buckets=3, drop_remainder=False)
    plan, endless = reader(encoded, config)
    batches = take(endless, 2 * plan.batches_per_epoch)
    incomplete = len(encoded[0]) % 8
    assert 0 < incomplete < 8
    for epoch in (0, 1):
        mine = [batch for batch in batches if (batch["key"][:, 1] == epoch).all()]
        assert len(mine) == plan.batches_per_epoch and len(mine[-1]["clip"]) == incomplete
        for number, batch in enumerate(mine):
            wanted = plan.epoch(epoch).clips[number]
            np.testing.assert_array_equal(batch["clip"], wanted[wanted >= 0])


def test_shapes_are_few_and_static_shapes_are_one(encoded):
    plan, dataset = reader(encoded, epochs=4)
    shapes = {(b["waveform"].shape, b["text"].shape) for b in take(dataset, 10**6)}
    assert len(shapes) <= 3
    assert dataset.element_spec["waveform"].shape.as_list() == [8, None]
    plan, dataset = reader(encoded, BatchConfig(8, static_shapes=True))
    assert all(spec.shape.is_fully_defined() for spec in dataset.element_spec.values())
    [batch] = take(dataset, 1)
    assert batch["waveform"].shape == (8, int(plan.bucket_frames[0]) * 256)


def test_no_python_runs_for_a_clip(encoded):
    """The only Python function in the pipeline makes the plan of an epoch."""
    _, dataset = reader(encoded)
    graph = dataset._as_serialized_graph().numpy()
    definition = tf.compat.v1.GraphDef.FromString(graph)
    mapped = [f for f in definition.library.function if any(n.op == "ReadFile" for n in f.node_def)]
    assert len(mapped) == 1
    python = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
    assert not [node.op for node in mapped[0].node_def if node.op in python]


def test_a_clip_that_changed_on_disk_is_named(encoded, tmp_path):
    corpus, texts = encoded
    moved = []
    for path in corpus.paths:
        moved.append(str(tmp_path / path.rsplit("/", 1)[1]))
        shutil.copy(path, moved[-1])
    corpus = dataclasses.replace(corpus, paths=moved)
    plan, dataset = reader((corpus, texts), epochs=1)
    victim = moved[plan.epoch(0).clips[1, 0]]
    with open(victim, "r+b") as file:
        file.truncate(2000)
    with pytest.raises(tf.errors.InvalidArgumentError, match="shorter than when it was prepared"):
        take(dataset, 10**6)


def test_texts_too_long_for_the_model_are_left_out_and_counted(spoken_corpus, vocabulary, caplog):
    lengths = encode_texts(spoken_corpus, vocabulary, 402)[1].lengths
    limit = int(np.median(lengths))
    corpus, texts = encode_texts(spoken_corpus, vocabulary, limit)
    assert len(corpus) == len(texts.lengths) == (lengths <= limit).sum() < len(spoken_corpus)
    assert texts.lengths.max() <= limit
    language = corpus.language_of(3)
    assert texts[3].tolist() == vocabulary.encode(corpus.texts[3], language)
    with pytest.raises(UserError, match="more than max_tokens=8"):
        encode_texts(corpus, vocabulary, 8)


def test_the_host_prefetch_is_bounded_by_memory_and_batch(encoded, monkeypatch):
    plan, _ = reader(encoded)
    assert 2 <= default_host_prefetch(plan, 100) <= 50
    monkeypatch.setattr("os.sysconf", lambda name: 1)
    assert default_host_prefetch(plan, 100) == 2


def test_a_split_is_stable_when_the_corpus_grows(spoken_corpus):
    training, held_out = spoken_corpus.split(0.2)
    assert len(training) + len(held_out) == len(spoken_corpus) and 3 < len(held_out) < 25
    assert not set(training.paths) & set(held_out.paths)
    smaller = spoken_corpus.subset(np.arange(30))
    assert set(smaller.split(0.2)[1].paths) <= set(held_out.paths)
    assert len({c.fingerprint for c in (training, held_out, smaller, spoken_corpus)}) == 4


def test_a_validation_corpus_keeps_the_ids_of_the_training_corpus(tmp_path):
    def prepared(name, rows):
        root = tmp_path / name
        root.mkdir()
        (root / "corpus.json").write_text('{"root": "..", "format": "coqui", "settings": {}}')
        columns = "path\ttext\tspeaker\tlanguage\tseconds\tframes\tdata_offset\n"
        lines = [f"../{s}.wav\tHi.\t{s}\t{v}\t1.000000\t87\t44\n" for s, v in rows]
        (root / "manifest.tsv").write_text(columns + "".join(lines))
        return root

    train = Corpus.load(prepared("train", [("bob", "fa"), ("ann", "en")]))
    assert train.speakers == ("ann", "bob") and train.speaker_ids.tolist() == [1, 0]
    rows = [("bob", "en"), ("aaa", "de")]
    val = Corpus.load(prepared("val", rows), known=train)
    assert val.speakers == ("ann", "bob", "aaa") and val.speaker_ids.tolist() == [1, 2]
    assert val.languages == ("en", "fa", "de") and val.language_ids.tolist() == [0, 2]


@pytest.mark.parametrize(
    "path",
    ["../../etc/a.wav", "/etc/a.wav", "clips/../../../a.wav", "other/a.wav", "..//etc/a.wav"],
)
def test_a_manifest_that_leads_out_of_the_corpus_is_refused(tmp_path, path):
    (tmp_path / "corpus.json").write_text('{"root": "..", "format": "coqui", "settings": {}}')
    columns = "path\ttext\tspeaker\tlanguage\tseconds\tframes\tdata_offset\n"
    (tmp_path / "manifest.tsv").write_text(f"{columns}{path}\tHi.\ta\ten\t1.0\t87\t44\n")
    with pytest.raises(UserError, match="outside the corpus; prepare it again"):
        Corpus.load(tmp_path)
