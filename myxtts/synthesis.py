"""Lets a trained voice speak.

    python -m myxtts.synthesis --checkpoint=RUN --text="Good morning." --speaker_wav=a.wav \\
        --language=en --out=out.wav

`--batch_file=lines.tsv` says many texts: a line is `name<TAB>text`, or with columns of its own
`name<TAB>text<TAB>language<TAB>a.wav,b.wav`; `--out` is then a directory, which gets name.wav.
`--stream` writes while it speaks; with `--out=-` or a name ending in .raw these are bare 16-bit
samples, little end first, for a player to read from a pipe.

`--checkpoint` may also be a directory with a published XTTS v2 (model.pth, config.json and
vocab.json). Then flags that are left out take their values from its config.json; `--speaker=NAME`
takes one of its own voices, and `--speed=1.2` speaks faster.

From Python: `myxtts.voice.Voice`, and `myxtts.xtts_v2.voice.PublishedVoice`.
"""

import dataclasses
import functools
import os
import sys
import time
from pathlib import Path

import numpy as np
from absl import flags, logging
from tqdm import tqdm

from myxtts import UserError, start_up
from myxtts.config import Speaking
from myxtts.corpus.wav import chunk_writer
from myxtts.user_errors import need_reference, run_command


@dataclasses.dataclass(frozen=True)
class Line:
    """One text to say, and where its recording goes."""

    out: Path
    text: str
    language: str
    references: tuple[str, ...]
    speaker: str | None = None  # a voice by name, where there are no references

    @property
    def voice(self) -> tuple:
        return self.references, self.speaker


def define_flags(into: flags.FlagValues = flags.FLAGS) -> None:
    """Not at import: other commands have flags of the same names."""
    text, number, whole = (
        functools.partial(define, flag_values=into)
        for define in (flags.DEFINE_string, flags.DEFINE_float, flags.DEFINE_integer)
    )
    text(
        "checkpoint",
        None,
        "Directory of the training run, or a checkpoint in it; or a published XTTS v2.",
    )
    text("text", None, "What to say.")
    text("language", None, "Language of the text; not needed where the voice has one.")
    text("out", "out.wav", "The recording; with --batch_file a directory.")
    text("batch_file", None, "File of texts: name, text[, language[, speaker_wav]].")
    flags.DEFINE_list(
        "speaker_wav", [], "Recordings of the voice, with commas between them.", flag_values=into
    )
    text("speaker", None, "A voice by its name, of those that a published XTTS v2 brings.")
    flags.DEFINE_bool(
        "stream", False, "Write while speaking; --out may be - or end in .raw.", flag_values=into
    )
    flags.DEFINE_enum(
        "vocoder",
        None,
        ["network", "griffin_lim"],
        "What makes the waveforms; default: the one that was better in the training.",
        flag_values=into,
    )
    number("temperature", Speaking.temperature, "Divides the logits; 0 takes the likeliest code.")
    whole("top_k", Speaking.top_k, "Only the k likeliest codes are drawn; 0: all.")
    number("top_p", Speaking.top_p, "Only the likeliest codes that have this share are drawn.")
    number(
        "repetition_penalty",
        Speaking.repetition_penalty,
        "Above 1 makes codes that were drawn before rarer.",
    )
    number(
        "length_penalty",
        Speaking.length_penalty,
        "Above 1 gives longer speech, below 1 shorter.",
    )
    number("pause", Speaking.pause, "Seconds of silence between sentences.")
    number("speed", 1.0, "How fast a published XTTS v2 speaks; not with --stream.")
    whole("seed", Speaking.seed, "The same seed says the same thing the same way.")


def main(arguments: list[str], given: flags.FlagValues = flags.FLAGS) -> None:
    if len(arguments) > 1:
        raise UserError(f"{arguments[1]!r} is not a flag; the text is given with --text")
    if not given.checkpoint:
        raise UserError("--checkpoint is missing; give the directory of a training run")
    if (given.text is None) == (given.batch_file is None):
        raise UserError("give either --text or --batch_file")
    if given.batch_file and given.stream:
        raise UserError("--stream says one --text; leave it out with --batch_file")
    lines = [_line_of_flags(given)] if given.batch_file is None else _read_lines(given)
    if given.speaker and given.speaker_wav:
        raise UserError("--speaker and --speaker_wav both name a voice; give one of them")
    for line in lines:
        _check_name(line.out, given.stream)
        if not any(letter.isalnum() for letter in line.text):
            raise UserError(f"the text {line.text!r} holds nothing to say; give words to speak")
        for reference in line.references:  # before the seconds that loading takes
            need_reference(reference)

    logging.info("loading the voice in %s", given.checkpoint)
    voice, speaking, options = _voice(given)
    start_up.as_usual()
    # Everything is checked before the first word is said.
    lines = [_with_language(line, voice) for line in lines]
    cloned = {line.voice: _cloned(voice, line) for line in {x.voice: x for x in lines}.values()}
    for line in lines:
        voice.sentences(line.text, line.language)
    logging.info("speaking; the first sentence takes some seconds longer, for tracing")
    for line in lines:
        try:
            line.out.parent.mkdir(parents=True, exist_ok=True)
            if given.stream:
                _stream(voice, line, speaking)
            else:
                _say(voice, line, cloned[line.voice], speaking=speaking, options=options)
        except OSError as error:
            raise UserError(f"{line.out} cannot be written: {error.strerror or error}") from None


