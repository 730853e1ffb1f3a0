"""Trains a voice: tokenizer, GPT and vocoder; without flags, on speech that is made on the spot."""

from myxtts import start_up

start_up.quieten()
start_up.say_loading()

from myxtts.command.main import run  # noqa: E402 -- TensorFlow is loaded here

if __name__ == "__main__":
    run(program=("-m", "myxtts", "train"))
