"""Prepares a corpus: python -m myxtts.corpus --train_data=DIR

python -m myxtts.corpus cut --recordings=DIR --out=CORPUS makes one from raw recordings (`cutting`).
"""

import os
import sys

from absl import app, flags, logging

from myxtts import UserError, start_up
from myxtts.command import console
from myxtts.config import PrepareConfig
from myxtts.corpus import embedded
from myxtts.corpus.prepare import Source, prepare
from myxtts.user_errors import parse_or_exit

FLAGS = flags.FLAGS
flags.DEFINE_string("train_data", None, "Directory of the corpus. Without it, one is made.")
flags.DEFINE_string("format", "auto", "Corpus format, if it is not recognised.")
flags.DEFINE_string("metadata", None, "Metadata file inside the corpus, if it is not found.")
flags.DEFINE_string("audio_dir", None, "Folder of the audio inside the corpus, if it is not found.")
flags.DEFINE_string("language", "en", "Language of clips whose metadata names none.")
flags.DEFINE_string("speaker", None, "Speaker of clips whose metadata names none.")
flags.DEFINE_string("prepared_dir", None, "Where to put the result; default: inside the corpus.")
flags.DEFINE_integer(
    "workers", None, "Number of processes that check clips; default: one per core."
)
flags.DEFINE_float("min_seconds", 0.3, "Shorter clips are rejected.")
flags.DEFINE_float("max_seconds", 20.0, "Longer clips are rejected.")
flags.DEFINE_float(
    "max_rejected", 0.2, "The largest share of bad clips to accept.", lower_bound=0, upper_bound=1
)
flags.DEFINE_float(
    "trim_silence", None, "Trim silence, which is this many dB below the peak, from both ends."
)
flags.DEFINE_float("loudness", None, "Bring every clip to this loudness, in dBFS (RMS).")
_EMBEDDED = embedded.EmbeddedConfig()
flags.DEFINE_string(
    "embedded_dir", "embedded_corpus", "Where to make the corpus when there is no --train_data."
)
flags.DEFINE_float("embedded_minutes", _EMBEDDED.minutes, "How much speech to make.", 0.1)
flags.DEFINE_integer("embedded_voices", _EMBEDDED.voices, "How many voices speak it.", 1)
flags.DEFINE_list(
    "embedded_languages", list(_EMBEDDED.languages), f"Of: {', '.join(embedded.LANGUAGES)}."
)
flags.DEFINE_integer("seed", 0, "Seed of the corpus to make.", 0)


flags.DEFINE_string("recordings", None, "With cut: directory of recordings of any length.")
flags.DEFINE_string("out", None, "With cut: new directory for the corpus.")
flags.DEFINE_enum(
    "recogniser",
    "moonshine",
    ["own", "moonshine", "whisper"],
    "With cut: the recogniser that writes the texts.",
)
flags.DEFINE_string("recogniser_dir", "recogniser", "With cut: where our own recogniser is kept.")
flags.DEFINE_string("recogniser_model", None, "With cut: the model of --recogniser=whisper.")


def main(arguments: list[str]) -> None:
    if arguments[1:] == ["cut"]:
        print(_cut())
        return
    for name in ("recordings", "out"):
        if FLAGS[name].present:
            raise UserError(f"--{name} is of `python -m myxtts.corpus cut`; write cut before it")
    if len(arguments) > 1:
        raise UserError(f"{arguments[1]!r} is not a flag; the corpus is named with --train_data")
    if FLAGS.train_data is None:
        settings = embedded.EmbeddedConfig(
            minutes=FLAGS.embedded_minutes,
            voices=FLAGS.embedded_voices,
            languages=tuple(FLAGS.embedded_languages),
            seed=FLAGS.seed,
        )
        logging.info("no --train_data: making %s in %s", settings.describe(), FLAGS.embedded_dir)
        directory = embedded.make(FLAGS.embedded_dir, settings, workers=FLAGS.workers)
        source = Source(directory)
    else:
        source = Source(
            FLAGS.train_data,
            format=FLAGS.format,
            metadata=FLAGS.metadata,
            audio_dir=FLAGS.audio_dir,
            language=FLAGS.language,
            speaker=FLAGS.speaker,
        )
    settings = PrepareConfig(
        min_seconds=FLAGS.min_seconds,
        max_seconds=FLAGS.max_seconds,
        trim_silence_db=FLAGS.trim_silence,
        loudness_dbfs=FLAGS.loudness,
    )
    prepared, summary = prepare(
        source,
        settings,
        FLAGS.prepared_dir,
        workers=FLAGS.workers,
        max_rejected=FLAGS.max_rejected,
    )
    print(f"{summary}\nprepared in {prepared}")


def _cut() -> str:
    for name in ("recordings", "out"):
        if not FLAGS[name].value:
            raise UserError(f"--{name} is missing; cut needs --recordings=DIR and --out=DIR")
    if not os.path.isdir(FLAGS.recordings):
        raise UserError(f"--recordings={FLAGS.recordings} is no directory")
    print(f"loading the recogniser {FLAGS.recogniser}", file=sys.stderr)
    from myxtts.corpus.cutting import cut
    from myxtts.evaluation.other_recognisers import recogniser_named

    start_up.as_usual()
    recogniser = recogniser_named(
        FLAGS.recogniser,
        language=FLAGS.language,
        directory=FLAGS.recogniser_dir,
        model=FLAGS.recogniser_model,
    )
    done = cut(
        FLAGS.recordings, FLAGS.out, recogniser, language=FLAGS.language, speaker=FLAGS.speaker
    )
    return f"{done}\nin {FLAGS.out}; train with: python train.py --train_data={FLAGS.out}"


def _run(arguments: list[str]) -> None:
    console.set_up()
    if arguments[1:] != ["cut"]:
        start_up.as_usual()  # bars follow; no TensorFlow is loaded
    try:
        main(arguments)
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from here")


if __name__ == "__main__":
    start_up.quieten()
    try:
        app.run(_run, flags_parser=parse_or_exit)
    finally:
        start_up.as_usual()
