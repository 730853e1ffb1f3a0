"""Checkpoints: either whole or not there; refused if they are damaged or do not fit.

A checkpoint is a directory

    state.json    step, position, settings and everything else that is not a tensor; the shapes of
                  the tensors, and the SHA-256 of every file including this one
    weights.*     the networks as they are to be used (averaged, where there is an EMA)
    training.*    the networks as they are trained, optimizers, averages (not in best/)

The tensors are tf.train.Checkpoint files. A variable is identified by its network and number,
because Keras's names count the layers made in a process and differ in the next one.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import keras
import tensorflow as tf
from absl import logging

from myxtts import UserError

_PARTIAL = ".partial"
Variables = Mapping[str, Sequence]  # tf.Variable or keras.Variable, by the name of their group


class DamagedCheckpoint(UserError):
    """The files are not those that were written, or belong to other settings."""


def step_directories(stage_directory: Path) -> list[Path]:
    """The checkpoints to continue from, oldest first."""
    return sorted(
        path
        for path in stage_directory.glob("step-*")
        if path.name.removeprefix("step-").isdigit() and path.is_dir()
    )


def clear_leftovers(stage_directory: Path) -> None:
    """Removes what a process that was killed while saving left, and puts back what it moved."""
    old, best = stage_directory / f"best.old{_PARTIAL}", stage_directory / "best"
    if old.is_dir() and not best.exists():
        os.rename(old, best)
    for path in stage_directory.glob(f"*{_PARTIAL}"):
        logging.info("%s is removed: it was being written when its process ended", path)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def save(
    directory: Path, state: dict, weights: Variables, training: Variables | None = None
) -> None:
    """Writes a checkpoint; an existing one of this name is replaced."""
    partial = directory.with_name(directory.name + _PARTIAL)
    groups = {"weights": weights} | ({"training": training} if training is not None else {})
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, variables in groups.items():
            with _quiet():
                _as_checkpoint(variables).write(str(partial / name))
        values = {
            **state,
            "tensors": {name: _shapes(variables) for name, variables in groups.items()},
            "files": {path.name: _digest(path) for path in sorted(partial.iterdir())},
        }
        values["digest"] = _digest_of(values)
        (partial / "state.json").write_text(json.dumps(values, indent=1), encoding="utf-8")
        for path in partial.iterdir():
            _sync(path)
        _sync(partial)
        if directory.exists():
            old = directory.with_name(f"{directory.name}.old{_PARTIAL}")
            shutil.rmtree(old, ignore_errors=True)
            os.rename(directory, old)
            os.rename(partial, directory)
            shutil.rmtree(old)
        else:
            os.rename(partial, directory)
        _sync(directory.parent)
    except (OSError, tf.errors.OpError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) else str(error.message).split("\n")[0]
        raise UserError(
            f"the checkpoint {directory} cannot be written: {reason}; those before it are whole. "
            "Make room, or make the directory writable, and start the same command again"
        ) from None


def remove_all_but(stage_directory: Path, keep: int) -> None:
    """Keeps the latest checkpoints only."""
    for path in step_directories(stage_directory)[:-keep]:
        # Renamed first, so that there is never half a checkpoint under a checkpoint's name.
        partial = path.with_name(path.name + _PARTIAL)
        os.rename(path, partial)
        shutil.rmtree(partial)


def described(directory: Path) -> dict:
    """state.json, once it is known to be what was written; the other files are not looked at."""
    try:
        state = json.loads((directory / "state.json").read_text(encoding="utf-8"))
        digest = state["digest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(
            f"the checkpoint {directory} is damaged: state.json cannot be read ({error})"
        ) from None
    if digest != _digest_of(state):
        raise DamagedCheckpoint(
            f"the checkpoint {directory} is damaged: state.json is not what was written"
        )
    return state


def read_state(directory: Path) -> dict:
    """state.json, once every file of the checkpoint is known to be what was written."""
    state = described(directory)
    files = state["files"]
    for name, wanted in files.items():
        path = directory / name
        if path.parent != directory or not path.is_file():
            raise DamagedCheckpoint(f"the checkpoint {directory} is damaged: {name} is missing")
        if _digest(path) != wanted:
            raise DamagedCheckpoint(
                f"the checkpoint {directory} is damaged: {name} is not what was written"
            )
    return state


def read_tensors(directory: Path, state: dict, group: str, variables: Variables) -> None:
    """Gives the variables the values they had; `state` is what `read_state` returned."""
    found, wanted = state["tensors"].get(group), _shapes(variables)
    if found is None:
        raise DamagedCheckpoint(f"{directory} holds no {group}; give a checkpoint step-*")
    for name in wanted.keys() | found.keys():
        theirs, mine = found.get(name), wanted.get(name)
        if theirs == mine:
            continue
        if theirs is None or mine is None or len(theirs) != len(mine):
            count = [0 if values is None else len(values) for values in (theirs, mine)]
            difference = f"{name} has {count[0]} tensors there and {count[1]} here"
        else:
            number = next(i for i in range(len(mine)) if mine[i] != theirs[i])
            difference = (
                f"{name}'s tensor {number} is {theirs[number]} there and {mine[number]} here"
            )
        raise DamagedCheckpoint(
            f"the checkpoint {directory} does not fit these settings: {difference}"
        )
    _as_checkpoint(variables).read(str(directory / group)).assert_consumed()


def read_weights(directory: str | os.PathLike, networks: Mapping[str, keras.Model]) -> dict:
    """Loads the weights to use into the networks and returns the checkpoint's state."""
    directory = Path(directory)
    state = read_state(directory)
    variables = {name: network.variables for name, network in networks.items()}
    read_tensors(directory, state, "weights", variables)
    return state


def newest(stage_directory: Path, *, only_described: bool = False) -> tuple[Path, dict] | None:
    """The checkpoint to continue from and its state; a damaged one is refused, and the one
    before it offered. `only_described`: its tensors are not looked at."""
    directories = step_directories(stage_directory)
    if not directories:
        return None
    read = described if only_described else read_state
    try:
        return directories[-1], read(directories[-1])
    except DamagedCheckpoint as error:
        raise DamagedCheckpoint(f"{error}. {_offer(directories)}") from None


def _offer(directories: list[Path]) -> str:
    for path in reversed(directories[:-1]):
        try:
            read_state(path)
        except DamagedCheckpoint:
            continue
        newer = [str(other) for other in directories if other > path]
        return (
            f"The one before it, {path}, is whole: delete {' and '.join(newer)} and start the "
            "same command again to continue from it"
        )
    return f"No other one is whole: delete {directories[-1].parent} to train the stage anew"


def as_tensors(variables: Sequence) -> list:
    """tf.Variables of what may be Keras's."""
    return [v.value if isinstance(v, keras.Variable) else v for v in variables]


@contextlib.contextmanager
def _quiet():
    """TensorFlow logs how long it took to choose one file for everything."""
    before = logging.get_verbosity()
    logging.set_verbosity(min(before, logging.WARNING))
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _as_checkpoint(groups: Variables) -> tf.train.Checkpoint:
    return tf.train.Checkpoint(**{name: as_tensors(group) for name, group in groups.items()})


def _shapes(groups: Variables) -> dict[str, list[str]]:
    return {
        name: [f"{v.dtype.name}{v.shape.as_list()}" for v in as_tensors(group)]
        for name, group in groups.items()
    }


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:  # hashlib.file_digest is not in Python 3.10
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _digest_of(state: dict) -> str:
    values = {name: value for name, value in state.items() if name != "digest"}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
