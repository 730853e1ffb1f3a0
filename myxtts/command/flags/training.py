"""Flags of the networks and of their training; every stage there is has its own."""

from myxtts.command.flags.table import Flag
from myxtts.model.config import SIZES
from myxtts.training.config import PRECISIONS, SCHEDULES, StageConfig, TrainConfig
from myxtts.training.stages import STAGES, stage_names
from myxtts.xtts_v2.new_language import TOKENS
from myxtts.xtts_v2.sizes import CROPS, LEFT_OUT, PADDINGS, Objective


def _by_stage(field: str) -> str:
    values = {name: getattr(stage.learning, field) for name, stage in STAGES.items()}
    return ", ".join(f"{stage} {value:g}" for stage, value in values.items())


MODEL = (
    Flag(
        "init_from", "text", None,
        "Start from these weights: a directory with a published XTTS v2, a run, or a checkpoint "
        "of one.",
        "To fine-tune. Corpus, steps and all else are the new run's own.",
        "", "DIR", "weights are random",
    ),
    Flag(
        "model_size", tuple(SIZES), "tiny",
        "Size of all networks.",
        "tiny for CPUs, small from about 6 GB of GPU memory, normal from 12, big from 24; see the "
        "table in the README.",
    ),
    Flag(
        "model_config", "text", None,
        "A JSON file of the networks' sizes, in the place of --model_size.",
        "Start from the \"model\" part of a run's config.json.",
        "", "FILE", "none",
    ),
    Flag(
        "dropout", "number", None,
        "Dropout in the GPT and its conditioning.",
        "Raise it where the held-out loss rises while the training loss falls.",
        "model_gpt.dropout", "SHARE", "that of the size: 0 for tiny, else 0.1",
    ),
)

FINE_TUNING = (
    Flag(
        "trainable", ("all", "adapters"), "all",
        "all: every weight of GPT and conditioning. adapters: low-rank changes of their matrices.",
        "adapters where memory is short or there are only minutes of speech.",
    ),
    Flag(
        "adapter_rank", "whole", 16,
        "Rank of the adapters.",
        "More for more speech.",
        least=1,
    ),
    Flag(
        "recompute", "switch", TrainConfig.recompute,
        "Make the tensors inside the GPT's layers again for the backward pass.",
        "Where memory is short: a step takes a third longer.",
        "train.recompute",
    ),
    Flag(
        "add_language", "text", None,
        "Teach one more language: tokens for it are learnt from its clips.",
        "For a language that the model has no tag for.",
        "", "CODE", "no language is added",
    ),
    Flag(
        "add_language_tokens", "whole", TOKENS,
        "At most how many tokens --add_language learns.",
        "2,000 is what others found best of 2,000 to 5,000.",
        least=0,
    ),
    Flag(
        "shared_merges", "switch", False,
        "Tokens of --add_language may also be made of letters that old languages have: their texts "
        "are read otherwise then, how many is said.",
        "For a language without letters of its own.",
    ),
    Flag(
        "keep_data", "text", None,
        "A corpus in languages that the model has, and its share of the clips: old_voices:0.2.",
        "Against forgetting, mostly with --add_language.",
        "", "DIR:SHARE", "nothing is mixed in",
    ),
    Flag(
        "crop", CROPS, Objective.crop,
        "Where the voice comes from: a crop of the very clip, as published, or of another one.",
        "other_clip where there are several clips of every speaker.",
        "objective.crop",
    ),
    Flag(
        "left_out", LEFT_OUT, Objective.left_out,
        "Codes that are no targets because the crop of the same clip gives them away: a stretch of "
        "a batch's last row, as published; the heard codes of every row; or none.",
        "",
        "objective.left_out",
    ),
    Flag(
        "padding", PADDINGS, Objective.padding,
        "What the networks hear behind a clip and a crop: silence, as published, or its mirror "
        "image.",
        "mirrored where clips are shorter than 3 s.",
        "objective.padding",
    ),
    Flag(
        "stop_targets", "whole", Objective.stop_targets,
        "How many stops follow the last code as targets; published: 4.",
        "",
        "objective.stop_targets",
    ),
    Flag(
        "text_stop_seen", "switch", Objective.text_stop_seen,
        "Whether audio sees the text's stop in training, as it does in synthesis; published: no.",
        "",
        "objective.text_stop_seen",
    ),
)


