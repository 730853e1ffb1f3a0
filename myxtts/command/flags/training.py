"""Flags of the networks and of their training, with those of every registered stage."""

from myxtts.command.flags.table import Flag
from myxtts.model.config import SIZES
from myxtts.training.config import PRECISIONS, SCHEDULES, StageConfig, TrainConfig
from myxtts.training.stages import STAGES, stage_names
from myxtts.xtts_v2.new_language import TOKENS
from myxtts.xtts_v2.sizes import CROPS, LEFT_OUT, PADDINGS, Objective, SoundObjective


def _by_stage(field: str) -> str:
    values = {name: getattr(stage.learning, field) for name, stage in STAGES.items()}
    return ", ".join(f"{stage} {value:g}" for stage, value in values.items())


MODEL = (
    Flag(
        "init_from", "text", None,
        "Start from these weights: a directory with a published XTTS v2, a run, or a checkpoint "
        "of one.",
        when="To fine-tune. Corpus, steps and everything else are the new run's own.",
        unit="DIR", chosen="weights are random",
    ),
    Flag(
        "model_size", tuple(SIZES), "tiny",
        "The size of all networks.",
        when="tiny for CPUs, small from 6 GB of GPU memory, normal from 12; xtts_v2, the published "
        "networks from random weights, from 24. docs/voice.md has a table.",
    ),
    Flag(
        "model_config", "text", None,
        "A JSON file with the networks' sizes, instead of --model_size.",
        when="Start from the \"model\" part of a run's config.json.",
        unit="FILE", chosen="none",
    ),
    Flag(
        "dropout", "number", None,
        "Dropout in the GPT and its conditioning.",
        when="Raise it if the held-out loss rises while the training loss falls.",
        sets="model_gpt.dropout", unit="SHARE", chosen="by size: 0 for tiny, else 0.1",
    ),
)

FINE_TUNING = (
    Flag(
        "trainable", ("all", "adapters"), "all",
        "all: every weight of GPT and conditioning. adapters: low-rank changes of their matrices.",
        when="adapters if memory is short or there are only minutes of speech.",
    ),
    Flag(
        "adapter_rank", "whole", 16,
        "Rank of the adapters.",
        when="More for more speech.",
        least=1,
    ),
    Flag(
        "recompute", "switch", TrainConfig.recompute,
        "Recompute the tensors inside the GPT's layers in the backward pass.",
        when="If memory is short; a step takes a third longer.",
        sets="train.recompute",
    ),
    Flag(
        "add_language", "text", None,
        "Teach one more language: tokens for it are learnt from its clips.",
        when="For a language that the model has no tag for.",
        unit="CODE", chosen="no language is added",
    ),
    Flag(
        "add_language_tokens", "whole", TOKENS,
        "The most tokens that --add_language may learn.",
        when="Others found 2,000 the best of 2,000 to 5,000.",
        least=0,
    ),
    Flag(
        "shared_merges", "switch", False,
        "Tokens of --add_language may also consist of letters that other languages use. That "
        "changes how some texts in those languages are read; a message says how many.",
        when="For a language without letters of its own.",
    ),
    Flag(
        "keep_data", "text", None,
        "A corpus in languages that the model has, and its share of the clips: old_voices:0.2.",
        when="To prevent forgetting, mostly with --add_language.",
        unit="DIR:SHARE", chosen="nothing is mixed in",
    ),
    Flag(
        "crop", CROPS, Objective.crop,
        "Where the voice comes from: a crop of the same clip, as published, or of another one.",
        when="other_clip if there are several clips of every speaker.",
        sets="objective.crop",
    ),
    Flag(
        "left_out", LEFT_OUT, Objective.left_out,
        "Codes that are not targets because the crop of the same clip contains them: a stretch "
        "of a batch's last row, as published; those of every row; or none.",
        sets="objective.left_out",
    ),
    Flag(
        "padding", PADDINGS, Objective.padding,
        "What follows a clip or crop, unmasked: silence, as published, or its mirror image.",
        when="mirrored if clips are shorter than 3 s.",
        sets="objective.padding",
    ),
    Flag(
        "stop_targets", "whole", Objective.stop_targets,
        "The number of stop codes after the last code in the targets; published: 4.",
        sets="objective.stop_targets",
    ),
    Flag(
        "text_stop_seen", "switch", Objective.text_stop_seen,
        "Whether audio sees the stop of the text in training, as in synthesis; published: no.",
        sets="objective.text_stop_seen",
    ),
    Flag(
        "segment_hops", "whole", SoundObjective.segment_hops,
        "Hops of 256 samples that the HiFi-GAN's training cuts out of each clip.",
        when="Lower it if --stage=vocoder runs out of memory.",
        sets="sound.segment_hops", unit="HOPS",
    ),
    Flag(
        "critic_width", "whole", SoundObjective.critic_width,
        "Channels of the first layers of the HiFi-GAN's discriminators; published: 32.",
        when="16 if --stage=vocoder runs out of memory.",
        sets="sound.critic_width", unit="CHANNELS",
    ),
    Flag(
        "critics_from_step", "whole", SoundObjective.critics_from_step,
        "The step from which the HiFi-GAN learns from its discriminators, which learn before.",
        when="A few hundred, so that random discriminators do not spoil good weights.",
        sets="sound.critics_from_step", unit="STEP",
    ),
)


