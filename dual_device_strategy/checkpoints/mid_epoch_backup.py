"""`fit` that goes on in the middle of an epoch after it was killed."""

import inspect
import json
import os

import keras
import tensorflow as tf
from absl import logging

from dual_device_strategy.checkpoints.saved_iterator import SavedIterator

_NAME = "backup"
_POSITION_KEY = "position/.ATTRIBUTES/py_state"


class _Position(tf.train.experimental.PythonState):
    """The position of `fit`, and the shapes of its variables."""

    def __init__(self):
        self.value = {}

    def serialize(self):
        return json.dumps(self.value)

    def deserialize(self, string_value):
        self.value = json.loads(string_value)


class MidEpochBackup(keras.callbacks.BackupAndRestore):
    """Backs up a `fit`, so that the same command goes on where it was killed.

        callbacks = [MidEpochBackup("backup", save_freq=500)]
        model.fit(dataset, epochs=10, callbacks=callbacks)

    A backup has the iterator, the epoch and the batch, the weights, the optimizer, the metrics of
    the running epoch, the seed generators and the `tf.random.Generator`s of the model's layers.
    So the losses are those of a run that was never killed.  `keras.callbacks.BackupAndRestore`
    restores the epoch only: it begins again with its first batch.

    Arguments are those of `BackupAndRestore`: `save_freq` is a number of batches, or "epoch" for
    the beginning of each epoch.  A backup replaces the previous one only when it is complete; a
    kill while it is written leaves the previous one.  When `fit` ends, backups are deleted.

    It works under `DataModelSplitStrategy`, `MirroredDataModelSplitStrategy` (its choice of shares
    is in the backup) and `MultiWorkerDataModelSplitStrategy`, whose workers read the first one's
    backups (the others write to directories beside it, "backup-1"), for datasets whose iterators
    can be saved. Not in a backup: other callbacks, the order of a
    validation dataset that shuffles, and random ops of the model that use neither kind of
    generator. A finished `fit` that was kept (`delete_checkpoint=False`) and gets more epochs
    begins the dataset's order anew.
    """

    def __init__(
        self, backup_dir, save_freq="epoch", double_checkpoint=False, delete_checkpoint=True
    ):
        super().__init__(backup_dir, save_freq, double_checkpoint, delete_checkpoint)
        self._resumed = None  # path and position of the backup, until `fit` is there again
        self._iterator = self._epochs = self._manager = None

    def on_train_begin(self, logs=None):
        if not self.model.built:
            raise ValueError(
                "MidEpochBackup restores the model before the first batch, but the model is not "
                "built; call model.build(input_shape), or the model itself on a batch, before fit"
            )
        optimizer = self.model.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        self._position = _Position()
        self._since_backup, self._finished = 0, 0
        self._checkpoint = tf.train.Checkpoint(position=self._position)
        self._manager, first = (
            tf.train.CheckpointManager(
                self._checkpoint,
                directory,
                max_to_keep=2 if self.double_checkpoint else 1,
                checkpoint_name=_NAME,
            )
            for directory in (self._directory(), os.path.abspath(self.backup_dir))
        )
        self._resumed = _newest(first)
        if self._resumed:
            path, position = self._resumed
            self._refuse_another_model(position)
            self._restore_variables(path)
            self.model._initial_epoch = position["epoch"]
            logging.info(
                "fit goes on from %s: epoch %d, batch %d",
                path,
                position["epoch"] + 1,
                position["batch"],
            )

    def _directory(self) -> str:
        """Where this worker writes; of several, all read what the first one has written."""
        index = getattr(self.model.distribute_strategy, "worker_index", 0)
        return os.path.abspath(self.backup_dir) + (f"-{index}" if index else "")

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._batch = epoch, 0
        self._iterator = None
        if self._resumed:
            self._restore_variables(self._resumed[0])  # fit has reset the metrics meanwhile
            self._batch = self._resumed[1]["batch"]
        self._epochs = _iterator_over_epochs()
        steps = self._epochs._enumerate_iterator
        self._epochs._enumerate_iterator = lambda: self._steps_to_do(steps)

    def _steps_to_do(self, steps):
        """Keras's own steps of an epoch, without those that were done before the kill.

        This object takes no batches, so leaving out steps loses none.
        """
        epochs = self._epochs
        del epochs._enumerate_iterator  # the next epoch's is Keras's own again
        resumed, self._resumed = self._resumed, None
        position = resumed[1] if resumed else {"batch": 0}
        if resumed and epochs._num_batches is None:
            epochs._num_batches = position["num_batches"]
        for begin, end, iterator in steps():
            if begin == 0:
                self._iterator = _saveable(iterator)
                if resumed and position["has_iterator"]:
                    _read(resumed[0], iterator=iterator)
                    before = position["steps_seen"] - position["batch"]
                    epochs._steps_seen = before + epochs.steps_per_execution
            if begin >= position["batch"]:
                yield begin, end, iterator

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0 and self._epoch > 0 and self.save_freq == "epoch":
            # Not at the end of the epoch before: only now is there an iterator to go on with.
            self._back_up(
                self._epoch, 0, self._epochs._steps_seen - self._epochs.steps_per_execution
            )

    def on_train_batch_end(self, batch, logs=None):
        self._since_backup += batch + 1 - self._batch
        self._batch = batch + 1
        every = self.save_freq
        if every and every != "epoch" and self._since_backup >= every:
            self._back_up(self._epoch, self._batch, self._epochs._steps_seen)
            self._since_backup = 0

    def on_epoch_end(self, epoch, logs=None):
        self._finished = epoch + 1

    def on_train_end(self, logs=None):
        self.model._initial_epoch = None  # or the next fit would begin there
        if self.delete_checkpoint:
            self._delete()
        elif self._finished:
            self._iterator = None
            self._back_up(self._finished, 0, 0)

    def _delete(self) -> None:
        """Deletes the backups, and the directory if nothing else is in it."""
        folder = self._directory()
        if tf.io.gfile.isdir(folder):
            for name in tf.io.gfile.listdir(folder):
                path = os.path.join(folder, name.rstrip("/"))
                if name.startswith(f"{_NAME}-"):
                    remove = tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove
                    remove(path)
                elif name == "checkpoint":
                    tf.io.gfile.remove(path)
            if not tf.io.gfile.listdir(folder):
                tf.io.gfile.rmtree(folder)

    def _back_up(self, epoch: int, batch: int, steps_seen: int) -> None:
        self._position.value = {
            "epoch": epoch,
            "batch": batch,
            "steps_seen": steps_seen,
            "num_batches": self._epochs._num_batches if self._epochs else None,
            "has_iterator": self._iterator is not None,
            "variables": self._shapes(),
            "parts": len(self._parts()),
        }
        state = tf.train.Checkpoint(position=self._position, parts=self._parts(), **self._state())
        if self._iterator is not None:
            state.iterator = self._iterator
        self._manager._checkpoint = state
        latest = self._manager.latest_checkpoint
        number = int(latest.rsplit("-", 1)[1]) + 1 if latest else 1
        self._manager.save(checkpoint_number=number)

    def _state(self) -> dict[str, object]:
        variables = [variable.value for variable in self._variables()]
        state = {"variables": variables, "generators": _generators(self.model)}
        # Of a strategy with shares="auto"; else the same steps would have other sums.
        choice = getattr(self.model.distribute_strategy, "share_choice", None)
        return state if choice is None else {**state, "shares": choice}

    def _variables(self) -> list[keras.Variable]:
        optimizer = self.model.optimizer
        all_of_it = [*self.model.variables, *self.model.metrics_variables]
        return [*all_of_it, *(optimizer.variables if optimizer is not None else [])]

    def _parts(self) -> list[tf.Variable]:
        """Each replica's own part of the metrics.

        Keras shows the mean of the replicas' metrics.  With shares they count different numbers of
        rows, and TensorFlow restores the sum, divided equally.
        """
        if getattr(self.model.distribute_strategy, "shares", None) is None:
            return []
        values = [variable.value for variable in self.model.metrics_variables]
        return [part for value in values for part in getattr(value, "values", ())]

    def _shapes(self) -> list[str]:
        # Not their names, in which Keras counts the layers of a process.
        return [f"{v.dtype} {list(v.shape)}" for v in self._variables()]

    def _restore_variables(self, path: str) -> None:
        _read(path, **self._state())
        parts = self._parts()
        if parts and len(parts) == self._resumed[1].get("parts"):
            _read(path, parts=parts)

    def _refuse_another_model(self, position: dict) -> None:
        if position["variables"] != self._shapes():
            raise ValueError(
                f"{self.backup_dir} has the backup of another model or another compile(): "
                f"{len(position['variables'])} variables there, {len(self._shapes())} here; give "
                "each training a directory of its own, or delete the backup to begin anew"
            )


