"""The contenders: ways to do the same work.

Each makes a loop, which is a function for the next batch and one for a step.  Every step returns a
loss, which the loop reads, on every step or now and then.
"""

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from dual_device_strategy.compare.host_cores import front_end_core_ms, holding_a_core
from dual_device_strategy.devices.names import kind_and_index
from dual_device_strategy.front_end import on_data_device
from dual_device_strategy.replicas import MirroredDataModelSplitStrategy
from dual_device_strategy.strategy import DataModelSplitStrategy
from dual_device_strategy.whatif import Work, best_shares
from dual_device_strategy.workload import Workload

OURS = "split (ours)"
SHARED = "split, data device trains a share (ours)"
AUTO = 'split, shares="auto" (ours)'
OF_OURS = (OURS, SHARED, AUTO)
# shares="auto" gets epochs of LOOK_STEPS until it has chosen, but at most MOST_LOOKS of them.
LOOK_STEPS, MOST_LOOKS = 24, 12
HOST_SIDE = "front end on the host"
IN_STEP = "mirrored, front end in the step"
Loop = tuple[Callable[[], object], Callable[[object], tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Setting:
    """The devices and slots, and how many times longer the front end takes on a host's core.

    Devices are names, or several of them, as in `Devices`.  `shares` are those of the devices that
    train where data devices train too, theirs last; chosen by `whatif` if left out.
    """

    data_device: str | Sequence[str]
    model_device: str | Sequence[str]
    slots: int | str = 4
    host_slowdown: float = 1.0
    shares: Sequence[float] | str | None = None

    @property
    def data_devices(self) -> tuple[str, ...]:
        return _several(self.data_device)

    @property
    def model_devices(self) -> tuple[str, ...]:
        """Those that only train."""
        data = self.data_devices
        only = tuple(device for device in _several(self.model_device) if device not in data)
        return only or _several(self.model_device)

    @property
    def all_devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.model_devices, *self.data_devices)))


def _several(devices):
    return (devices,) if isinstance(devices, str) else tuple(devices)


def contenders(
    workload: Workload,
    setting: Setting,
    measured: Callable[[], Work] | None = None,
    details: dict[str, str] | None = None,
) -> dict[str, Callable[[], Loop]]:
    """Functions that make a loop, by name; making one may run out of memory.

    `measured` tells what the parts take alone; the shares follow from it.  Without it there is no
    contender with shares.  Into `details` goes, by name, what else is to be known of a contender
    that was made.
    """
    details = {} if details is None else details
    made = {
        OURS: split,
        "one device": one_device,
        "mirrored, one device": mirrored_on_one,
        "tf.device on both devices": with_tf_device,
        HOST_SIDE: host_side,
    }
    found = {name: lambda make=make: make(workload, setting) for name, make in made.items()}
    count = len(setting.all_devices)
    if count > 1 and workload.batch_size >= count and measured:
        found[SHARED] = lambda: with_shares(workload, setting, measured(), details)
        if setting.shares is None:
            choice = {}  # kept from round to round
            found[AUTO] = lambda: with_chosen_shares(workload, setting, choice, details)
    if count > 1 and workload.batch_size % count == 0:
        found[IN_STEP] = lambda: mirrored_on_all(workload, setting)
    return found


def parts_alone(workload: Workload, setting: Setting) -> dict[str, Callable[[], Loop]]:
    """Loops over one part each, on a batch that stays in place; the slowest is the limit."""
    data, model = setting.data_devices[0], setting.model_devices[0]

    def host():
        iterator = iter(workload.host())
        return lambda: next(iterator), lambda batch: batch[1][0, 0, 0]

    def front_end():
        with tf.device(data):
            batch = [tf.identity(t) for t in next(iter(workload.host()))]
        run = tf.function(lambda batch: workload.front_end(*batch)[1][0, 0, 0])
        return lambda: batch, on(data, run)

    def step():
        strategy = tf.distribute.OneDeviceStrategy(model)
        with tf.device(data):
            prepared = workload.front_end(*next(iter(workload.host())))
        with tf.device(model):
            batch = tuple(tf.identity(t) for t in prepared)
        with strategy.scope():
            train = workload.train_step()
        return lambda: batch, tf.function(lambda batch: strategy.run(train, args=(batch,)))

    return {"host": host, "front end": front_end, "step": step}


def split(workload: Workload, setting: Setting) -> Loop:
    data, model = setting.data_devices, setting.model_devices
    if len(data) == len(model) == 1:
        strategy = DataModelSplitStrategy(data[0], model[0], slots=setting.slots)
    else:
        strategy = MirroredDataModelSplitStrategy(data, model, slots=setting.slots)
    return _staged(strategy, workload)


