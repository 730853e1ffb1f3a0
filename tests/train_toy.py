"""train.py, but its tokenizer stage is the toy of tests/myxtts/training, traced within a second.

For tests of what surrounds the steps of a run, in processes of their own. A step takes at least
50 ms, so that a test can meet it.
"""

import sys
import time

from myxtts.command.main import run
from myxtts.training.loop import Loop
from myxtts.training.stages import STAGES
from tests.myxtts.training.toy_stage import Toy

_run = Loop.run


def _slow(self, *arguments):
    time.sleep(0.05)
    _run(self, *arguments)


if __name__ == "__main__":
    STAGES["tokenizer"], Loop.run = Toy, _slow
    run(sys.argv)
