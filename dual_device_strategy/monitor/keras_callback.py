"""The monitor as a callback of `model.fit`."""

import keras


class MonitorCallback(keras.callbacks.Callback):
    """A callback that tells a `Monitor` when the calls of `fit` begin and end.

    Made by `Monitor.callback()`.  `fit` takes its batches inside a tf.function, so a step is timed
    from the beginning of one batch to the beginning of the next, other callbacks included.
    """

    def __init__(self, monitor):
        super().__init__()
        self._monitor = monitor
        self._call = None
        self._starts_epoch = False

    def on_train_begin(self, logs=None):
        self._call = None  # of a fit that failed

    def on_epoch_begin(self, epoch, logs=None):
        self._starts_epoch = self._monitor._epochs > 0
        self._first_batch = True

    def on_train_batch_begin(self, batch, logs=None):
        self._end_call()
        iterator = None
        if self._first_batch:
            # Keras makes its iterator after the epoch begins and before its first batch does, or
            # goes on with the one it has; and the newest iterator may be that of validation.
            self._first_batch = False
            running = self._monitor._running_input
            last = running and running.counted_iterator
            if last is not None and last is not self._validation():
                iterator = last
            elif last is None and running and self._distributed():
                self._monitor._came_too_late()
        self._begun_at = batch
        self._call = self._monitor._begin_call(iterator)

    def on_train_batch_end(self, batch, logs=None):
        self._steps = batch - self._begun_at + 1

    def on_test_begin(self, logs=None):
        self._end_call()

    def on_epoch_end(self, epoch, logs=None):
        self._end_call()
        self._monitor._end_epoch()

    def on_train_end(self, logs=None):
        self._monitor.close()

    def _distributed(self):
        """Whether the model is trained under the monitor's strategy."""
        strategy = getattr(self.model, "distribute_strategy", None)
        return strategy is not None and strategy.extended is self._monitor._extended

    def _validation(self):
        evaluation = getattr(self.model, "_eval_epoch_iterator", None)
        return getattr(evaluation, "_current_iterator", None)

    def _end_call(self):
        if self._call is not None:
            self._monitor._end_call(*self._call, self._steps, self._starts_epoch)
            self._starts_epoch = False
            self._call = None
