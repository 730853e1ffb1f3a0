"""Shared by the commands that evaluate a run: flags, and errors in one sentence."""

from collections.abc import Callable, Iterable
from pathlib import Path

from absl import flags, logging

from myxtts import UserError, start_up
from myxtts.config import Speaking
from myxtts.user_errors import run_command


def define_flags(run_flag: str, values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags; `run_flag` is the name of the flag that names the run. Not done at
    import, because other commands have flags of the same names."""
    for name, default, help_text in (
        (run_flag, None, "Directory of the training run, or a checkpoint in it."),
        (
            "recogniser_dir",
            "recogniser",
            "Where the recogniser and the judge of voices are kept; trained on first use.",
        ),
        ("prepared_dir", None, "Prepared corpus, if the run does not know it."),
        ("recogniser_model", None, "Directory of the model for --recogniser=whisper."),
        ("save_dir", None, "Directory to save the speech in, as WAV files with their texts."),
    ):
        flags.DEFINE_string(name, default, help_text, values)
    for name, default, help_text in (
        ("temperature", Speaking.temperature, "Divides the logits; 0 takes the likeliest code."),
        (
            "top_p",
            Speaking.top_p,
            "Only the likeliest codes with this total probability are drawn.",
        ),
        (
            "repetition_penalty",
            Speaking.repetition_penalty,
            "Above 1 makes repeated codes rarer.",
        ),
    ):
        flags.DEFINE_float(name, default, help_text, flag_values=values)
    for name, default, help_text in (
        ("sentences", 50, "How many sentences to say."),
        ("top_k", Speaking.top_k, "Only the k likeliest codes are drawn; 0: all."),
        ("seed", Speaking.seed, "The same seed gives the same speech."),
    ):
        flags.DEFINE_integer(name, default, help_text, flag_values=values)
    flags.DEFINE_enum(
        "recogniser",
        "own",
        ["own", "moonshine", "whisper"],
        "The recogniser: a small network of our own, the English one in PyPI's "
        "moonshine-voice 0.1.0, or faster-whisper with --recogniser_model.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "judge",
        "own",
        ["own", "resemblyzer"],
        "Who tells voices apart: a small network of our own, trained on espeak-ng's voices, or the "
        "one in PyPI's resemblyzer, trained on people's.",
        flag_values=values,
    )
    flags.DEFINE_multi_enum(
        "sentences_of",
        ["corpus"],
        ["corpus", "people"],
        "The sentences: new ones like those of the embedded corpus, or English ones as people type "
        "them; give the flag twice for both.",
        flag_values=values,
    )
    vocoders = ["network", "griffin_lim"]
    help_text = "Default: the better one for this run."
    flags.DEFINE_enum("vocoder", None, vocoders, help_text, flag_values=values)


def evaluation_of_flags(run_flag: str, given: flags.FlagValues = flags.FLAGS):
    """The `report.Evaluation` that the flags ask for."""
    path = given[run_flag].value
    if not path:
        raise UserError(f"--{run_flag} is missing; give the directory of a training run")
    if given.sentences < 1:
        raise UserError(f"--sentences must be 1 or more, got {given.sentences}")
    from myxtts.evaluation.report import Evaluation
    from myxtts.evaluation.run_corpus import run_corpus
    from myxtts.training.run_directory import RunDirectory
    from myxtts.voice import Voice

    run = RunDirectory.holding(path)
    logging.info("loading the voice in %s and its corpus", run.path)
    training, held_out = run_corpus(run, given.prepared_dir)
    voice = Voice.load(path, given.vocoder)
    start_up.as_usual()
    names = ("temperature", "top_k", "top_p", "repetition_penalty", "seed")
    return Evaluation(
        run,
        voice=voice,
        training=training,
        held_out=held_out,
        recogniser_dir=Path(given.recogniser_dir).absolute(),
        recogniser=given.recogniser,
        recogniser_model=given.recogniser_model,
        judge=given.judge,
        sentences_of=tuple(given.sentences_of),
        speaking=Speaking(**{name: given[name].value for name in names}),
        save_dir=given.save_dir and Path(given.save_dir).absolute(),
    )


def run(main: Callable[[], Iterable[str]]) -> None:
    """Parses the flags and prints the lines of `main` as they come."""

    def print_lines(arguments: list[str]) -> None:
        if len(arguments) > 1:
            raise UserError(f"{arguments[1]!r} is not a flag; see --help")
        for line in main():
            print(line, flush=True)

    run_command(print_lines, stopped="stopped; what was trained and recorded so far is kept")
