"""The contenders: ways to do the same work.

Each makes a loop, which is a function for the next batch and one for a step.  Every step returns a
loss, which the loop reads, on every step or now and then.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from dual_device_strategy.devices.names import kind_and_index
from dual_device_strategy.front_end import on_data_device
from dual_device_strategy.replicas import MirroredDataModelSplitStrategy
from dual_device_strategy.strategy import DataModelSplitStrategy
from dual_device_strategy.whatif import Work, best_shares
from dual_device_strategy.workload import Workload

OURS = "split (ours)"
SHARED = "split, data device trains a share (ours)"
OF_OURS = (OURS, SHARED)
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
    workload: Workload, setting: Setting, measured: Callable[[], Work] | None = None
) -> dict[str, Callable[[], Loop]]:
    """Functions that make a loop, by name; making one may run out of memory.

    `measured` tells what the parts take alone; the shares follow from it.  Without it there is no
    contender with shares.
    """
    made = {
        OURS: split,
        "one device": one_device,
        "mirrored, one device": mirrored_on_one,
        "by hand on both devices": by_hand,
        HOST_SIDE: host_side,
    }
    found = {name: lambda make=make: make(workload, setting) for name, make in made.items()}
    count = len(setting.all_devices)
    if count > 1 and workload.batch_size >= count and measured:
        found[SHARED] = lambda: with_shares(workload, setting, measured())
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


def with_shares(workload: Workload, setting: Setting, work: Work) -> Loop:
    """The data devices train as well, as many rows as make all devices take the same time."""
    data, model = setting.data_devices, setting.all_devices
    shares = setting.shares or _best(setting, work).shares
    strategy = MirroredDataModelSplitStrategy(data, model, slots=setting.slots, shares=shares)
    return _staged(strategy, workload)


def _best(setting, work):
    return best_shares(work, len(setting.data_devices), len(setting.all_devices))


def shares_of(setting: Setting, work: Work) -> str:
    """The shares of `with_shares` in words."""
    if setting.shares == "auto":
        return "shares chosen while it trains"
    if setting.shares:
        return f"shares {','.join(f'{share:g}' for share in setting.shares)}"
    return f"{':'.join(map(str, _best(setting, work).rows))} rows"


def _staged(strategy, workload):
    dataset = workload.host().apply(on_data_device(workload.front_end))
    return _under(strategy, dataset, workload.train_step)


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


def by_hand(workload: Workload, setting: Setting) -> Loop:
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
        hold_core = holding_a_core(front_end_core_ms(workload, setting))
        front_end = lambda *batch: hold_core(batch)  # noqa: E731
    with tf.device("/CPU:0"):
        dataset = workload.host().map(front_end, num_parallel_calls=tf.data.AUTOTUNE)
    iterator = _prefetched(dataset, model)
    run = tf.function(train)
    return lambda: next(iterator), on(model, run)


def front_end_core_ms(workload: Workload, setting: Setting) -> float:
    """How long the front end keeps a core of the host busy with a batch."""
    if workload.part_ms:
        return workload.scaled_ms()[1] * setting.host_slowdown
    with tf.device("/CPU:0"):
        batch, times = next(iter(workload.host())), []
        run = tf.function(lambda *batch: workload.front_end(*batch)[1][0, 0, 0])
        run(*batch).numpy()
        for _ in range(5):
            begin = time.process_time()
            run(*batch).numpy()
            times.append(1e3 * (time.process_time() - begin))
    return statistics.median(times)


def on(device: str, function: Callable) -> Callable:
    def call(*arguments):
        with tf.device(device):
            return function(*arguments)

    return call


def holding_a_core(ms: float) -> Callable:
    """A function that passes a batch on after `ms` milliseconds of work on one core."""
    with tf.device("/CPU:0"):
        matrix = tf.eye(64)  # small enough that one core multiplies it

    def products(times):
        return tf.while_loop(lambda i, _: i < times, lambda i, m: (i + 1, m @ matrix), (0, matrix))[
            1
        ]

    timed, times = tf.function(products), 500
    with tf.device("/CPU:0"):
        timed(tf.constant(times))
        begin = time.process_time()
        for _ in range(5):
            timed(tf.constant(times)).numpy()
        per_ms = 5 * times / max(1e-3, 1e3 * (time.process_time() - begin))
    wanted = round(ms * per_ms)

    def hold(batch):
        with tf.control_dependencies([products(wanted)]):
            return tuple(tf.identity(t) for t in batch)

    return hold


def _under(strategy, dataset, make_step) -> Loop:
    with strategy.scope():
        train = make_step()
    iterator = iter(strategy.experimental_distribute_dataset(dataset))

    @tf.function
    def step(batch):
        loss = strategy.run(train, args=(batch,))
        if strategy.num_replicas_in_sync > 1:
            return strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None)
        return loss

    return lambda: next(iterator), step


def _inline(workload):
    train = workload.train_step()
    return lambda batch: train(workload.front_end(*batch))


def _prefetched(dataset, device):
    kind, index = kind_and_index(device)
    if kind == "CPU":  # prefetch_to_device does not copy to another CPU device
        return iter(dataset.prefetch(2))
    move = tf.data.experimental.prefetch_to_device(f"/{kind}:{index}", buffer_size=2)
    return iter(dataset.apply(move))
