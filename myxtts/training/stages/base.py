"""The base class of training stages, and the list of all stages.

A stage's class has everything about it: the stages it needs, its networks, its learning rate, its
memory, how it is judged. Flags, settings, checks, estimates, the order of a run and the report read
it there. A new stage is a module next to `gpt.py` and a line in `__init__.py`.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

import keras
import tensorflow as tf

from dual_device_strategy import data_scope
from myxtts import UserError
from myxtts.model.config import SIZES, ModelConfig
from myxtts.training.checkpoints import read_weights
from myxtts.training.config import StageConfig, TrainConfig
from myxtts.training.optimizer import Learner
from myxtts.training.run_directory import RunDirectory

Networks = Mapping[str, keras.Model]
Maker = Callable[[ModelConfig, int], keras.Model]  # of the sizes and the number of text tokens


@dataclasses.dataclass(frozen=True)
class LongestClip:
    """The largest clip of a batch: its mel frames, the tokens of its text, and the mel frames of
    its reference, which `memory.estimate` fills in."""

    frames: int
    text_tokens: int
    reference_frames: int = 0


@dataclasses.dataclass(frozen=True)
class ClipMemory:
    """The memory of one clip, in numbers of values: on the model device, for the backward pass and
    in the batch; on the data device while its batch is prepared (None: as in our own networks)."""

    kept: float
    batch: int
    prepared: float | None = None


@dataclasses.dataclass
class Surroundings:
    """The context in which a stage is made, inside the strategy's scope."""

    config: TrainConfig
    run: RunDirectory
    text_tokens: int
    precision: str = "float32"

    def trained(
        self, stage: str, scope: contextlib.AbstractContextManager | None = None
    ) -> dict[str, keras.Model] | None:
        """The networks of another stage with the weights to use; None if it has none yet.

        They compute in float32, as in synthesis, and are made in `scope`.
        """
        weights = self.run.weights(stage)
        if weights is None:
            return None
        with scope or contextlib.nullcontext(), float32():
            declared = stage_named(stage, self.config.model.form)
            made = declared.make_networks(self.config.model, self.text_tokens)
        read_weights(weights, made)
        return made


