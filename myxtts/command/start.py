"""--init_from: the weights that training starts from; without it the sizes of random ones; and the
flags that go with either."""

from myxtts import UserError
from myxtts.command.flags import groups
from myxtts.config import load_config
from myxtts.model.config import SIZES, ModelConfig, new_xtts_v2
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import in_order, stage_names
from myxtts.training.start import Start, begun_from, start_of
from myxtts.xtts_v2.networks import check_published

# Flags for published weights that say nothing about training them from nothing.
_ONLY_FROM_WEIGHTS = {"trainable", "adapter_rank", "keep_data"}
_ONLY_FROM_WEIGHTS |= {"add_language", "add_language_tokens", "shared_merges"}


def what_is_started_from(values, given: frozenset[str], mistakes: list[str]) -> Start | None:
    """The directory that --init_from names; refuses flags that do not go with it."""
    run = RunDirectory(values.checkpoint_dir)
    if values.init_from is None:
        if begun := begun_from(run):
            mistakes.append(
                f"{run.path} was begun with --init_from={begun}: give it again, or another "
                "--checkpoint_dir"
            )
        start = None
    else:
        try:
            start = start_of(values.init_from, run)
            if start.source is not None:
                check_published(start.source)
        except UserError as error:
            mistakes.append(f"--init_from: {error}")
            return None
    if start is None:
        return None
    args = start.model.xtts_v2 and start.model.xtts_v2.args
    of = f"{args.gpt_layers} layers of {args.gpt_n_model_channels} channels" if args else "its own"
    for name in ("model_size", "model_config"):
        if name in given:
            mistakes.append(
                f"--{name}={values[name].value} does not go with --init_from, whose sizes count "
                f"({of}): leave it out"
            )
    for name in ("vocabulary", "vocabulary_size", "phonemes"):
        if name in given:
            mistakes.append(f"--{name} does not go with --init_from, which has a vocabulary")
    return start


def sizes_asked_for(values, mistakes: list[str]) -> ModelConfig:
    """The sizes of networks that begin with random weights: --model_size or --model_config."""
    model = SIZES[values.model_size]
    if values.model_config is None:
        return model
    if values["model_size"].present:
        mistakes.append("--model_size and --model_config both give the sizes: give one")
    try:
        model = load_config(ModelConfig, values.model_config)
        return model if model.xtts_v2 is None else new_xtts_v2(model)
    except UserError as error:
        mistakes.append(f"--model_config: {error}")
        return model


def refuse_flags_of_others(
    values, start: Start | None, mistakes: list[str], *, form: str, given: frozenset[str]
) -> None:
    """Adds the flags that were given and have no effect with these networks."""
    if form == "own":
        mistakes += [
            f"--{name} is for training from a published XTTS v2: give --init_from, or leave it out"
            for name in sorted({flag.name for flag in groups()["From published weights"]} & given)
        ]
    elif start is None:
        mistakes += [
            f"--{name} is for training from published weights, and these networks begin with "
            "random ones: give --init_from, or leave it out"
            for name in sorted(_ONLY_FROM_WEIGHTS & given)
        ]
        if values.phonemes:
            mistakes.append("--phonemes is not of XTTS v2, which reads letters: leave it out")


def stages_to_train(asked: list[str] | None, form: str, mistakes: list[str]) -> tuple[str, ...]:
    """All stages by default; from published weights the GPT's."""
    known = stage_names(form)
    if asked is None:
        return ("gpt",) if form == "xtts_v2" else known
    if asked == ["all"]:
        return known
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        mistakes.append(
            f"--stage={','.join(asked)}: these networks have the stages {', '.join(known)}; give "
            "some of them with commas between, or all"
        )
        return known
    return in_order(asked, form)
