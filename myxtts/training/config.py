"""The settings of a training run; see `Trainer`."""

import dataclasses
from collections.abc import Mapping

from myxtts.config import AugmentConfig, BatchConfig, need
from myxtts.model.config import SIZES, ModelConfig

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
SCHEDULES = ("cosine", "noam", "constant")


@dataclasses.dataclass(frozen=True)
class StageConfig:
    """How one stage is trained."""

    learning_rate: float
    share: float  # of the run's --max_minutes or --max_steps
    batch_size: int | None = None  # None: that of the run
    schedule: str = "cosine"
    warm_up_steps: int = 200
    weight_decay: float = 0.01
    beta_2: float = 0.99
    clip_norm: float = 1.0  # 0: none
    ema: float = 0.999  # 0: none

    def __post_init__(self):
        need(self.learning_rate > 0, "learning_rate", self.learning_rate, "above 0")
        need(self.share > 0, "share", self.share, "above 0")
        need(self.batch_size is None or self.batch_size > 0, "batch_size", self.batch_size, "1 up")
        need(self.schedule in SCHEDULES, "schedule", self.schedule, f"one of {SCHEDULES}")
        need(self.warm_up_steps >= 0, "warm_up_steps", self.warm_up_steps, "0 or more")
        need(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")
        need(0 < self.beta_2 < 1, "beta_2", self.beta_2, "between 0 and 1")
        need(0 <= self.ema < 1, "ema", self.ema, "at least 0 and below 1")
        need(self.clip_norm >= 0, "clip_norm", self.clip_norm, "0 or more")


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A whole run. What is `None` has no limit, or is chosen as its flag says."""

    model: ModelConfig = SIZES["tiny"]
    batches: BatchConfig = BatchConfig()
    augment: AugmentConfig = AugmentConfig()
    # By name; a stage that is left out has the settings that its class declares.
    stages: Mapping[str, StageConfig] = dataclasses.field(default_factory=dict)
    tokenizer_frames: int = 128  # mel frames cut out of a clip in the tokenizer's stage
    speaker_frames: int = 192  # likewise for the speaker encoder
    epochs: int | None = None  # of every stage
    max_steps: int | None = None  # of all stages together
    max_minutes: float | None = None  # likewise
    grad_accum: int = 1
    recompute: bool = False  # layers of a published GPT in the backward pass, see `xtts_v2.gpt`
    precision: str = "auto"
    steps_per_call: int = 10
    log_steps: int = 50
    evaluate_steps: int = 500
    evaluation_clips: int = 64  # held-out clips an evaluation looks at
    sample_steps: int = 2000
    checkpoint_steps: int = 500
    keep_checkpoints: int = 3
    patience: int | None = None  # evaluations without a better one before a stage ends
    max_skipped: int = 20  # non-finite steps in a row that stop the run
    validation_share: float = 0.05  # of the clips, where there is no --val_data
    workers: int | None = None
    host_prefetch: int = 4
    data_service: str | None = None  # HOST:PORT; batches are read by its workers then
    seed: int = 0
    deterministic: bool = False  # bit-equal runs; devices and waiting are not watched then

    def __post_init__(self):
        usual = {name: stage.learning for name, stage in _registered(self.model.form).items()}
        for name in self.stages:
            need(name in usual, "stages", name, f"one of {', '.join(usual)}")
        object.__setattr__(self, "stages", {**usual, **self.stages})
        need(self.precision in PRECISIONS, "precision", self.precision, f"one of {PRECISIONS}")
        for name in (
            "tokenizer_frames",
            "speaker_frames",
            "grad_accum",
            "steps_per_call",
            "log_steps",
            "evaluate_steps",
            "evaluation_clips",
            "sample_steps",
            "checkpoint_steps",
            "keep_checkpoints",
            "max_skipped",
            "host_prefetch",
        ):
            need(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        for name in ("epochs", "max_steps", "max_minutes", "patience", "workers"):
            value = getattr(self, name)
            need(value is None or value > 0, name, value, "above 0")
        need(0 <= self.validation_share < 1, "validation_share", self.validation_share, "0 to 1")
        need(0 <= self.seed < 2**31, "seed", self.seed, "between 0 and 2147483647")

    def stage(self, name: str) -> StageConfig:
        return self.stages[name]

    def batch_size(self, stage: str) -> int:
        """Clips in a batch of the stage."""
        return self.stage(stage).batch_size or self.batches.batch_size


def _registered(form: str) -> Mapping:
    from myxtts.training.stages import stages_of  # its classes have settings of this module

    return stages_of(form)
