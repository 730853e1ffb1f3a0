"""Writes a trained voice as a SavedModel that any TensorFlow loads, without this package.

    python -m myxtts.export --checkpoint=RUN --out=DIR

A run begun from a published XTTS v2 is written in the published layout instead, for all programs
that read XTTS v2; `--add_speaker=NAME:a.wav,b.wav` adds a voice to it (may be repeated):

    python -m myxtts.export --format=xtts --checkpoint=RUN --out=DIR

    voice = tf.saved_model.load("DIR")
    cloned = voice.clone(waveform)                   # float32 [T] at the rate in DIR/voice.json
    tokens = voice.tokens("good morning.", "en")     # of a voice of phonemes: see below
    spoken = voice.speak(tokens, cloned["latents"], cloned["speaker"])["waveform"]

Several references: average `latents`, and `speaker`. `tokens` makes small letters and single spaces
of a text, but puts no numbers or abbreviations into words: write them out. `speak` says one
sentence; it also takes temperature, top_k, top_p, repetition_penalty, length_penalty and seed.

A voice that learnt from phonemes ("phonemes": true in DIR/voice.json) takes phonemes, and refuses
characters that are none: `voice.tokens(phonemes="ɡˈʊd mˈɔːnɪŋ.", language="en")`. They are what
`Voice.load(RUN).vocabulary.written(text, "en")` gives here; `espeak-ng --ipa -q` writes
nearly the same.
"""

import dataclasses
import json
import os
from pathlib import Path

from myxtts import UserError, start_up

if __name__ == "__main__":
    start_up.quieten()

import tensorflow as tf
from absl import flags, logging

from myxtts.config import Speaking, write_whole
from myxtts.model import sampling
from myxtts.text.graph_tokens import GraphTokens
from myxtts.training.run_directory import RunDirectory
from myxtts.user_errors import run_command
from myxtts.voice import Voice, averaged


class ExportedVoice(tf.Module):
    """What is in the SavedModel: three functions, and all they need."""

    def __init__(self, voice: Voice):
        super().__init__()
        networks = voice.networks
        self._voice_variables = [
            variable.value
            for name in ("tokenizer", "speaker", "conditioning", "gpt", "vocoder")
            if (network := getattr(networks, name)) is not None
            for variable in network.variables
        ]
        self._graph_tokens = GraphTokens(voice.vocabulary)
        usual = Speaking()
        gpt = networks.gpt
        begin, advance = sampling.traced(gpt)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "waveform")])
        def clone(waveform):
            latents, speaker = averaged(*voice.pieces_cloned(waveform))
            return {"latents": latents, "speaker": speaker}

        text_or_phonemes, language = tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.string)

        @tf.function(input_signature=[text_or_phonemes, language])
        def tokens_of_phonemes(phonemes, language):
            return self._graph_tokens(phonemes, language)

        @tf.function(input_signature=[text_or_phonemes, language])
        def tokens_of_text(text, language):
            text = tf.strings.lower(text, encoding="utf-8")
            text = tf.strings.strip(tf.strings.regex_replace(text, r"\s+", " "))
            return self._graph_tokens(text, language)

        @tf.function
        def speak(
            tokens,
            latents,
            speaker,
            temperature=usual.temperature,
            top_k=usual.top_k,
            top_p=usual.top_p,
            repetition_penalty=usual.repetition_penalty,
            length_penalty=usual.length_penalty,
            seed=usual.seed,
        ):
            size = tf.shape(tokens)[0]
            fits = tf.debugging.Assert(
                size <= gpt.max_text_tokens,
                [f"a sentence may have {gpt.max_text_tokens} tokens, got", size],
            )
            with tf.control_dependencies([fits]):
                most = sampling.most_codes(gpt, size)
            settings = {
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                "repetition_penalty": repetition_penalty,
                "length_penalty": length_penalty,
                "seed": seed,
            }
            # One row, which is not said: the steps are traced for any number of rows.
            rows = tf.compat.v1.placeholder_with_default(tokens[None], [None, None])
            sizes = tf.compat.v1.placeholder_with_default(size[None], [None])
            state = begin(latents, rows, sizes, most)
            state = advance(state, settings, most)
            codes = state["codes"][:, : state["lengths"][0]]
            return {"waveform": voice.waveform_of(codes, speaker)[0]}

        tokens = tokens_of_phonemes if voice.vocabulary.phonemes else tokens_of_text
        self.clone, self.tokens, self.speak = clone, tokens, speak
        number, whole = tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.int32)
        config = networks.config.model
        latents = [None, config.conditioning.latents, config.gpt.width]
        self._spoken = speak.get_concrete_function(
            tf.TensorSpec([None], tf.int32, "tokens"),
            tf.TensorSpec(latents, tf.float32, "latents"),
            tf.TensorSpec([1, config.speaker.size], tf.float32, "speaker"),
            temperature=number,
            top_k=whole,
            top_p=number,
            repetition_penalty=number,
            length_penalty=number,
            seed=whole,
        )


