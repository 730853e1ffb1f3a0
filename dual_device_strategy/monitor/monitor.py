"""Watches a training run: step time, waiting, slots, devices and memory."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import tensorflow as tf

from dual_device_strategy.devices import DeviceSampler, short_name
from dual_device_strategy.monitor import diagnosis, memory
from dual_device_strategy.monitor.arrivals import ReadyCounts, slots_of
from dual_device_strategy.monitor.keras_callback import MonitorCallback
from dual_device_strategy.monitor.report import device_figures, report, roles
from dual_device_strategy.monitor.run_log import RunFiles, line_of
from dual_device_strategy.monitor.step_times import StepTimes


class Monitor:
    """A record of a training run: how long steps take, what they wait for, what memory they need.

    It warns once for each thing that keeps training waiting, with the setting most likely to help,
    and can write its figures for TensorBoard and for `compare --logs`.  Make it before datasets are
    distributed, because only then are batches counted on their way (it warns if it came too late):

        monitor = Monitor(strategy, json_file="run.jsonl", log_dir="logs")
        dataset = strategy.experimental_distribute_dataset(dataset)
        for epoch in range(epochs):
            for batch in monitor.batches(dataset):
                loss = strategy.run(train_step, args=(batch,))
                print(loss.numpy())
        print(monitor.close())

    With Keras it is a callback: `model.fit(..., callbacks=[monitor.callback()])`.  It may be given
    to several fits, which go on with the same figures.  Where a tf.function runs several steps at
    each call:

        with monitor.call(iterator, steps=100):
            run_a_hundred_steps(iterator)

    A step lasts from asking for its batch to asking for the next one.  TensorFlow dispatches
    asynchronously, so a loop that reads nothing back runs ahead of its device, and waiting shows
    up in later steps than those that caused it.  So read the loss, as trainers do.

    Inside a tf.function less can be measured.  A call of several steps has one time, so variation
    within it is averaged away.  Only the waiting for its first batch can be measured, so waiting is
    reported for calls of one step (Keras without `steps_per_execution`) and is unknown for others.
    The results of Keras's function pass through GPU:0, TensorFlow's default device.  If that is
    the data device, reading them waits for the front end, and counts as the step's time.

    A GPU's utilisation only says that some kernel ran; judge by the wait share.  The first steps,
    which trace, and the first step of each later epoch, which fills the slots, are reported
    separately.  Several devices of a kind are all watched, as "data 0", "data 1" and so on.

    Args:
      strategy: the strategy of the run; None for the one in scope.
      json_file: writes figures to this file, one JSON object per line; `compare --logs` reads it.
      log_dir: writes figures for TensorBoard to this directory.
      first_steps: the number of steps (or calls) at the start that are reported separately.
      window: the number of latest steps that warnings are based on.
      sample_every: counts the READY batches on every Nth step.
      write_seconds: the interval of writing figures, checking memory and checking for warnings.
      device_seconds: the interval of sampling the devices.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy | None = None,
        *,
        json_file: str | Path | None = None,
        log_dir: str | Path | None = None,
        first_steps: int = 5,
        window: int = 100,
        sample_every: int = 10,
        write_seconds: float = 2.0,
        device_seconds: float = 0.5,
    ):
        strategy = strategy or tf.distribute.get_strategy()
        self._extended = strategy.extended
        # None under strategies other than ours.
        self._running_input = getattr(self._extended, "running_input", None)
        self._too_late = False
        if self._running_input:
            self._running_input.counts_arrivals = True
        self._times = StepTimes(first_steps, window)
        self._noted: list[tuple[float, float, bool]] = []  # steps of which no figures are made yet
        self._warnings = diagnosis.Warnings()
        self._sample_every, self._write_seconds = sample_every, write_seconds
        data = getattr(self._extended, "data_devices", ())
        self._roles = roles("data", data) | roles("model", self._extended.worker_devices)
        self._use = DeviceSampler(list(self._roles.values()), device_seconds)
        self._memory = memory.MemoryWatch(self._roles)
        self._steps = self._calls = self._epochs = self._judged = 0
        self._last_write = self._started = time.perf_counter()
        self._ready = ReadyCounts()
        self._steps_per_call = 1
        self._closed = None
        self._files = RunFiles(
            json_file,
            log_dir,
            {
                "strategy": type(strategy).__name__,
                "slots": self._running_input and self._running_input.slots,
                "devices": {role: short_name(name) for role, name in self._roles.items()},
            },
        )
        self._use.start()

    def batches(self, dataset: Iterable) -> Iterator:
        """Yields the batches of one epoch of a dataset, or of an iterator, and times the steps."""
        self._reopen()
        iterator = iter(dataset)
        self._follow(iterator)
        ready = self._ready if self._ready.arrivals else None
        clock, noted, sample_every = time.perf_counter, self._noted, self._sample_every
        starts_epoch = self._epochs > 0
        self._note_steps()
        before, count, asked = self._calls, 0, clock()
        while True:
            # Work done here lengthens every step, so the figures of many steps are made at a time.
            asked_now = asked
            if (before + count) % sample_every == 0:
                self._note_steps()
                if ready:
                    self._count_ready()
                    asked_now = clock()
            batch = next(iterator, self)
            if batch is self:
                break
            wait = clock() - asked_now
            count += 1
            if ready:
                ready.took(1)
            held = [batch]
            del batch  # this frame must not keep it longer than the consumer does
            yield held.pop()
            now = clock()
            noted.append((now - asked, wait, starts_epoch))
            starts_epoch = False
            asked = now
        self._note_steps()
        self._end_epoch()

    @contextlib.contextmanager
    def call(self, iterator: Iterator | None = None, steps: int = 1):
        """A call that takes `steps` batches from the iterator, inside a tf.function."""
        begin, sample = self._begin_call(iterator)
        yield
        self._end_call(begin, sample, steps, False)

    def callback(self) -> MonitorCallback:
        """A callback for `model.fit`; figures are per step, also with `steps_per_execution`."""
        return MonitorCallback(self)

    @property
    def warnings(self) -> list[str]:
        """The warnings so far."""
        return list(self._warnings.texts)

    @property
    def times(self) -> StepTimes:
        """The figures of the steps so far."""
        self._note_steps()
        return self._times

    def summary(self) -> dict:
        """All figures so far."""
        uses = self._use.summary()
        return {
            **self.times.summary,
            **slots_of(self._running_input),
            "total_seconds": time.perf_counter() - self._started,
            "epochs": self._epochs,
            "steps_per_call": self._steps_per_call,
            "devices": {
                role: device_figures(name, uses[name], self._use.absent.get(name))
                for role, name in self._roles.items()
            },
            "warnings": self.warnings,
        }

    def report(self) -> str:
        """The figures so far, to print."""
        return report(self.summary())

    def close(self) -> str:
        """Ends the measurement, completes the files, and returns the final report.

        Used again, the monitor goes on with its figures and its files.
        """
        if self._closed is None:
            self._use.stop()
            self._note_steps()
            self._write()
            summary = self.summary()
            self._files.close(summary)
            self._closed, self._closed_at = report(summary), time.perf_counter()
        return self._closed

    def _reopen(self):
        if self._closed is not None:
            self._closed = None
            self._started += time.perf_counter() - self._closed_at
            self._files.reopen()
            self._use.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _follow(self, iterator):
        if self._ready.follow(iterator):
            self._too_late = False
        # Only iterators of our strategy have `counts`; None where nothing is counted.
        elif self._running_input and getattr(iterator, "countable", hasattr(iterator, "counts")):
            self._came_too_late()

    def _came_too_late(self):
        self._too_late = True
        self._warnings.add(
            "too late",
            "the Monitor was made after the dataset was distributed, so READY batches are not "
            "counted and the cause of waiting is unknown: make the Monitor first",
        )

    def _begin_call(self, iterator=None):
        self._reopen()
        if iterator is not None:
            self._follow(iterator)
        sample = None
        if self._ready.arrivals and self._calls % self._sample_every == 0:
            sample = self._count_ready(), time.time()
        return time.perf_counter(), sample

    def _end_call(self, begin, sample, steps, starts_epoch):
        lasted = time.perf_counter() - begin
        wait = None
        if sample and steps == 1:
            ready, asked = sample
            # A READY batch is not waited for; of any other the time of arrival is known.
            arrived = None if ready else self._ready.arrivals.time_of_next()
            wait = 1e3 * max(0.0, arrived - asked) if arrived else 0.0
        self._ready.took(steps)
        self._steps_per_call = steps
        self._note(1e3 * lasted / steps, wait, starts_epoch, steps)

    def _count_ready(self):
        ready = self._ready.count()
        if self._calls > self._times.first.count:
            self._times.add_ready(ready)
        return ready

    def _note_steps(self):
        noted = self._noted.copy()
        self._noted.clear()
        for step, wait, starts_epoch in noted:
            self._note(1e3 * step, 1e3 * wait, starts_epoch)

    def _note(self, step_ms, wait_ms, starts_epoch, steps=1):
        self._times.add(step_ms, wait_ms, starts_epoch, steps)
        self._steps += steps
        self._calls += 1
        if self._calls % 10 == 0:
            if self._steps >= memory.STEPS_BEFORE_GROWTH and not self._memory.compares:
                self._memory.remember(self._use.sample())
            if time.perf_counter() - self._last_write > self._write_seconds:
                self._write()

    def _end_epoch(self):
        self._epochs += 1
        self._write()
        if not self._memory.compares:
            self._memory.remember(self._use.sample())

    def _write(self):
        self._last_write = time.perf_counter()
        recent = self._times.recent
        uses = self._use.sample()
        if recent["count"] >= min(20, self._times._window.maxlen):
            data = [self._use.busy(n) for role, n in self._roles.items() if role[:4] == "data"]
            self._judge(recent, max((busy for busy in data if busy is not None), default=None))
        for role, text in self._memory.grown(uses, self._steps).items():
            self._warnings.add(("memory", role), text)
        samples = {role: uses[name] for role, name in self._roles.items() if name in uses}
        values = line_of(recent, self._ready.mean_since_last(), samples)
        self._files.write(self._steps, time.perf_counter() - self._started, values)

    def _judge(self, recent, busy):
        if self._calls - self._judged < 20:
            return
        self._judged = self._calls
        part = diagnosis.slow_part(
            empty_share=self._ready.empty_share,
            host_wait_share=self._ready.host_wait_share(),
            data_busy=busy,
        )
        for warning in diagnosis.warnings(recent, None if self._too_late else part):
            self._warnings.add(warning.cause, warning.text)
