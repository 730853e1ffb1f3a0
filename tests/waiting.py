"""Waiting for a condition: the end of waiting is for a test that fails, not a bound on speed."""

import time

PATIENCE = 240  # seconds; more than the slowest, busiest machine takes


def wait_until(condition, why=lambda: "waited in vain", seconds=PATIENCE):
    """What `condition()` returns as soon as it is true; fails with `why()` after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, why()
        time.sleep(0.01)
    return found


def wait_for_output(process, text):
    """Until a process of `processes` has printed `text`; fails if it ends before."""
    wait_until(
        lambda: text in process.stdout or process.poll() is not None, lambda: process.stderr[-3000:]
    )
    assert text in process.stdout, process.stderr[-3000:]


def at_rest(read, turns=10):
    """What `read()` returns once it has not changed for `turns` hundredths of a second."""
    seen = []

    def unchanged():
        seen.append(read())
        return len(seen) > turns and len({repr(each) for each in seen[-turns:]}) == 1

    wait_until(unchanged, lambda: f"never at rest: {seen[-3:]}")
    return seen[-1]
