"""The reports on a run: each function measures something and yields lines of text."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from myxtts import UserError
from myxtts.config import Speaking
from myxtts.corpus.embedded import EmbeddedVoice
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.sentences import LANGUAGES
from myxtts.evaluation.cloning import cloning
from myxtts.evaluation.held_out import held_out_figures
from myxtts.evaluation.intelligibility import intelligibility
from myxtts.evaluation.other_recognisers import recogniser_named
from myxtts.evaluation.resemblyzer import Resemblyzer
from myxtts.evaluation.sentences import (
    Sentence,
    embedded_voices,
    held_out_sentences,
    new_sentences,
    peoples_texts,
    recorded_sentences,
)
from myxtts.evaluation.speakers import trained_voice_judge
from myxtts.text.languages import base_language
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_names
from myxtts.voice import Voice

# Voices that neither training corpora nor the measuring networks use; one and ten others.
_UNKNOWN_VOICES = tuple(EmbeddedVoice.number(100 + i) for i in range(11))


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A run, the clips it was trained on and those it is measured on, and where files go."""

    run: RunDirectory
    voice: Voice
    training: Corpus
    held_out: Corpus
    recogniser_dir: Path
    recogniser: str = "own"
    recogniser_model: str | None = None
    judge: str = "own"
    sentences_of: tuple[str, ...] = ("corpus",)
    speaking: Speaking = Speaking()
    save_dir: Path | None = None

    def _saved(self, *parts: str) -> Path | None:
        return self.save_dir and self.save_dir.joinpath(*parts)


def report_training(evaluation: Evaluation) -> Iterable[str]:
    """How long each stage was trained."""
    total = 0.0
    yield f"run {evaluation.run.path}"
    for stage in stage_names(evaluation.run.config().model.form):
        result = evaluation.run.result(stage)
        if result is None:
            yield f"  {stage:<12} not finished"
            continue
        total += result["seconds"]
        yield f"  {stage:<12} {result['steps']:>8,} steps {result['seconds'] / 60:8.1f} minutes"
    yield f"  {'together':<12} {'':>14} {total / 60:8.1f} minutes"


def report_held_out(evaluation: Evaluation) -> Iterable[str]:
    yield f"held-out clips ({len(evaluation.held_out)}):"
    for name, value in held_out_figures(evaluation.voice.networks, evaluation.held_out).items():
        yield f"  {name:<26} {value:8.3f}"


def report_intelligibility(evaluation: Evaluation, count: int) -> Iterable[str]:
    """A table for each language of the run, with `count` sentences in total."""
    languages = evaluation.training.languages
    for number, language in enumerate(languages):
        share = (count + len(languages) - 1 - number) // len(languages)
        if not share:
            continue
        recogniser = recogniser_named(
            evaluation.recogniser,
            language=language,
            directory=evaluation.recogniser_dir,
            model=evaluation.recogniser_model,
        )
        for kind in evaluation.sentences_of:
            yield from _heard(evaluation, language, recogniser=recogniser, kind=kind, count=share)


def _heard(
    evaluation: Evaluation, language: str, *, recogniser, kind: str, count: int
) -> Iterable[str]:
    if kind == "people":
        sentences, what = _peoples_sentences(evaluation, language, count)
    else:
        sentences, what = _sentences(evaluation, language, count, recogniser.texts)
    rows = intelligibility(
        evaluation.voice,
        sentences=sentences,
        recogniser=recogniser,
        speaking=evaluation.speaking,
        save_dir=evaluation._saved("intelligibility", language, kind),
        every_way=evaluation.recogniser == "own",
    )
    yield f"{language}: {len(sentences)} {what}, heard by {evaluation.recogniser}"
    yield (
        f"  {'speech':<24} {'character error':>15} {'above recorded':>22} "
        f"{'mel-cepstral distance':>22} {'length':>8}"
        + ("" if rows[0].word_error is None else f" {'word error':>10}")
    )
    for row in rows:
        yield (
            f"  {row.way:<24} {row.error.value:15.3f} {row.error.points:+8.1f} "
            f"+- {row.error.uncertain:3.1f} points "
            f"{row.distance:19.2f} dB {row.length:8.2f}"
            + ("" if row.word_error is None else f" {row.word_error:10.3f}")
        )
    if rows[0].error.value > 0.3 and evaluation.recogniser == "own":
        yield (
            "  The recogniser was trained on espeak-ng speech and does not understand these "
            "recordings; take another one with --recogniser."
        )


