"""The published names of a network's variables.

A layer names a variable where it makes it, once for reading and writing:

    class Linear(keras.layers.Layer):
        def __init__(self, names, inputs, outputs):
            self.kernel = self.add_weight(shape=(inputs, outputs))
            names.add("weight", self.kernel, axes=(1, 0))    # published as [outputs, inputs]

    names = Names()
    network = Linear(names.below("gpt.mel_head"), 1024, 1026)
    names.read(weights.model, weights.path)      # from a file into the variables
    names.tensors()                              # and back
"""

import dataclasses
from collections.abc import Collection

import numpy as np

from myxtts import UserError


@dataclasses.dataclass(frozen=True)
class _Entry:
    variable: object  # keras.Variable
    axes: tuple[int, ...]  # the published axes in our order
    shape: tuple[int, ...]  # as published
    decays: bool  # whether weight decay is for it
    layer: object  # the keras.layers.Dense whose matrix it is, or None

    @property
    def value(self):
        adapted = self.layer is not None and self.layer.lora_enabled
        return self.layer.kernel if adapted else self.variable

    def to_ours(self, published: np.ndarray) -> np.ndarray:
        wide = np.asarray(published, np.float32).reshape(self.shape[: len(self.axes)])
        return np.ascontiguousarray(wide.transpose(self.axes))

    def to_published(self, ours: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(ours.transpose(np.argsort(self.axes))).reshape(self.shape)


class Names:
    """The table of one network's names, or a view of it below a prefix; the module's docstring
    shows its use.

    `drawn` is whether the variables begin with random values. Drawing them in the published sizes
    takes most of the time of loading, so variables that are read from a file begin with zeros.
    """

    def __init__(self, drawn: bool = True):
        self._prefix, self.drawn = "", drawn
        self._entries: dict[str, _Entry] = {}
        self._carried: dict[str, np.ndarray] = {}
        self._constants: set[str] = set()

    def below(self, part: object) -> "Names":
        """A view of the table for a layer whose names begin with `part`."""
        view = Names(self.drawn)
        view._prefix = f"{self._prefix}{part}."
        view._entries, view._carried = self._entries, self._carried
        view._constants = self._constants
        return view

    def initializer(self, random):
        """A variable's initial values: Keras's initializer `random`, or zeros."""
        return random if self.drawn else "zeros"

    def add(
        self,
        name: str,
        variable,
        *,
        axes: tuple[int, ...] | None = None,
        ones: int = 0,
        decays: bool = True,
        layer=None,
    ) -> None:
        """Names a variable.

        The variable has the published axes in the order `axes` (the same order by default); the
        published tensor has `ones` more axes of size 1 at its end. `decays` is whether the
        published trainer's weight decay applies: to all but biases, norms and embeddings. `layer`
        is the Dense layer whose matrix it is; adapters may change it."""
        axes = tuple(range(len(variable.shape))) if axes is None else axes
        sizes = [0] * len(axes)
        for place, axis in enumerate(axes):
            sizes[axis] = int(variable.shape[place])
        shape = (*sizes, *[1] * ones)
        self._entries[self._prefix + name] = _Entry(
            variable, axes=axes, shape=shape, decays=decays, layer=layer
        )

    def carry(self, name: str, value: np.ndarray, constant: bool = False) -> None:
        """Names a tensor of the published file that no variable holds.

        The value of the file that was read is written again, or `value` if none was read. A file
        with another value of a `constant` is refused, because this code computes with its own."""
        self._carried[self._prefix + name] = np.asarray(value)
        if constant:
            self._constants.add(self._prefix + name)

    @property
    def variables(self) -> dict[str, object]:
        """The variables by published name."""
        return {name: entry.variable for name, entry in self._entries.items()}

    @property
    def not_decaying(self) -> list:
        """The variables without weight decay."""
        return [entry.variable for entry in self._entries.values() if not entry.decays]

    def adapt(self, rank: int, whole: Collection[str] = ()) -> None:
        """From now on trains only low-rank changes of the matrices (LoRA, as in Keras), and the
        variables in `whole`. `tensors` returns the changed matrices."""
        for name, entry in self._entries.items():
            entry.variable.trainable = name in whole
        for entry in self._entries.values():
            if entry.layer is not None:
                entry.layer.enable_lora(rank)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The published shape of every tensor that a file must have."""
        return {name: entry.shape for name, entry in self._entries.items()}

    def check(self, tensors: dict[str, np.ndarray], path: str) -> None:
        """UserError if a tensor is missing, unknown or misshapen. Values are not read, except
        those of constants."""
        missing = [name for name in self._entries if name not in tensors]
        known = self._entries.keys() | self._carried.keys()
        extra = [name for name in tensors if name not in known]
        if missing or extra:
            raise UserError(_unfit(missing, extra, path))
        for name, value in tensors.items():
            wanted = self._entries[name].shape if name in self._entries else None
            wanted = self._carried[name].shape if wanted is None else wanted
            if value.shape != wanted:
                raise UserError(
                    f"{name} in {path} has the shape {list(value.shape)} where {list(wanted)} is "
                    "needed; the file does not belong to its config.json"
                )
        for name in self._constants & tensors.keys():
            if not np.allclose(tensors[name], self._carried[name], rtol=1e-2, atol=1e-4):
                raise UserError(
                    f"{name} in {path} is not what it is in XTTS v2; this model computes its "
                    "spectrograms in another way"
                )

    def read(self, tensors: dict[str, np.ndarray], path: str) -> None:
        """Gives every variable its tensor. If one does not fit (`check`), nothing is changed."""
        self.check(tensors, path)
        for name, entry in self._entries.items():
            value = entry.to_ours(tensors[name])
            if not np.isfinite(value).all():
                raise UserError(
                    f"{name} in {path} holds values that are no finite numbers; take an earlier "
                    "checkpoint, or copy the file again"
                )
            entry.variable.assign(value)
        for name in self._carried.keys() & tensors.keys():
            self._carried[name] = np.array(tensors[name])

    def tensors(self) -> dict[str, np.ndarray]:
        """Every tensor in its published form."""
        made = {
            name: entry.to_published(np.asarray(entry.value))
            for name, entry in self._entries.items()
        }
        return {**made, **self._carried}


def _unfit(missing: list[str], extra: list[str], path: str) -> str:
    def listed(names):
        return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")

    parts = [f"lacks {listed(missing)}"] if missing else []
    parts += [f"holds {listed(extra)}, which a model of these sizes does not have"] if extra else []
    return (
        f"{path} {' and '.join(parts)}; it is no whole XTTS v2 checkpoint, or its config.json is "
        "another model's"
    )