def how_long() -> tuple[Flag, ...]:
    return (
        Flag(
            "epochs", "whole", None,
            "Passes over the corpus, in every stage.",
            when="For a corpus of your own; see in the report where the held-out loss is lowest.",
            sets="train.epochs",
            chosen="100 with --train_data and no other limit, else none",
        ),
        Flag(
            "max_steps", "whole", None,
            "Steps of all stages together.",
            when="For comparisons between settings.",
            sets="train.max_steps", unit="STEPS",
        ),
        Flag(
            "max_minutes", "number", None,
            "Time of all stages together; what a stage leaves over goes to the next ones.",
            when="Set it if time is limited; it can be raised when a run is continued.",
            sets="train.max_minutes", unit="MINUTES",
            chosen="10 without --train_data and other limits, else none",
        ),
        Flag(
            "patience", "whole", None,
            "A stage ends after this many evaluations without a better one.",
            when="5 to 10 for long runs on small corpora.",
            sets="train.patience", unit="EVALUATIONS",
        ),
        Flag(
            "stage", "list", None,
            f"Which stages to train, of {', '.join(stage_names())}, or all; what is done is "
            "skipped. Of a published XTTS v2 the tokenizer is the DVAE, the vocoder the HiFi-GAN.",
            when="A single stage needs the ones before it in the same run directory.",
            unit="STAGE,STAGE", chosen="all; from published weights gpt",
        ),
        *(
            Flag(
                f"{name}_share", "number", stage.learning.share,
                f"The {name} stage's share of --max_minutes or --max_steps.",
                when="Raise it for the stage whose samples sound worst.",
                sets=f"{name}.share", unit="SHARE",
            )
            for name, stage in STAGES.items()
        ),
    )


