"""Reads the device flags: what each may be, and the words that say so."""

from absl import flags


class GpusParser(flags.ArgumentParser):
    """`1` as 1, and `6,7` as (6, 7)."""

    syntactic_help = "the index of a GPU, or several with commas between them, such as 6,7"

    def parse(self, argument):
        if not isinstance(argument, str):
            return argument
        try:
            indices = tuple(int(part) for part in argument.split(","))
        except ValueError:
            raise ValueError(f"it must be {self.syntactic_help}") from None
        return indices if len(indices) > 1 else indices[0]

    def flag_type(self):
        return "GPUs"


class SharesParser(flags.ArgumentParser):
    """`auto` as it is, and `0.7,0.3` as (0.7, 0.3)."""

    syntactic_help = "auto, or a number for each model GPU, such as 0.7,0.3"

    def parse(self, argument):
        if not isinstance(argument, str) or argument == "auto":
            return argument
        try:
            return tuple(float(part) for part in argument.split(","))
        except ValueError:
            raise ValueError(f"it must be {self.syntactic_help}") from None

    def flag_type(self):
        return "shares"


class EmulatedGpusParser(flags.IntegerParser):
    """A whole number; the message says what else the flag could be."""

    syntactic_help = "the number of GPUs to emulate, such as 2, or left out where GPUs are real"

    def convert(self, argument):
        try:
            return super().convert(argument)
        except ValueError:
            raise ValueError(f"it must be {self.syntactic_help}") from None


class ListSerializer(flags.ArgumentSerializer):
    def serialize(self, value):
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
