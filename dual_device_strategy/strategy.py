"""DataModelSplitStrategy: batches are prepared on one device while another one trains."""

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.data_service import DataService
from dual_device_strategy.devices import Devices, device_pair
from dual_device_strategy.distributed import StagedDataset
from dual_device_strategy.out_of_memory import explained, size_of
from dual_device_strategy.staged_input import StagedInput, check_options, check_slots

_ONE_REPLICA = "there is one replica; use PER_WORKER, the default"


class DataModelSplitStrategy(tf.distribute.OneDeviceStrategy):
    """A strategy that trains on one device and prepares batches on another.

    It is for two GPUs and an input pipeline that keeps the first one waiting:

    >>> strategy = DataModelSplitStrategy("CPU:1", "CPU:2")     # or "GPU:1", "GPU:0"
    >>> with strategy.scope():
    ...     weight = tf.Variable(2.0)                           # on the model device
    ...     with data_scope():
    ...         scale = tf.Variable(0.5)                        # on the data device
    >>> weight.device, scale.device
    ('/job:localhost/replica:0/task:0/device:CPU:2', '/job:localhost/replica:0/task:0/device:CPU:1')

    The function given to `on_data_device` runs on the data device, one batch ahead of the step:

    >>> dataset = tf.data.Dataset.range(8).batch(4)
    >>> dataset = dataset.apply(on_data_device(lambda x: scale * tf.cast(x, tf.float32)))
    >>> @tf.function
    ... def train_step(batch):
    ...     return tf.reduce_sum(weight * batch)
    >>> for batch in strategy.experimental_distribute_dataset(dataset):
    ...     print(strategy.run(train_step, args=(batch,)).numpy())
    6.0
    22.0

    Keras `fit`, `evaluate` and `predict` distribute their datasets in the same way.  The same
    script runs under `MirroredStrategy`, `OneDeviceStrategy` or no strategy: there the function
    is an ordinary `map` on the host and `data_scope()` changes nothing.  There is one replica, on
    the model device.

    A batch is PREPARING on the data device, then READY on the model device, then TRAINING.  No
    more than `slots` batches exist beyond the host: by default one PREPARING, two READY or on their
    way, one TRAINING.  A batch counts once while it is copied, although both devices hold it; so
    each device holds up to `slots - 1` batches.  Four is the least that hides the copy in a
    loop that runs ahead of the device: TensorFlow's copy waits for the steps that are queued
    when it is issued, so such a loop needs two copies under way.  With three slots there is one
    copy at a time, and such loops wait for it.  With two there is no READY batch, and every loop
    waits.

    With six slots or more, two of them are for batches that are COPYING from the host: two COPYING,
    one PREPARING, `slots - 4` READY, one TRAINING.  Otherwise the copy from the host waits for the
    front end of the batch before.  It pays where that copy takes a good part of a step; loops with
    nearly empty steps become slower.  There are no COPYING slots for batches of a known size below
    1 MB, for ragged and sparse ones, for a data device that is a CPU, and for a dataset with its
    own number of READY slots.  With `slots="auto"` they are tried for an epoch.

    These options are set on a dataset, unless the user's own `tf.data.Options` set them:

    * `threading.private_threadpool_size`, for the host pipeline: the number of cores.  The hops
      to the devices have threads of their own, so neither waits for the other's.
    * On the two devices: no autotuning, no injected prefetch and no other rewriting, because
      every buffer there is a slot.

    The order of elements and determinism are left as they are.

    `tf.distribute.InputOptions`: `experimental_fetch_to_device=False` leaves the batches on the
    host of the model device.  `experimental_per_replica_buffer_size`, if it is not 1 (the
    default of TensorFlow), is the number of READY slots for that dataset; 0 also stops the data
    device from working ahead.  `PER_REPLICA` is refused, as under `OneDeviceStrategy`.
    `experimental_place_dataset_on_device` does the same as under `OneDeviceStrategy`: it has no
    effect on a whole dataset, and TensorFlow raises an error for a dataset function.

    `strategy.data_device` and `strategy.model_device` are full device names.  `strategy.slots` is
    the requested number; an iterator's `slots` is the number it has.

    Args:
      data_device: where input iterators and feature extraction live, by its logical name in this
        program, such as "GPU:1".  Or the result of `configure_devices(data_gpu=..., model_gpu=...)`
        for both devices: that function takes physical indices and knows the names.
      model_device: where variables live and steps run, such as "GPU:0".  With neither given, the
        data is on GPU:1 and the model on GPU:0, TensorFlow's default device, unless GPU:1 is the
        card with more memory or, at equal memory, the faster one; with one GPU the data is on the
        host; without any, the two are the first logical CPUs.  The choice is logged.
      slots: the most batches that may exist beyond the host, at least 2.  "auto" begins with 4 and
        chooses anew whenever a dataset is iterated again, never inside an epoch: the smallest
        number up to 8 that hides the jitter measured in the epoch before and fits into the model
        device's free memory.  Where the data device is the slowest part, it tries six with COPYING
        slots for an epoch, and keeps them if they are faster.  If the loop over an epoch is inside
        a tf.function, the number stays as it was when that function was traced.
      warm_up: fill the READY slots before the first batch is handed out.
      data_service: runs the host's part of every dataset; None runs it on this host.
    """

    def __init__(
        self,
        data_device: str | Devices | None = None,
        model_device: str | None = None,
        *,
        slots: int | str = 4,
        warm_up: bool = False,
        data_service: DataService | None = None,
    ):
        check_slots(slots, auto=True)
        if isinstance(data_device, Devices):
            if model_device is not None:
                raise ValueError(
                    f"model_device={model_device!r} was given beside what configure_devices() "
                    f"returned, which names both devices ({data_device}); leave one of them out"
                )
            data_device, model_device = data_device.data_device, data_device.model_device
        data_device, model_device = device_pair(data_device, model_device)
        # Not OneDeviceStrategy.__init__, which makes an extended of its own.  This derives from
        # OneDeviceStrategy because libraries look for it in strategies with a single replica.
        tf.distribute.Strategy.__init__(
            self,
            SplitExtended(self, data_device, model_device, slots=slots, warm_up=bool(warm_up)),
        )
        self.extended.data_service = data_service

    @property
    def data_device(self) -> str:
        """The full name of the device of input iterators and feature extraction."""
        return self.extended.data_device

    @property
    def model_device(self) -> str:
        """The full name of the device of variables and steps."""
        return self.extended.worker_devices[0]

    @property
    def slots(self) -> int | str:
        """The requested number of slots, or "auto"; `iterator.slots` is the number in use."""
        return self.extended.slots

    def run(self, fn, args=(), kwargs=None, options=None):
        """Runs `fn` on the model device, as `OneDeviceStrategy.run` does."""
        try:
            return super().run(fn, args, kwargs, options)
        except tf.errors.ResourceExhaustedError as error:
            tensors = tf.nest.flatten((args, kwargs), expand_composites=True)
            batch = size_of([t for t in tensors if tf.is_tensor(t)])
            raise explained(error, self, batch, in_step=True) from None


class SplitExtended(StagedInput, compat.OneDeviceExtended):
    """The strategy's variables and datasets: one replica on the model device."""

    def __init__(self, strategy, data_device, model_device, *, slots, warm_up):
        super().__init__(strategy, model_device)
        self.set_data_devices([data_device], slots, warm_up)

    def _experimental_distribute_dataset(self, dataset, options):
        check_options(options, _ONE_REPLICA)
        return StagedDataset(self._container_strategy(), dataset, options)

    def _distribute_datasets_from_function(self, dataset_fn, options):
        check_options(options, _ONE_REPLICA)
        strategy = self._container_strategy()
        workers = self._input_workers_with_options(options)
        made = compat.datasets_from_function(
            dataset_fn, workers=workers, replicas=1, strategy=strategy, options=options
        )
        return StagedDataset(strategy, made._datasets[0], options)

    def _input_workers_with_options(self, options=None):
        target = self._device
        if options is not None and not options.experimental_fetch_to_device:
            target = self._input_device
        return compat.InputWorkers([(compat.host_of(self.data_device), (target,))])