def with_shares(workload: Workload, setting: Setting, work: Work, details: dict) -> Loop:
    """The data devices train as well, as many rows as make all devices take the same time."""
    data, model = setting.data_devices, setting.all_devices
    best = best_shares(work, len(data), len(model))
    strategy = MirroredDataModelSplitStrategy(
        data, model, slots=setting.slots, shares=setting.shares or best.shares
    )
    details[SHARED] = f"{':'.join(map(str, best.rows))} rows"
    if setting.shares:
        details[SHARED] = f"shares {setting.shares}"
    return _staged(strategy, workload)


def with_chosen_shares(
    workload: Workload, setting: Setting, choice: dict, details: dict
) -> Loop:
    """The strategy chooses the shares; it is measured once it has chosen."""
    strategy = MirroredDataModelSplitStrategy(
        setting.data_devices, setting.all_devices, slots=setting.slots, shares="auto"
    )
    if choice:
        strategy.share_choice.deserialize(choice["made"])
    step, dataset = _step_under(strategy, workload.train_step), _prepared(workload)
    distributed = strategy.experimental_distribute_dataset(dataset)
    iterator = iter(distributed)
    looks = 0
    while not strategy.share_choice.settled and looks < MOST_LOOKS:
        for _ in range(LOOK_STEPS):
            step(next(iterator)).numpy()
        iterator = iter(distributed)  # it looks back at these steps
        looks += 1
    choice["made"] = strategy.share_choice.serialize()
    details[AUTO] = "shares " + ", ".join(f"{share:.2f}" for share in strategy.shares)
    return lambda: next(iterator), step


def _prepared(workload):
    return workload.host().apply(on_data_device(workload.front_end))


def _staged(strategy, workload):
    return _under(strategy, _prepared(workload), workload.train_step)


def one_device(workload: Workload, setting: Setting) -> Loop:
    strategy = tf.distribute.OneDeviceStrategy(setting.model_devices[0])
    return _under(strategy, workload.host(), lambda: _inline(workload))


def mirrored_on_one(workload: Workload, setting: Setting) -> Loop:
    strategy = tf.distribute.MirroredStrategy([setting.model_devices[0]])
    return _under(strategy, workload.host(), lambda: _inline(workload))


def mirrored_on_all(workload: Workload, setting: Setting) -> Loop:
    """Data parallel: all devices do all of the work, each on its part of the batch."""
    strategy = tf.distribute.MirroredStrategy(list(setting.all_devices))
    return _under(strategy, workload.host(), lambda: _inline(workload))


def with_tf_device(workload: Workload, setting: Setting) -> Loop:
    """Prefetching to the data device, and a copy to the model device inside the step."""
    data, model = setting.data_devices[0], setting.model_devices[0]
    with tf.device(model):
        train = workload.train_step()
    iterator = _prefetched(workload.host(), data)

    @tf.function
    def step(batch):
        with tf.device(data):
            features = workload.front_end(*batch)
        with tf.device(model):
            return train(tuple(tf.identity(t) for t in features))

    return lambda: next(iterator), step


def host_side(workload: Workload, setting: Setting) -> Loop:
    """Hand-tuned tf.data: the front end in a parallel map on the host's cores."""
    model = setting.model_devices[0]
    with tf.device(model):
        train = workload.train_step()
    front_end = workload.front_end
    if workload.part_ms:
        hold_core = holding_a_core(front_end_core_ms(workload, setting.host_slowdown))
        front_end = lambda *batch: hold_core(batch)  # noqa: E731
    with tf.device("/CPU:0"):
        dataset = workload.host().map(front_end, num_parallel_calls=tf.data.AUTOTUNE)
    iterator = _prefetched(dataset, model)
    run = tf.function(train)
    return lambda: next(iterator), on(model, run)


def on(device: str, function: Callable) -> Callable:
    def call(*arguments):
        with tf.device(device):
            return function(*arguments)

    return call


def _under(strategy, dataset, make_step) -> Loop:
    step = _step_under(strategy, make_step)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    return lambda: next(iterator), step


def _step_under(strategy, make_step):
    with strategy.scope():
        train = make_step()

    @tf.function
    def step(batch):
        loss = strategy.run(train, args=(batch,))
        if strategy.num_replicas_in_sync > 1:
            return strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None)
        return loss

    return step


def _inline(workload):
    train = workload.train_step()
    return lambda batch: train(workload.front_end(*batch))


def _prefetched(dataset, device):
    kind, index = kind_and_index(device)
    if kind == "CPU":  # prefetch_to_device does not copy to another CPU device
        return iter(dataset.prefetch(2))
    move = tf.data.experimental.prefetch_to_device(f"/{kind}:{index}", buffer_size=2)
    return iter(dataset.apply(move))
