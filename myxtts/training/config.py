"""The settings of a training run; see `Trainer`."""

import dataclasses

from myxtts.config import AugmentConfig, BatchConfig, need
from myxtts.model.config import SIZES, ModelConfig

STAGES = ("tokenizer", "gpt", "vocoder")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
SCHEDULES = ("cosine", "noam", "constant")


@dataclasses.dataclass(frozen=True)
class StageConfig:
    """How one stage is trained."""

    learning_rate: float
    share: float  # of the run's --max_minutes or --max_steps
    batch_size: int | None = None  # None: the run's
    schedule: str = "cosine"
    warm_up_steps: int = 200
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    ema: float = 0.999  # 0: none

    def __post_init__(self):
        need(self.learning_rate > 0, "learning_rate", self.learning_rate, "above 0")
        need(self.schedule in SCHEDULES, "schedule", self.schedule, f"one of {SCHEDULES}")
        need(self.warm_up_steps >= 0, "warm_up_steps", self.warm_up_steps, "0 or more")
        need(0 <= self.ema < 1, "ema", self.ema, "at least 0 and below 1")
        need(self.clip_norm > 0, "clip_norm", self.clip_norm, "above 0")


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A whole run. What is `None` has no limit, or is chosen as its flag says."""

    model: ModelConfig = SIZES["tiny"]
    batches: BatchConfig = BatchConfig()
    augment: AugmentConfig = AugmentConfig()
    tokenizer: StageConfig = StageConfig(1e-3, 0.15)
    gpt: StageConfig = StageConfig(6e-4, 0.55)
    vocoder: StageConfig = StageConfig(5e-4, 0.30)
    epochs: int | None = None  # of every stage
    max_steps: int | None = None  # of all stages together
    max_minutes: float | None = None  # likewise
    grad_accum: int = 1
    precision: str = "auto"
    steps_per_call: int = 10
    log_steps: int = 50
    evaluate_steps: int = 500
    checkpoint_steps: int = 500
    keep_checkpoints: int = 3
    patience: int | None = None  # evaluations without a better one before a stage ends
    max_skipped: int = 20  # non-finite steps in a row that stop the run
    validation_share: float = 0.05  # of the clips, where there is no --val_data
    workers: int | None = None
    host_prefetch: int = 4
    seed: int = 0
    deterministic: bool = False  # TensorFlow's deterministic ops

    def __post_init__(self):
        need(self.precision in PRECISIONS, "precision", self.precision, f"one of {PRECISIONS}")
        for name in ("grad_accum", "steps_per_call", "log_steps", "checkpoint_steps"):
            need(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        for name in ("epochs", "max_steps", "max_minutes", "patience"):
            value = getattr(self, name)
            need(value is None or value > 0, name, value, "above 0")
        need(0 <= self.validation_share < 1, "validation_share", self.validation_share, "0 to 1")