def _newest(manager: tf.train.CheckpointManager) -> tuple[str, dict] | None:
    """The newest backup that can be read."""
    for path in reversed(manager.checkpoints):
        try:
            text = tf.train.load_checkpoint(path).get_tensor(_POSITION_KEY)
            return path, json.loads(text)
        except (tf.errors.OpError, ValueError) as error:
            if path == manager.checkpoints[0]:
                raise
            logging.warning("The backup %s cannot be read, the one before is used: %s", path, error)
    return None


def _read(path: str, **objects) -> None:
    """Restores exactly these objects."""
    status = tf.train.Checkpoint(**objects).read(path)
    status.assert_existing_objects_matched()
    status.expect_partial()


def _saveable(iterator) -> SavedIterator:
    if not isinstance(iterator, SavedIterator):
        raise ValueError(
            f"MidEpochBackup cannot save the iterator of this fit, a {type(iterator).__name__}: "
            "make the model in the scope of DataModelSplitStrategy, or use "
            "keras.callbacks.BackupAndRestore, which restores the epoch only"
        )
    return iterator


def _generators(model: keras.Model) -> list[tf.random.Generator]:
    found = {}
    for layer in model._flatten_layers():
        for value in vars(layer).values():
            if isinstance(value, tf.random.Generator):
                found[id(value)] = value
    return list(found.values())


def _iterator_over_epochs():
    """The object that Keras's `fit` draws its steps from, which it keeps in a local variable."""
    frame = inspect.currentframe()
    while frame is not None:
        found = frame.f_locals.get("epoch_iterator")
        if hasattr(found, "_enumerate_iterator"):
            return found
        frame = frame.f_back
    raise RuntimeError(
        f"MidEpochBackup does not know where fit of Keras {keras.__version__} keeps its iterator; "
        "use a Keras 3 of up to 3.15, or keras.callbacks.BackupAndRestore"
    )
