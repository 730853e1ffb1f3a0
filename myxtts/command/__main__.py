"""Trains a voice: tokenizer, GPT and vocoder; without flags, on speech that is made on the spot."""

from myxtts.command.main import run

if __name__ == "__main__":
    run(program=("-m", "myxtts", "train"))
