"""Flags that `profile` and `compare` share, about the work and how its loss is read."""

from absl import flags

FIXED_MS = flags.DEFINE_list(
    "fixed_ms",
    ["0", "0"],
    "On emulated GPUs and CPUs: how many ms each launch of front end and step takes beside that.",
)
READING = flags.DEFINE_list(
    "reading",
    ["every_step", "every_tenth"],
    "How often the loss is read: every_step, every_tenth, one_function; all that are named. "
    "profile always measures every_step.",
)
