"""Trains a voice: `python train.py` alone makes speech and trains on it for ten minutes.

`python train.py --help` lists the flags; everything they do is in `myxtts/command/`.
"""

import os

# TensorFlow's own start-up messages say nothing about the training.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from myxtts.command.main import run

if __name__ == "__main__":
    run()
