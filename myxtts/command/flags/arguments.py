"""Parses the command line: flag files, older spellings, and all mistakes reported at once.

absl stops at the first argument that it cannot read; whoever corrects a long command line wants to
see all mistakes.
"""

import collections
import difflib
import sys
from collections.abc import Sequence

from absl import flags, logging

from myxtts.command.flags import groups, spellings
from myxtts.command.flags.table import described

INTRODUCTION = """Trains a voice: tokenizer, GPT and vocoder, one after the other, in one run.

  python train.py                              makes speech and trains on it for ten minutes
  python train.py --train_data=DIR             a corpus of your own
  python train.py --flagfile=FILE              flags from a file, one a line
  python train.py --helpfull                   all flags, including those of logging

The same command continues a run that was stopped."""


class Mistakes(Exception):
    """Raised with everything that is wrong with a command, a sentence each."""

    def __init__(self, sentences: Sequence[str]):
        self.sentences = list(dict.fromkeys(sentences))
        super().__init__("\n".join(self.sentences))


def parse(
    argv: Sequence[str], values: flags.FlagValues = flags.FLAGS
) -> tuple[list[str], list[str]]:
    """Sets the flags that can be read. Returns the arguments in today's spelling, and the mistakes
    in the others."""
    try:
        expanded = values.read_flags_from_files(list(argv[1:]), force_gnu=False)
    except (flags.Error, OSError) as error:
        raise Mistakes([f"{error}".removeprefix("ERROR:: ")]) from None
    if any(argument in ("--help", "-help", "-h") for argument in expanded):
        print("\n".join([INTRODUCTION, *described(groups())]))
        sys.exit(0)
    typed, mistakes = _read(expanded, values)
    now, changes, wrong = spellings.translate(typed)
    mistakes += wrong
    canonical = []
    for name, value in now:
        wrong = _mistakes_of(name, value, values)
        mistakes += wrong
        if not wrong:
            canonical.append(f"--{name}" if value is None else f"--{name}={value}")
    if changes:
        logging.info("older spellings: %s", ", ".join(changes))
    try:
        values([argv[0], *canonical])
    except flags.Error as error:  # a validator that a library registered
        mistakes.append(f"{error}")
    return canonical, mistakes


def _read(arguments: Sequence[str], values) -> tuple[list[spellings.Argument], list[str]]:
    """(name, value) pairs; the value may follow `=` or be the next argument."""
    found: list[spellings.Argument] = []
    mistakes: list[str] = []
    rest = collections.deque(arguments)
    while rest:
        argument = rest.popleft()
        dashes = len(argument) - len(argument.lstrip("-"))
        if dashes not in (1, 2) or not argument.lstrip("-"):
            mistakes.append(f"{argument}: it is no flag; flags begin with --")
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        if equals:
            found.append((name, value))
        elif _takes_value(name.replace("-", "_"), values):
            if rest:
                found.append((name, rest.popleft()))
            else:
                mistakes.append(f"--{name}: its value is missing")
        else:
            found.append((name, None))
            if rest and not rest[0].startswith("-") and not _known(name.replace("-", "_"), values):
                rest.popleft()  # probably the value of a flag that was misspelt
    return found, mistakes


def _takes_value(name: str, values) -> bool:
    if name in spellings.WITH_VALUE:
        return True
    return name in values and not values[name].boolean


def _known(name: str, values) -> bool:
    return (
        name in values or name.removeprefix("no") in values or name in spellings.SWITCHES
    )


def _mistakes_of(name: str, value: str | None, values) -> list[str]:
    switch = name.removeprefix("no") if name not in values else name
    if switch not in values or (switch != name and not values[switch].boolean):
        near = difflib.get_close_matches(name, list(values), 1, 0.6)
        hint = f"; did you mean --{near[0]}?" if near else "; --help lists the flags"
        return [f"--{name}: there is no such flag{hint}"]
    if value is None:
        return []
    try:
        if values[switch].boolean and switch != name:
            raise ValueError("a switch that begins with no takes no value")
        values[switch].parser.parse(value)
    except (ValueError, TypeError) as refused:
        error = f"{refused}"
        parser = values[switch].parser
        if isinstance(parser, flags.BooleanParser):
            error = "it must be true or false"
        elif isinstance(parser, flags.FloatParser | flags.IntegerParser):
            error = f"it must be {parser.syntactic_help}"
        return [f"--{name}={value}: {error}"]
    return []