def _voice(given) -> tuple:
    """The voice, how it speaks, and further arguments for speaking."""
    from myxtts.training.published_run import published_source

    source = published_source(given.checkpoint)
    names = [field.name for field in dataclasses.fields(Speaking)]
    if source is None:
        from myxtts.voice import Voice

        for name in ("speaker", "speed"):
            if given[name].present:
                raise UserError(
                    f"--{name} is for a published XTTS v2, which {given.checkpoint} is not; "
                    "leave it out"
                )
        speaking = Speaking(**{name: getattr(given, name) for name in names})
        return Voice.load(given.checkpoint, given.vocoder), speaking, {}
    from myxtts.xtts_v2.voice import PublishedVoice

    if given.vocoder not in (None, "network"):
        raise UserError("a published XTTS v2 has one vocoder; leave --vocoder out")
    if given.stream and given.speed != 1.0:
        raise UserError("--speed changes whole sentences; leave it out with --stream")
    voice = PublishedVoice.of(source)
    told = {name: getattr(given, name) for name in names if given[name].present}
    return voice, dataclasses.replace(voice.speaking, **told), {"speed": given.speed}


def _cloned(voice, line: Line):
    return voice.clone(line.references) if line.references else voice.speaker(line.speaker)


def pcm16(waveform: np.ndarray) -> bytes:
    """16-bit samples of a float waveform; what is louder than full scale is cut off there."""
    return np.round(np.clip(waveform, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()


def _say(voice, line: Line, cloned, *, speaking, options: dict) -> None:
    """Writes the speech sentence by sentence, so that the part so far can be played already."""
    start, samples = time.perf_counter(), 0
    count = len(voice.sentences(line.text, line.language))
    spoken = voice.spoken(line.text, line.language, cloned, speaking, **options)
    # Under another name: a recording that was there is replaced by a whole one only.
    partial = line.out.with_name(f"{line.out.stem}.partial.wav")
    try:
        bar = tqdm(desc=line.out.name, total=count, unit="sentence", disable=count < 2)
        with bar, chunk_writer(partial, voice.sample_rate) as write:
            for waveform in spoken:
                write(pcm16(waveform))
                samples += len(waveform)
                bar.update(bool(waveform.any()))  # a pause is silent
    except KeyboardInterrupt:
        print(f"stopped; what was said so far is in {partial}", file=sys.stderr)
        raise
    os.replace(partial, line.out)
    took = time.perf_counter() - start
    print(f"{line.out}: {samples / voice.sample_rate:.2f} s of speech in {took:.2f} s")


def _stream(voice, line: Line, speaking) -> None:
    voice.warm_up()
    start = time.perf_counter()
    cloned = _cloned(voice, line)
    cloning = time.perf_counter() - start
    if voice.vocoder != "network":
        logging.info("Griffin-Lim needs whole sentences: each is a chunk")
    with chunk_writer(line.out, voice.sample_rate) as write:
        start, first, samples = time.perf_counter(), None, 0
        for chunk in voice.stream(line.text, line.language, cloned, speaking):
            write(pcm16(chunk))
            samples += len(chunk)
            first = first or time.perf_counter() - start
        took = time.perf_counter() - start
    print(
        f"{line.out}: first chunk after {1000 * first:.0f} ms (the voice was cloned in "
        f"{1000 * cloning:.0f} ms before), {samples / voice.sample_rate:.2f} s of speech in "
        f"{took:.2f} s",
        file=sys.stderr if str(line.out) == "-" else sys.stdout,
    )


def _line_of_flags(given) -> Line:
    if not (given.speaker_wav or given.speaker):
        raise UserError("--speaker_wav is missing; give a recording of the voice, best of 3 to 6 s")
    wavs = tuple(given.speaker_wav)
    return Line(Path(given.out), given.text, given.language, references=wavs, speaker=given.speaker)


def _read_lines(given) -> list[Line]:
    """The texts of --batch_file, with the flags' language and voice where a line has none."""
    path = given.batch_file
    try:
        rows = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--batch_file={path} cannot be read: {error}") from None
    lines, names = [], set()
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        columns = [column.strip() for column in row.split("\t")]
        where = f"{path}, line {number}"
        if not 2 <= len(columns) <= 4:
            raise UserError(
                f"{where}: 2 to 4 columns with tabs between them are needed (name, text, language, "
                f"speaker_wav), found {len(columns)}"
            )
        name, text, language, references = [*columns, "", ""][:4]
        name = name.removesuffix(".wav")
        if not name or name in (".", "..") or "/" in name or os.sep in name or "\0" in name:
            raise UserError(f"{where}: {name!r} must be a file name without a directory")
        if name in names:
            raise UserError(f"{where}: the name {name!r} was given before")
        names.add(name)
        wavs = tuple(references.split(",")) if references else tuple(given.speaker_wav)
        if not (wavs or given.speaker):
            raise UserError(f"{where}: no voice; add a column, or give --speaker_wav for all")
        out, language = Path(given.out) / f"{name}.wav", language or given.language
        lines.append(Line(out, text, language, references=wavs, speaker=given.speaker))
    if not lines:
        raise UserError(f"--batch_file={path} holds no texts")
    return lines


def _with_language(line: Line, voice) -> Line:
    if line.language:
        return line
    if len(voice.languages) > 1:
        raise UserError(
            f"--language is missing; the voice speaks {', '.join(sorted(voice.languages))}"
        )
    return dataclasses.replace(line, language=voice.languages[0])


def _check_name(out: Path, stream: bool) -> None:
    if out.suffix != ".wav" and not (stream and (out.suffix == ".raw" or str(out) == "-")):
        raise UserError(f"--out={out} must end in .wav (with --stream also .raw, or be -)")


if __name__ == "__main__":
    define_flags()
    run_command(main)