def export(voice: Voice, out: str | os.PathLike) -> Path:
    """Writes the voice into the directory `out`, which must be new or empty."""
    out = Path(os.path.abspath(out))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out={out} exists; name a new directory, or delete it first")
    module = ExportedVoice(voice)
    facts = {
        "sample_rate": voice.sample_rate,
        "languages": list(voice.languages),
        "vocoder": voice.vocoder,
        "max_tokens": voice.networks.gpt.max_text_tokens,
        "phonemes": voice.vocabulary.phonemes,
    }
    try:
        tf.saved_model.save(module, str(out))
        write_whole(out / "voice.json", json.dumps(facts, ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"--out={out} cannot be written: {error.strerror}") from None
    return out


def export_published(path: str | os.PathLike, out: str | os.PathLike, speakers: list[str]) -> Path:
    """Writes a run with published networks in the published layout into the new directory `out`.

    `speakers`: voices to add, as NAME:a.wav,b.wav.
    """
    from myxtts.training.published_run import published_source
    from myxtts.xtts_v2.voice import PublishedVoice

    logging.info("reading the weights in %s", path)
    source = published_source(path)
    if source is None:
        raise UserError(
            f"{path} cannot be written in the published layout: its tokenizer, conditioning, GPT, "
            "speaker encoder and vocoder have layers of our own; only a run that was begun with "
            "--init_from a published XTTS v2, or with --model_size=xtts_v2, can"
        )
    if speakers:
        voice, added = PublishedVoice.of(source), dict(source.speakers)
        for text in speakers:
            name, colon, files = text.partition(":")
            if not (colon and name and files):
                raise UserError(f"--add_speaker={text} must be NAME:a.wav,b.wav")
            if name in added:
                raise UserError(f"--add_speaker={text}: the model has a speaker {name!r} already")
            cloned = voice.clone(files.split(","))
            added[name] = (cloned.latents.numpy(), cloned.speaker.numpy()[..., None])
        source = dataclasses.replace(source, speakers=added)
    logging.info("writing them to %s", out)
    source.write(out)
    if added := source.normaliser.own:
        logging.warning(
            "%s: programs that read XTTS v2 have no cleaners for the added %s: they load the model "
            "but speak only its other languages; myxtts speaks all of them",
            *(out, ", ".join(added)),
        )
    if unknown := source.sizes().unknown_layers:
        logging.warning(
            "%s: the published code cannot load it, because it has %s; myxtts can",
            *(out, ", ".join(unknown)),
        )
    logging.info("%s: %s", out, source.licence)
    return Path(out)


def _written(given) -> Path:
    if given.format == "xtts":
        if given.vocoder is not None:
            raise UserError("--vocoder is of --format=saved_model; leave it out")
        return export_published(given.checkpoint, given.out, given.add_speaker)
    if given.add_speaker:
        raise UserError("--add_speaker is of --format=xtts; leave it out")
    run = RunDirectory.holding(given.checkpoint)
    if run.config().model.form != "own":
        raise UserError(f"{run.path} has published networks; write it with --format=xtts")
    logging.info("loading the voice in %s", run.path)
    voice = Voice.load(given.checkpoint, given.vocoder)
    logging.info("tracing and writing it, which takes half a minute")
    return export(voice, given.out)


def _main(arguments: list[str]) -> None:
    given = flags.FLAGS
    if len(arguments) > 1:
        raise UserError(f"{arguments[1]!r} is not a flag; the run is named with --checkpoint")
    for name in ("checkpoint", "out"):
        if not given[name].value:
            raise UserError(f"--{name} is missing")
    print(f"written to {_written(given)}")


if __name__ == "__main__":
    flags.DEFINE_string("checkpoint", None, "Directory of the training run, or a checkpoint in it.")
    flags.DEFINE_string("out", None, "New directory for the SavedModel.")
    flags.DEFINE_enum("vocoder", None, ["network", "griffin_lim"], "Default: the run's better one.")
    flags.DEFINE_enum(
        "format", "saved_model", ["saved_model", "xtts"], "saved_model, or the published layout."
    )
    flags.DEFINE_multi_string(
        "add_speaker", [], "NAME:a.wav,b.wav: a voice for speakers_xtts.pth, with --format=xtts."
    )
    run_command(_main)
