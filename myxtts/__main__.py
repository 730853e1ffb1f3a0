"""The commands of this package by name: `myxtts train`, or `python -m myxtts train`.

Each command is also a module for `python -m`; `train.py` in the repository is `myxtts train`.
"""

import difflib
import runpy
import sys

from myxtts import start_up

COMMANDS = {
    "train": ("myxtts.command", "Train a voice; without flags on speech that is made then."),
    "speak": ("myxtts.synthesis", "Let a trained voice speak, in the voice of a recording."),
    "corpus": ("myxtts.corpus", "Check and prepare a corpus, or make one."),
    "evaluate": ("myxtts.evaluation", "Measure a trained voice: words understood, voices cloned."),
    "export": ("myxtts.export", "Write a trained voice as a SavedModel that needs no myxtts."),
}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "-help", "--help", "help"):
        print("Usage: myxtts COMMAND [--flags]    (or python -m myxtts COMMAND [--flags])\n")
        for command, (_, what) in COMMANDS.items():
            print(f"  {command:<10}{what}")
        print("\nmyxtts COMMAND --help lists the flags of a command.")
    elif name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
        sys.exit(f"error: there is no command {name!r}; {hint}")
    else:
        start_up.quieten()
        del sys.argv[1]
        runpy.run_module(COMMANDS[name][0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
