"""What a flag of `train.py` is: what it sets, its unit, its default, and when to change it.

A flag knows the settings field that it fills (`sets`), so that a new setting needs one entry in
`data`, `training` or `run` and nothing else; `settings.py` reads that.
"""

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator

from absl import flags

from dual_device_strategy import flag_parsers


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
      kind: "text", "whole" or "number", "switch", "list", "pair" (of numbers), "GPUs", "shares", or
        the choices.
      sets: the field it fills, such as "batches.buckets"; "" if the command reads the flag itself.
      unit: the placeholder for the value in the help, such as "SECONDS".
      default: None if a value is chosen at run time; `chosen` then says how.
      least: the smallest value, if no settings class checks it.
    """

    name: str
    kind: str | tuple[str, ...]
    default: object
    what: str
    when: str = ""
    sets: str = ""
    unit: str = ""
    chosen: str = ""
    least: float | None = None

    @property
    def help(self) -> str:
        return f"{self.what} {self.when}".strip()

    @property
    def shown_default(self) -> str:
        if self.default is None:
            return self.chosen or "none"
        if self.kind == "switch":
            return "on" if self.default else "off"
        if isinstance(self.default, tuple | list):
            return ",".join(v if isinstance(v, str) else f"{v:g}" for v in self.default)
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    @property
    def spelled(self) -> str:
        if self.kind == "switch":
            return f"--[no]{self.name}"
        if isinstance(self.kind, tuple):
            return f"--{self.name}={'|'.join(self.kind)}"
        placeholder = {
            "whole": "N",
            "number": "X",
            "list": "A,B",
            "pair": "LOW,HIGH",
            "GPUs": "N[,N...]",
            "shares": "auto|X,X...",
        }
        return f"--{self.name}={self.unit or placeholder.get(self.kind, 'TEXT')}"


class PairParser(flags.ArgumentParser):
    """`3,6` as (3.0, 6.0)."""

    syntactic_help = "two numbers with a comma between them"

    def parse(self, argument):
        if not isinstance(argument, str):
            return tuple(argument)
        try:
            low, high = (float(part) for part in argument.split(","))
        except ValueError:
            raise ValueError("it must be two numbers with a comma between them") from None
        return low, high

    def flag_type(self):
        return "pair"


PARSERS = {"pair": PairParser, "GPUs": flag_parsers.GpusParser, "shares": flag_parsers.SharesParser}


def define(groups: dict[str, Iterable[Flag]], values: flags.FlagValues) -> None:
    """Registers the flags, except the shared device flags, which are there already."""
    for group in groups.values():
        for flag in group:
            if flag.name not in values:
                _define(flag, values)


def _define(flag: Flag, values: flags.FlagValues) -> None:
    common = {"flag_values": values, "module_name": "train"}
    if isinstance(flag.kind, tuple):
        flags.DEFINE_enum(flag.name, flag.default, flag.kind, flag.help, **common)
    elif flag.kind in PARSERS:
        flags.DEFINE(PARSERS[flag.kind](), flag.name, flag.default, flag.help, **common)
    else:
        define = {
            "text": flags.DEFINE_string,
            "whole": flags.DEFINE_integer,
            "number": flags.DEFINE_float,
            "switch": flags.DEFINE_boolean,
            "list": flags.DEFINE_list,
        }[flag.kind]
        bound = {} if flag.least is None else {"lower_bound": flag.least}
        define(flag.name, flag.default, flag.help, **bound, **common)


def described(groups: dict[str, Iterable[Flag]]) -> Iterator[str]:
    """The lines of --help."""
    for title, group in groups.items():
        yield f"\n{title}"
        for flag in group:
            yield f"  {flag.spelled}  (default: {flag.shown_default})"
            yield from textwrap.wrap(
                flag.help, 92, initial_indent=" " * 8, subsequent_indent=" " * 8
            )
