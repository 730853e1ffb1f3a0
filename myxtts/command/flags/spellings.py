"""The spellings of older scripts: dashes, and names that have changed.

Dashes stand for underscores in every flag. The tables below have the names that changed.
"""

from collections.abc import Sequence

# older name: today's flag
RENAMED = {
    "buffer_size": "host_prefetch",
    "prefetch_buffer_size": "host_prefetch",
    "pad_to_fixed_length": "static_shapes",
    "enable_static_shapes": "static_shapes",
    "data_gpu_memory": "data_gpu_memory_mb",
    "model_gpu_memory": "model_gpu_memory_mb",
    "languages": "embedded_languages",
}
SWITCHES = ("enable_static_shapes", "pad_to_fixed_length", "enable_memory_isolation")
WITH_VALUE = ("model_start_delay", *(name for name in RENAMED if name not in SWITCHES))
# What --enable-memory-isolation meant without limits, in MB.
ISOLATION_MB = {"data_gpu_memory_mb": 8192, "model_gpu_memory_mb": 16384}

Argument = tuple[str, str | None]  # name and value; None: a switch without a value


def translate(typed: Sequence[Argument]) -> tuple[list[Argument], list[str], list[str]]:
    """The arguments in today's spelling, what was changed ("--lr is --lr"), and mistakes.

    `typed` are the names as they were typed, without the leading dashes.
    """
    now: list[Argument] = []
    changes: list[str] = []
    mistakes: list[str] = []
    given = {name.replace("-", "_") for name, _ in typed}
    for typed_name, value in typed:
        name = typed_name.replace("-", "_")
        old = f"--{typed_name}" if value is None else f"--{typed_name} {value}"
        if name == "model_start_delay":
            try:
                fills = float(value) > 0
            except ValueError:
                mistakes.append(f"{old}: a number of seconds is needed")
                continue
            new = ("warm_up" if fills else "nowarm_up", None)
            reason = " (slots are filled instead of sleeping)"
        elif name == "enable_memory_isolation":
            limits = [
                (limit, str(mb))
                for limit, mb in ISOLATION_MB.items()
                if not given & {limit, limit.removesuffix("_mb")}
            ]
            now += limits
            changes.append(f"{old} is {_spelled(limits) or 'said by the two limits'}")
            continue
        else:
            new, reason = (RENAMED.get(name, name), value), ""
        now.append(new)
        if new[0] != typed_name:
            changes.append(f"{old} is {_spelled([new])}{reason}")
    return now, changes, mistakes


def _spelled(arguments: Sequence[Argument]) -> str:
    return " ".join(f"--{n}" if v is None else f"--{n}={v}" for n, v in arguments)
