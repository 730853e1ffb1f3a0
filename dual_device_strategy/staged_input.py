"""The common part of strategies with data devices: their variables and their datasets."""

import contextlib
import threading
import types
from collections.abc import Callable, Sequence

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.copies import copying_slots
from dual_device_strategy.copy_trial import CopyTrial
from dual_device_strategy.data_service import DataService
from dual_device_strategy.front_end import is_being_traced
from dual_device_strategy.hop import component_specs
from dual_device_strategy.host_copies import copied_ahead
from dual_device_strategy.out_of_memory import bytes_of
from dual_device_strategy.running_input import RunningInput
from dual_device_strategy.slot_tuning import FIRST

PER_WORKER = tf.distribute.InputReplicationMode.PER_WORKER


class DataScope:
    """Whether this thread makes its variables on the data devices."""

    def __init__(self):
        self._thread = threading.local()

    @property
    def entered(self) -> bool:
        return getattr(self._thread, "entered", False)

    @contextlib.contextmanager
    def enter(self):
        before, self._thread.entered = self.entered, True
        try:
            yield
        finally:
            self._thread.entered = before


class StagedInput:
    """A mixin before one of TensorFlow's StrategyExtended classes; call `set_data_devices` once.

    It knows the data devices, the number of slots, and the variables of `data_scope()`.  The class
    that derives from it distributes datasets.
    """

    def set_data_devices(
        self, data_devices: Sequence[str], slots: int | str, warm_up: bool = False
    ) -> None:
        """Sets the data devices, by full names; the class's constructor calls it once."""
        self.data_devices = tuple(data_devices)
        self.slots = slots
        self.warm_up = warm_up
        self.running_input = RunningInput(FIRST if slots == "auto" else slots)
        self._variables_scope = DataScope()
        self._copied = []  # handles of the variables that every data device has, in device order

    data_service: DataService | None = None

    def served(self, host: tf.data.Dataset) -> tf.data.Dataset:
        """The host's part of a dataset, run by the data service if there is one."""
        return host if self.data_service is None else self.data_service.applied(host)

    def data_scope(self):
        return self._variables_scope.enter()

    @property
    def data_device(self) -> str:
        """The first of the data devices."""
        return self.data_devices[0]

    def _create_variable(self, next_creator, **kwargs):
        if not self._variables_scope.entered or kwargs.get("colocate_with"):
            return super()._create_variable(next_creator, **kwargs)
        kwargs.pop("colocate_with", None)
        if len(self.data_devices) == 1:
            with tf.device(self.data_device):
                return next_creator(**kwargs)
        there = types.SimpleNamespace(_devices=self.data_devices)
        variable = super()._create_variable(next_creator, colocate_with=there, **kwargs)
        self._copied.append([copy.handle for copy in variable.values])
        return variable

    def _update(self, var, fn, args, kwargs, group):
        copied = isinstance(var, tf.distribute.DistributedValues)
        alone = not copied and not isinstance(self, compat.OneDeviceExtended)
        if is_being_traced() and self._copied:
            first = getattr(var, "values", (var,))[0]
            if any(first.handle is handles[0] for handles in self._copied):
                # A front end writes to the copy on its own device only; see `captured_by`.
                var, alone = first, True
        if not alone:
            return super()._update(var, fn, args, kwargs, group)
        # A variable of one data device, such as the state of a generator, has no copies.
        with tf.device(var.device):
            made = fn(var, *args, **kwargs)
        return made if group else tf.nest.map_structure(self._local_results, made)

    def captured_by(self, data_device: str) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """A function that replaces the tensors captured by a front end on `data_device`.

        A front end is traced once, with the variables of the first data device.
        """
        if data_device not in self.data_devices[1:]:  # the first one, or the host
            return None
        place = self.data_devices.index(data_device)

        def captured(tensor):
            for handles in self._copied:
                if tensor is handles[0]:
                    return handles[place]
            return tensor

        return captured

    def slot_counts(self, options) -> tuple[int, int]:
        """How many batches may wait on the data device and on the model device, at first."""
        ready = (FIRST if self.slots == "auto" else self.slots) - 2
        if options is not None and options.experimental_per_replica_buffer_size != 1:
            ready = options.experimental_per_replica_buffer_size
            return min(ready, 1), ready
        return 1, ready

    def copying_slots(self, options) -> int:
        """How many of the latter are for batches on their way from the host, if these are large.

        With "auto" there are none at first.  There are none if the data devices do all the training
        as well: then they are never idle, and batches came later.
        """
        given = options is not None and options.experimental_per_replica_buffer_size != 1
        none = given or self._data_devices_train_alone or self.slots == "auto"
        return 0 if none else copying_slots(self.slots)

    def copy_trial(self, host_spec) -> CopyTrial:
        """For `slots="auto"`, of a dataset whose host makes batches of that spec."""
        allowed = not self._data_devices_train_alone and copied_ahead(host_spec, self.data_device)
        return CopyTrial(self.data_devices, bytes_of(component_specs(host_spec)), allowed)

    @property
    def _data_devices_train_alone(self) -> bool:
        return set(self.worker_devices) <= set(self.data_devices)


@contextlib.contextmanager
def data_scope():
    """Variables made in this scope live on the data device of the strategy in whose scope it is.

        with strategy.scope():
            with data_scope():
                front_end_net = ...

    Where a strategy has several data devices, each has a copy, and an assignment changes all.
    Under any other strategy, or none, it changes nothing.
    """
    extended = tf.distribute.get_strategy().extended
    with getattr(extended, "data_scope", contextlib.nullcontext)():
        yield


def check_options(
    options: tf.distribute.InputOptions | None, against_per_replica: str | None
) -> None:
    """Refuses options that the strategy does not support.

    `against_per_replica` says why there is no pipeline for each replica; None if there is one.
    """
    if options is None:
        return
    if options.experimental_per_replica_buffer_size < 0:
        raise ValueError(
            "InputOptions.experimental_per_replica_buffer_size must be at least 0, got "
            f"{options.experimental_per_replica_buffer_size}"
        )
    if against_per_replica and options.experimental_replication_mode != PER_WORKER:
        raise NotImplementedError(
            "InputOptions.experimental_replication_mode=PER_REPLICA was asked for, but "
            f"{against_per_replica}"
        )


def check_slots(slots: int | str, auto: bool) -> None:
    if auto and slots == "auto":
        return
    if isinstance(slots, bool) or not isinstance(slots, int) or slots < 2:
        raise ValueError(
            "slots must be a whole number of at least 2 (one batch preparing, one training)"
            + (', or "auto"' if auto else "")
            + f", got slots={slots!r}"
        )
