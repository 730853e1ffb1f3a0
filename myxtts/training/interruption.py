"""SIGINT and SIGTERM, noted so that the loop can end between two calls."""

import os
import signal
import threading


class Interruption:
    """While it is entered, the first signal is noted in `signal`; a second one ends the process
    as it would have without this.

    Outside the main thread Python cannot watch signals, and nothing is watched.
    """

    def __init__(self):
        self.signal: str | None = None
        self._before = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number, frame):
        self.signal = signal.Signals(number).name
        # Not print: the signal may have come in the middle of one.
        os.write(2, f"\n{self.signal}: saving, then stopping (once more: at once)\n".encode())
        self.__exit__()
