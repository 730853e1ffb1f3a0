"""Trains a voice: `python train.py` alone makes speech and trains on it for ten minutes.

`python train.py --help` lists the flags; everything they do is in `myxtts/command/`.
"""

from myxtts import start_up

start_up.quieten()
start_up.say_loading()

from myxtts.command.main import run  # noqa: E402 -- TensorFlow is loaded here

if __name__ == "__main__":
    run()