class Stage:
    """One part of the training. There are `tokenizer`, `gpt` and `vocoder`, both of our own
    networks and of the published ones.

    AutoGraph does not convert what a stage computes: write tf.cond and tf.while_loop where a
    condition or a number of turns is a tensor.

    A subclass declares (class attributes and class methods):
      name: its name in flags, directories and reports.
      form: whose networks it trains, see `ModelConfig.form`.
      needs: the stages whose trained networks it uses, frozen, on the data device.
      uses: stages likewise; if one was not trained, the networks that the run started from do.
      makes: the networks it trains and saves as its result, by name.
      learning: its settings unless flags set them; the rate is the one for `tiny`.
      fixed: names of settings in TrainConfig, besides those fixed for all stages, that may not
        change while it is trained.
      parts: names of the figures of a training step; the first one is the loss to show.
      held_out: names of the figures of an evaluation; the first one decides which is best (less
        is better).
      needs_waveform: batches keep it.
      makes_features: its front end gets batches as they were read, without our features.
      width, reference_seconds, make_helpers, clip_memory, report_lines: see the methods.

    Make one with `restored`.

    Attributes of an instance:
      networks: the networks made by `makes`.
      helpers: networks trained as well, and needed only to go on training.
      learners: the `Learner`s by name; `losses` gives each its loss.
    """

    name: ClassVar[str]
    form: ClassVar[str] = "own"
    needs: ClassVar[tuple[str, ...]] = ()
    uses: ClassVar[tuple[str, ...]] = ()
    makes: ClassVar[Mapping[str, Maker]]
    learning: ClassVar[StageConfig]
    fixed: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]]
    held_out: ClassVar[tuple[str, ...]]
    needs_waveform: ClassVar[bool] = False
    makes_features: ClassVar[bool] = False

    @classmethod
    def restored(cls, at: Surroundings) -> "Stage":
        """A stage with new networks, or those that its run starts from; the networks it needs are
        restored from their checkpoints."""
        made = cls(at, {name: at.trained(name, data_scope()) for name in cls.needs})
        first = at.run.init / cls.name
        if first.is_dir():
            read_weights(first, made.networks)
            made.restart_averages()
        return made

    def __init__(self, at: Surroundings, needed: Mapping[str, Networks]):
        """`needed`: the trained networks of the stages in `needs`."""
        self.config, self.surroundings = at.config, at
        self.networks: dict[str, keras.Model] = self.make_networks(at.config.model, at.text_tokens)
        self.helpers: dict[str, keras.Model] = self.make_helpers(at.config.model)
        self.learners: dict[str, Learner] = {}

    def restart_averages(self) -> None:
        """Makes the averages begin with the present weights."""
        for learner in self.learners.values():
            for variable, average in learner.pairs():
                average.assign(variable)

    @classmethod
    def make_networks(cls, model: ModelConfig, text_tokens: int) -> dict[str, keras.Model]:
        """New networks with all their variables, where the surrounding scope puts them."""
        return {name: make(model, text_tokens) for name, make in cls.makes.items()}

    @classmethod
    def make_frozen(cls, model: ModelConfig, text_tokens: int) -> dict[str, keras.Model]:
        """The frozen networks on the data device; for the estimate of memory."""
        return {
            network: made
            for needed in cls.needs
            for network, made in stage_named(needed, cls.form)
            .make_networks(model, text_tokens)
            .items()
        }

    @classmethod
    def make_helpers(cls, model: ModelConfig) -> dict[str, keras.Model]:
        """Networks that only training needs, such as discriminators."""
        return {}

    @classmethod
    def width(cls, model: ModelConfig) -> int:
        """The width that the learning rate depends on, see `usual_rate`."""
        raise NotImplementedError(f"{cls.__name__} declares no width")

    @classmethod
    def usual_rate(cls, model: ModelConfig) -> float:
        """The peak learning rate for networks of this size: the one measured with `tiny`, divided
        by how many times wider they are."""
        share = cls.width(SIZES["tiny"]) / cls.width(model)
        return cls.learning.learning_rate * min(1.0, share)

    @property
    def states(self) -> list:
        """The variables, other than weights, that change while losses are computed: codebooks and
        the like."""
        made = (self.networks | self.helpers).values()
        return [variable for network in made for variable in network.non_trainable_variables]

    @classmethod
    def reference_seconds(cls, config: TrainConfig) -> tuple[float, float]:
        """The shortest and the longest reference that batches carry."""
        return config.batches.conditioning_seconds

    @classmethod
    def crop(cls, config: TrainConfig) -> str:
        """The clip that references come from, see `BatchConfig.crop`."""
        return "other_clip"

    @classmethod
    def clip_memory(cls, config: TrainConfig, longest: LongestClip, text_tokens: int) -> ClipMemory:
        """For the estimate of memory; `text_tokens` is the size of the vocabulary."""
        raise NotImplementedError(f"{cls.__name__} declares no clip_memory")

    @classmethod
    def report_lines(cls, result: Mapping) -> list[str]:
        """Lines for the report about the stage's result, besides the figures of all stages."""
        return []

    @classmethod
    def complaints(cls, config: TrainConfig, figures: Mapping[str, float]) -> list[str]:
        """Sentences about what is wrong with a stage that has these figures; they are logged during
        the run and appear in the report."""
        return []

    @property
    def phases(self) -> tuple[int, ...]:
        """The steps at which `losses` changes; its argument `phase` counts them."""
        return (0,)

    def phase_of(self, step: int) -> int:
        """Which of them a step is in."""
        return sum(start <= step for start in self.phases) - 1

    def front_end(self, batch: dict) -> dict:
        """Runs on the data device, after the features were made; random by the batch's key only."""
        return batch

    def losses(self, batch: dict, seed: tf.Tensor, phase: int) -> tuple[dict, dict]:
        """`(loss by learner, figures by name)` of a training step, traced once per phase.

        A learner without a loss pauses in this phase; a missing figure is 0.
        """
        raise NotImplementedError(f"{type(self).__name__} declares no losses")

    def evaluate(self, batch: dict) -> dict:
        """The figures named in `held_out`, each the mean over the batch's clips."""
        raise NotImplementedError(f"{type(self).__name__} declares no evaluation")

    def show(self, exhibits) -> None:
        """Gives pictures and sounds to an `Exhibits`, with the averaged weights in place."""

    def judge(self, batches: Iterable[dict]) -> dict:
        """Further figures for the stage's result, from held-out batches with features; the best
        weights are in place."""
        return {}


# In the order in which they are trained; see `register`.
STAGES: dict[str, type[Stage]] = {}  # of our own networks
PUBLISHED_STAGES: dict[str, type[Stage]] = {}  # of published ones
_NEW_STAGES: dict[str, type[Stage]] = {}  # of those, from random weights
_FORMS = {"own": STAGES, "xtts_v2": PUBLISHED_STAGES, "new_xtts_v2": _NEW_STAGES}


def register(stage: type[Stage]) -> type[Stage]:
    """Adds a stage after the existing ones; the stages it needs must be among them."""
    known = _FORMS[stage.form]
    missing = [name for name in (*stage.needs, *stage.uses) if name not in known]
    if missing:
        raise ValueError(f"{stage.name} needs {missing[0]}, which is not registered before it")
    known[stage.name] = stage
    return stage


def stages_of(form: str) -> Mapping[str, type[Stage]]:
    """The stages by name, in the order of training; `form` is that of `ModelConfig`."""
    return _FORMS[form]


def stage_names(form: str = "own") -> tuple[str, ...]:
    """All stages, in the order in which they are trained."""
    return tuple(_FORMS[form])


def stage_named(name: str, form: str = "own") -> type[Stage]:
    known = _FORMS[form]
    if name not in known:
        raise UserError(f"there is no stage {name!r}; there are {', '.join(known)}")
    return known[name]


def in_order(stages: Iterable[str] | None, form: str = "own") -> tuple[str, ...]:
    """The stages, all by default, in the order in which they are trained."""
    known = _FORMS[form]
    wanted = known if stages is None else {stage_named(stage, form).name for stage in stages}
    return tuple(stage for stage in known if stage in wanted)


@contextlib.contextmanager
def float32() -> Iterator[None]:
    """Networks made in this block compute in float32, regardless of the run's precision."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)
