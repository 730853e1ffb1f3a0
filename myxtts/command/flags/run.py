"""Flags of the devices, of the run directory, and of what to do instead of training."""

from absl import flags

from dual_device_strategy import command
from myxtts.command.flags.table import Flag
from myxtts.training.config import TrainConfig

STRATEGIES = ("split", "one_device", "mirrored", "multi_worker")



def _device_flags() -> tuple[Flag, ...]:
    """The device flags that all commands share, as `dual_device_strategy.command` defines them."""
    shared = flags.FLAGS.flags_by_module_dict()[command.__name__]
    return tuple(Flag(flag.name, _kind(flag), flag.default, flag.help) for flag in shared)


def _kind(flag: flags.Flag) -> str:
    kind = flag.flag_type()
    return "whole" if kind == "int" else kind


DEVICES = (
    Flag(
        "strategy", STRATEGIES, "split",
        "split: batches are prepared on the data devices while the model devices train. "
        "multi_worker: the same on several machines, which TF_CONFIG names. one_device and "
        "mirrored: TensorFlow's own strategies on the model devices, features made by the host. "
        "Losses are the same.",
        when="one_device if the profile says that a second device saves nothing; mirrored or "
        "--shares if it says that all devices should train.",
    ),
    *_device_flags(),
    Flag(
        "slots", "text", "4",
        "The most batches that may exist beyond the host; auto chooses anew in every epoch.",
        when="5 to 8, or auto, if step times vary; 2 or 3 if memory is short.",
        unit="N|auto",
    ),
    Flag(
        "data_service", "text", None,
        "The dispatcher of a tf.data service whose workers read the clips, see python -m "
        "dual_device_strategy.data_service; they must see the same files. A run that is stopped "
        "cannot be continued exactly then. Under multi_worker all workers share it.",
        when="If this host cannot read clips as fast as the devices take them.",
        sets="train.data_service", unit="HOST:PORT", chosen="none: this host reads",
    ),
    Flag(
        "warm_up", "switch", False,
        "Fill the slots before the first step.",
        when="To keep the filling out of measured times.",
    ),
)

RUN = (
    Flag(
        "checkpoint_dir", "text", "runs/voice",
        "The run directory: settings, checkpoints, samples, events and the report.",
        when="One for each run; the same one, with the same flags, continues a run.",
        unit="DIR",
    ),
    Flag(
        "log_steps", "whole", TrainConfig.log_steps,
        "Steps between two records of the losses.",
        sets="train.log_steps", unit="STEPS",
    ),
    Flag(
        "evaluate_steps", "whole", TrainConfig.evaluate_steps,
        "Steps between two evaluations on held-out clips.",
        when="More for long runs with long steps.",
        sets="train.evaluate_steps", unit="STEPS",
    ),
    Flag(
        "evaluation_clips", "whole", TrainConfig.evaluation_clips,
        "The number of held-out clips in an evaluation.",
        when="More if the held-out loss jumps from one evaluation to the next.",
        sets="train.evaluation_clips", unit="CLIPS",
    ),
    Flag(
        "sample_steps", "whole", TrainConfig.sample_steps,
        "Steps between two sets of samples: pictures of mels, spoken sentences.",
        when="Fewer to listen more often; each set takes a few seconds.",
        sets="train.sample_steps", unit="STEPS",
    ),
    Flag(
        "checkpoint_steps", "whole", TrainConfig.checkpoint_steps,
        "Steps between two checkpoints.",
        when="Fewer if the machine may be taken away.",
        sets="train.checkpoint_steps", unit="STEPS",
    ),
    Flag(
        "keep_checkpoints", "whole", TrainConfig.keep_checkpoints,
        "How many checkpoints to keep besides the best one.",
        when="1 if the disk is small.",
        sets="train.keep_checkpoints",
    ),
)

INSTEAD = (
    Flag(
        "dry_run", "switch", False,
        "Print settings, devices, corpus, parameter counts and memory estimates, and stop.",
        when="Before a long run.",
    ),
    Flag(
        "profile", "switch", False,
        "Measure each part of this job's pipeline, give advice, and stop.",
        when="When training is slower than it should be.",
    ),
    Flag(
        "profile_steps", "whole", 20,
        "Repetitions of each measurement of --profile.",
        when="More if figures vary.",
        unit="STEPS",
        least=2,
    ),
)