def optimisation() -> tuple[Flag, ...]:
    return (
        Flag(
            "lr", "number", None,
            "Peak learning rate of every stage without one of its own.",
            when="A tenth for fine-tuning; less if the loss jumps about.",
            sets="stages.learning_rate", unit="RATE",
            chosen=f"{_by_stage('learning_rate')}; less for larger sizes",
        ),
        *(
            Flag(
                f"{name}_lr", "number", None,
                f"Peak learning rate of the {name} stage.",
                sets=f"{name}.learning_rate", unit="RATE", chosen="--lr",
            )
            for name in stage_names()
        ),
        *(
            Flag(
                f"{name}_batch_size", "whole", stage.learning.batch_size,
                f"Clips in a batch of the {name} stage.",
                when="Lower for the one stage that runs out of memory.",
                sets=f"{name}.batch_size", unit="CLIPS", chosen="--batch_size",
            )
            for name, stage in STAGES.items()
        ),
        Flag(
            "grad_accum", "whole", TrainConfig.grad_accum,
            "Batches whose gradients are averaged before the weights change.",
            when="Raise it if you need a smaller --batch_size: their product should stay the same.",
            sets="train.grad_accum", unit="BATCHES",
        ),
        Flag(
            "schedule", SCHEDULES, None,
            "How the learning rate falls after its warm-up.",
            when="noam or constant if the end of the run is not known.",
            sets="stages.schedule", chosen=StageConfig.schedule,
        ),
        Flag(
            "lr_warm_up_steps", "whole", None,
            "Steps until the learning rate is reached.",
            when="More for large models and large rates.",
            sets="stages.warm_up_steps", unit="STEPS", chosen=_by_stage("warm_up_steps"),
        ),
        Flag(
            "weight_decay", "number", None,
            "Weight decay of AdamW.",
            when="More for small corpora.",
            sets="stages.weight_decay", unit="DECAY", chosen=_by_stage("weight_decay"),
        ),
        Flag(
            "beta_2", "number", None,
            "Decay of AdamW's mean of squared gradients.",
            when="Nearer to 1 for long runs with small batches.",
            sets="stages.beta_2", unit="DECAY", chosen=_by_stage("beta_2"),
        ),
        Flag(
            "clip_norm", "number", None,
            "Gradients with a larger norm are scaled down to it.",
            when="Lower if the report shows jumps of the gradient norm.",
            sets="stages.clip_norm", unit="NORM", chosen=_by_stage("clip_norm"),
        ),
        Flag(
            "ema", "number", None,
            "Decay of the moving average of the weights, which is used in evaluations; 0 for none.",
            when="Lower for short runs, 0.9999 for long ones.",
            sets="stages.ema", unit="DECAY", chosen=_by_stage("ema"),
        ),
        Flag(
            "tokenizer_frames", "whole", TrainConfig.tokenizer_frames,
            "Mel frames that the tokenizer's stage cuts out of each clip; 86 are a second.",
            when="Lower it if that stage runs out of memory.",
            sets="train.tokenizer_frames", unit="FRAMES",
        ),
        Flag(
            "speaker_frames", "whole", TrainConfig.speaker_frames,
            "Mel frames from which the speaker encoder learns a voice.",
            when="Lower it if most clips are shorter.",
            sets="train.speaker_frames", unit="FRAMES",
        ),
        Flag(
            "precision", PRECISIONS, TrainConfig.precision,
            "Number format of the networks. auto: bfloat16 on GPUs and processors that multiply "
            "it, float16 with loss scaling on other GPUs, else float32; a run keeps the one it "
            "began with.",
            when="float32 if you suspect rounding errors.",
            sets="train.precision",
        ),
        Flag(
            "steps_per_call", "whole", TrainConfig.steps_per_call,
            "Steps of one call of the compiled loop.",
            when="1 to time every step separately, more if steps are shorter than 10 ms.",
            sets="train.steps_per_call", unit="STEPS",
        ),
        Flag(
            "max_skipped", "whole", TrainConfig.max_skipped,
            "The run ends after this many steps in a row whose gradients are not finite.",
            sets="train.max_skipped", unit="STEPS",
        ),
        Flag(
            "seed", "whole", TrainConfig.seed,
            "Seed of all randomness.",
            when="Change it to see how much of a difference is due to chance.",
            sets="train.seed",
        ),
        Flag(
            "deterministic", "switch", TrainConfig.deterministic,
            "TensorFlow's deterministic ops: bit-equal runs on GPUs too.",
            when="For comparisons; slower on GPUs.",
            sets="train.deterministic",
        ),
    )