def _sentences(
    evaluation: Evaluation, language: str, count: int, known: Iterable[str]
) -> tuple[list[Sentence], str]:
    training, held_out = evaluation.training, evaluation.held_out
    voices = embedded_voices(training.speakers, training.languages)
    if voices is None:
        chosen = [i for i in range(len(held_out)) if held_out.language_of(i) == language]
        if not chosen:
            raise UserError(f"no clip in {language} is held out, so there is nothing to compare to")
        sentences = held_out_sentences(training, held_out.subset(chosen), count)
        return sentences, "held-out clips of the corpus"
    known = {*known, *training.texts, *held_out.texts}
    place = evaluation.recogniser_dir / "sentences"
    sentences = new_sentences(place, voices, [language], count, known=known)
    return sentences, f"new sentences in {len(voices)} voices of the corpus, said by espeak-ng too"


def _peoples_sentences(
    evaluation: Evaluation, language: str, count: int
) -> tuple[list[Sentence], str]:
    voices = embedded_voices(evaluation.training.speakers, evaluation.training.languages)
    if voices is None or base_language(language) != "en":
        raise UserError(
            "--sentences_of=people is for voices of the embedded corpus that speak English, whose "
            "recordings espeak-ng can make; leave it out"
        )
    texts = peoples_texts()
    place = evaluation.recogniser_dir / "sentences"
    sentences = recorded_sentences(place, voices, language, texts=texts[:count])
    return sentences, "sentences as people type them"


def report_cloning(evaluation: Evaluation, count: int) -> Iterable[str]:
    """A table over `count` sentences by espeak-ng voices that the run was not trained on."""
    language = next((name for name in evaluation.training.languages if name in LANGUAGES), None)
    if language is None:
        raise UserError(
            f"cloning is measured in {', '.join(LANGUAGES)}, and this run was trained on "
            f"{', '.join(evaluation.training.languages)}"
        )
    voices = [v for v in _UNKNOWN_VOICES if v.name not in evaluation.training.speakers]
    if len(voices) < len(_UNKNOWN_VOICES):
        raise UserError(
            f"cloning is measured with {_UNKNOWN_VOICES[0].name} to {_UNKNOWN_VOICES[-1].name}, "
            "and this run was trained on some of them"
        )
    if evaluation.judge == "own":
        judge = trained_voice_judge(evaluation.recogniser_dir)
    else:
        judge = Resemblyzer()
    sentences = new_sentences(
        evaluation.recogniser_dir / "sentences",
        voices,
        [language],
        count,
        known=evaluation.training.texts,
        seed=940_001,
    )
    rows = cloning(
        evaluation.voice,
        sentences=sentences,
        judge=judge,
        speaking=evaluation.speaking,
        save_dir=evaluation._saved("cloning"),
    )
    yield (
        f"cloning: {count} new sentences by {len(voices)} voices the run was not trained on, told "
        f"apart by {evaluation.judge}"
    )
    yield (
        f"  {'speech':<12} {'clips nearer to own':>20} {'voices nearer to own':>21} "
        f"{'others beaten':>14} {'cosine with own':>16} {'with others':>12}"
    )
    yield f"  {'':<12} {'than to 9 of 10':>20} {'than to 9 of 10':>21}"
    for row in rows:
        yield (
            f"  {row.way:<12} {row.clips_nearer:>20.0%} {row.voices_nearer:>21.0%} "
            f"{row.beaten:>14.0%} {row.own:>16.3f} {row.others:>12.3f}"
        )