def how_long() -> tuple[Flag, ...]:
    return (
        Flag(
            "epochs", "whole", None,
            "Passes over the corpus, in every stage.",
            "For a corpus of your own; see the report for when the held-out loss stopped falling.",
            "train.epochs", "",
            "100 with --train_data and no other limit, else none",
        ),
        Flag(
            "max_steps", "whole", None,
            "Steps of all stages together.",
            "For comparisons between settings.",
            "train.max_steps", "STEPS",
        ),
        Flag(
            "max_minutes", "number", None,
            "Time of all stages together; what a stage leaves over goes to the next ones.",
            "Set it where the time is given; it can be raised when a run is continued.",
            "train.max_minutes", "MINUTES",
            "10 without --train_data and other limits, else none",
        ),
        Flag(
            "patience", "whole", None,
            "A stage ends after this many evaluations without a better one.",
            "5 to 10 for long runs on small corpora.",
            "train.patience", "EVALUATIONS",
        ),
        Flag(
            "stage", ("all", *stage_names()), "all",
            "Which part to train; one that is done is skipped.",
            "A single stage needs the ones before it in the same run directory.",
        ),
        *(
            Flag(
                f"{name}_share", "number", stage.learning.share,
                f"The {name} stage's share of --max_minutes or --max_steps.",
                "Raise it for the part whose samples sound worst.",
                f"{name}.share", "SHARE",
            )
            for name, stage in STAGES.items()
        ),
    )


def optimisation() -> tuple[Flag, ...]:
    return (
        Flag(
            "lr", "number", None,
            "Peak learning rate of every stage that has none of its own.",
            "A tenth for fine-tuning; less where the loss jumps about.",
            "stages.learning_rate", "RATE",
            f"{_by_stage('learning_rate')}; less for larger sizes",
        ),
        *(
            Flag(
                f"{name}_lr", "number", None,
                f"Peak learning rate of the {name} stage.",
                "",
                f"{name}.learning_rate", "RATE", "--lr",
            )
            for name in stage_names()
        ),
        *(
            Flag(
                f"{name}_batch_size", "whole", stage.learning.batch_size,
                f"Clips in a batch of the {name} stage.",
                "Lower for the one stage that runs out of memory.",
                f"{name}.batch_size", "CLIPS", "--batch_size",
            )
            for name, stage in STAGES.items()
        ),
        Flag(
            "grad_accum", "whole", TrainConfig.grad_accum,
            "Batches whose gradients are added up before the weights change.",
            "Raise it where a smaller --batch_size is needed: their product should stay.",
            "train.grad_accum", "BATCHES",
        ),
        Flag(
            "schedule", SCHEDULES, None,
            "How the learning rate falls after its warm-up.",
            "noam or constant where the end of the run is not known.",
            "stages.schedule", "", StageConfig.schedule,
        ),
        Flag(
            "lr_warm_up_steps", "whole", None,
            "Steps until the learning rate is reached.",
            "More for large models and large rates.",
            "stages.warm_up_steps", "STEPS", _by_stage("warm_up_steps"),
        ),
        Flag(
            "weight_decay", "number", None,
            "Weight decay of AdamW.",
            "More for small corpora.",
            "stages.weight_decay", "DECAY", _by_stage("weight_decay"),
        ),
        Flag(
            "beta_2", "number", None,
            "Decay of AdamW's mean of squared gradients.",
            "Nearer to 1 for long runs with small batches.",
            "stages.beta_2", "DECAY", _by_stage("beta_2"),
        ),
        Flag(
            "clip_norm", "number", None,
            "Gradients with a larger norm are scaled down to it.",
            "Lower where the report shows jumps of the gradient norm.",
            "stages.clip_norm", "NORM", _by_stage("clip_norm"),
        ),
        Flag(
            "ema", "number", None,
            "Decay of the moving average of the weights, which is what is evaluated; 0 for none.",
            "Lower for short runs, 0.9999 for long ones.",
            "stages.ema", "DECAY", _by_stage("ema"),
        ),
        Flag(
            "tokenizer_frames", "whole", TrainConfig.tokenizer_frames,
            "Mel frames that the tokenizer's stage cuts out of each clip; 86 are a second.",
            "Lower it where that stage runs out of memory.",
            "train.tokenizer_frames", "FRAMES",
        ),
        Flag(
            "speaker_frames", "whole", TrainConfig.speaker_frames,
            "Mel frames from which the speaker encoder learns a voice.",
            "Lower it where most clips are shorter.",
            "train.speaker_frames", "FRAMES",
        ),
        Flag(
            "precision", PRECISIONS, TrainConfig.precision,
            "Number format of the networks. auto: bfloat16 on GPUs and processors that multiply "
            "it, float16 with loss scaling on other GPUs, else float32; a run keeps the one it "
            "began with.",
            "float32 where you suspect rounding.",
            "train.precision",
        ),
        Flag(
            "steps_per_call", "whole", TrainConfig.steps_per_call,
            "Steps of one call of the compiled loop.",
            "1 to have every step timed apart, more where steps are shorter than 10 ms.",
            "train.steps_per_call", "STEPS",
        ),
        Flag(
            "max_skipped", "whole", TrainConfig.max_skipped,
            "The run ends after this many steps in a row whose gradients are not finite.",
            "",
            "train.max_skipped", "STEPS",
        ),
        Flag(
            "seed", "whole", TrainConfig.seed,
            "Seed of everything random.",
            "Change it to see how much of a difference is chance.",
            "train.seed",
        ),
        Flag(
            "deterministic", "switch", TrainConfig.deterministic,
            "TensorFlow's deterministic ops: bit-equal runs on GPUs too.",
            "For comparisons; slower on GPUs.",
            "train.deterministic",
        ),
    )
