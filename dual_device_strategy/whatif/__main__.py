"""python -m dual_device_strategy.whatif --front_end_ms=20 --step_ms=60 [FLAGS]
python -m dual_device_strategy.whatif --profile=FILE.json [FLAGS]

Says for 2, 4 and 8 devices which of them should prepare and which should train, with how many
rows, and how long a step would take; and what 1 to 1,024 such machines would make of it. Times are
those of a whole batch on one device: give them, or the file that `profile --json` wrote. Nothing is
run: it is arithmetic, and every assumption is printed.
"""

import dataclasses
import json
from pathlib import Path

from absl import flags

from dual_device_strategy import command
from dual_device_strategy.copies import copying_slots
from dual_device_strategy.whatif.layouts import Layout, Work, fed_by_one, layouts
from dual_device_strategy.whatif.machines import MachineCosts, network_is_the_limit, on_machines

_PROFILE = flags.DEFINE_string(
    "profile", None, "Take the times from this file of `profile --json`; flags change single ones."
)
_HELP_OF_WORK = {
    "host_ms": "The host pipeline of a machine",
    "copy_ms": "From the host to a device",
    "front_end_ms": "The front end of all rows on one device",
    "transfer_ms": "A prepared batch from device to device",
    "step_ms": "The step over all rows on one device",
    "front_end_fixed_ms": "The part of a front end that does not depend on the rows",
    "step_fixed_ms": "The part of a step that does not depend on the rows",
    "gap_ms": "What the loop needs between two steps if it reads each result",
    "gap_ahead_ms": "What is left of that with several replicas if it reads now and then",
}
_TIMES = {
    name.removesuffix("_ms"): flags.DEFINE_float(name, None, f"{text}, in ms.", lower_bound=0)
    for name, text in _HELP_OF_WORK.items()
}
_ROWS = flags.DEFINE_integer("rows", None, "Rows of a whole batch; 24 if left out.", lower_bound=1)
_GRADIENT_MB = flags.DEFINE_float(
    "gradient_mb", 0.0, "What devices add up after a step: 4 bytes a weight.", lower_bound=0
)
_LINK_GBPS = flags.DEFINE_float(
    "link_gbps", 12.0, "Links between devices of a machine, GB/s.", lower_bound=1e-3
)
_SLOTS = flags.DEFINE_integer(
    "slots", 4, "Slots of each strategy: with 6 or more, batches are copied from the host while "
    "data devices that only prepare work on the batch before.", lower_bound=2
)  # fmt: skip
_DEVICES = flags.DEFINE_list("devices", ["2", "4", "8"], "Numbers of devices on a machine.")
_MACHINES = flags.DEFINE_list("machines", ["1", "8", "64", "256", "1024"], "Numbers of machines.")
_HELP_OF_CLUSTER = {
    "network_gbps": "Network of a machine, gigabits a second",
    "latency_us": "Latency of a message, microseconds",
    "variation": "Standard deviation of a machine's step over its mean",
    "hours_between_failures": "Mean time between failures of one machine, hours",
    "checkpoint_seconds": "Seconds that training stands still to save",
    "restart_seconds": "Seconds from a failure to the next step",
    "batch_mb": "A machine's batch on its way from a data service, MB",
}
_CLUSTER = {
    field.name: flags.DEFINE_float(
        field.name, field.default, f"{_HELP_OF_CLUSTER[field.name]}.", lower_bound=0
    )
    for field in dataclasses.fields(MachineCosts)
}
_JSON = flags.DEFINE_string("json", None, "Write the figures to this file.")
SHOWN = 6  # layouts of each number of devices


def main(_) -> None:
    with command.exit_on(ValueError, OSError), command.writable({"json": _JSON.value}):
        work, cluster = (
            _work(),
            MachineCosts(**{name: flag.value for name, flag in _CLUSTER.items()}),
        )
        counts, machines = _counts(_DEVICES), _counts(_MACHINES)
        found = {devices: layouts(work, devices) for devices in counts}
        print(said_of(work))
        for devices, of_count in found.items():
            print("\n" + table(devices, of_count[:SHOWN]))
        print("\n" + feeding(work))
        best = {devices: of_count[0] for devices, of_count in found.items()}
        scaled = {
            devices: [on_machines(work, layout, cluster, count) for count in machines]
            for devices, layout in best.items()
        }
        for devices, layout in best.items():
            print("\n" + table_of_machines(layout, scaled[devices], work, cluster))
        print("\n" + assumptions(work, cluster))
        if _JSON.value:
            figures = {
                "work": dataclasses.asdict(work),
                "cluster": dataclasses.asdict(cluster),
                "layouts": {k: [as_json(layout) for layout in v] for k, v in found.items()},
                "machines": {
                    k: [{**dataclasses.asdict(s), "step_ms": s.step_ms, "efficiency": s.efficiency}
                        for s in v]
                    for k, v in scaled.items()
                },
            }  # fmt: skip
            Path(_JSON.value).write_text(json.dumps(figures, indent=1) + "\n")


def as_json(layout: Layout) -> dict:
    return {
        **dataclasses.asdict(layout),
        "step_ms": layout.step_ms,
        "ahead_ms": layout.ahead_ms,
        "limit": layout.limit,
        "flags": layout.flags,
    }


def said_of(work: Work) -> str:
    """The times that the answer follows from."""
    front, step = (
        f"{getattr(work, name):g} ms"
        + (f" and {fixed:g} for each launch" if (fixed := getattr(work, f"{name}_fixed")) else "")
        for name in ("front_end", "step")
    )
    return (
        f"A batch of {work.rows} rows, on one device: front end {front}, step {step}; host "
        f"{work.host:g}, copy {work.copy:g}, transfer {work.transfer:g} ms; the loop needs "
        f"{work.gap:g} ms between steps that it reads."
    )


def table(devices: int, found: list[Layout]) -> str:
    """The fastest layouts of so many devices, in Markdown."""
    lines = [
        f"{devices} devices:" if devices > 1 else "1 device:",
        "",
        "| which devices do what | ms a step, read on each | read now and then | the longest part "
        "| how |",
        "|---|--:|--:|---|---|",
    ]
    lines += [
        f"| {layout.name} | {layout.step_ms:.1f} | {layout.ahead_ms:.1f} | {layout.limit} | "
        f"{layout.flags} |"
        for layout in found
    ]
    return "\n".join(lines)


def feeding(work: Work) -> str:
    """What one data device can feed, in a sentence."""
    count = fed_by_one(work)
    if count is None:
        return "There is nothing to prepare: every device trains."
    if count == 0:
        return (
            f"One data device cannot feed one model device: it takes {work.preparing():.1f} ms for "
            f"a batch, the step {work.training(work.rows):.1f}."
        )
    more = "or more " if count == work.rows else ""
    return (
        f"One data device feeds {count} {more}model device{'s' if count > 1 else ''} that train a "
        f"batch of {work.rows} rows together: it takes {work.preparing():.1f} ms for a batch."
    )


def table_of_machines(layout: Layout, found: list, work: Work, cluster: MachineCosts) -> str:
    """The layout on several machines, in Markdown, and where the network becomes the limit."""
    lines = [
        f"Machines of {layout.devices} devices, {layout.name}, {work.rows} rows each:",
        "",
        "| machines | ms a step | devices | network | slowest | best interval of checkpoints, "
        "min | lost to failures | of the rows of as many alone | data-service workers |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {s.machines:,} | {s.step_ms:.1f} | {s.device_ms:.1f} | {s.network_ms:.1f} | "
        f"{s.straggler_ms:.1f} | {s.checkpoint_minutes:.0f} | {s.lost_share:.1%} | "
        f"{s.efficiency:.0%} | {s.service_workers or '-'} |"
        for s in found
    ]
    limit = network_is_the_limit(work, layout, cluster)
    if limit:
        lines += ["", f"From {limit:,} machines on, the network takes longer than the devices."]
    return "\n".join(lines)


def assumptions(work: Work, cluster: MachineCosts) -> str:
    """Everything that the figures take for granted."""
    return "\n".join(
        [
            "Assumed:",
            "- Devices are alike, a fixed cost and the rest in proportion to the rows; slots hide "
            "that times vary.",
            f"- With {_SLOTS.value} slots, a data device copies a batch "
            + (
                "while it works on the batch before, unless it trains a share."
                if work.copies_ahead
                else "and works on it in turns (--slots=6: at once)."
            ),
            "- With shares and several data devices, one of them prepares in every step and the "
            "others wait for it.",
            f"- A ring adds up {work.gradient_mb:g} MB after each step, behind nothing, over links "
            f"of {work.link_gbps:g} GB/s in a machine and {cluster.network_gbps:g} Gbit/s with "
            f"{cluster.latency_us:g} us a message between machines.",
            f"- A machine's step varies by {cluster.variation:.0%} around its mean, independently; "
            "all wait for the slowest.",
            f"- A machine fails once in {cluster.hours_between_failures:,.0f} hours, independently;"
            f" saving takes {cluster.checkpoint_seconds:g} s, restarting all "
            f"{cluster.restart_seconds:g} s; what came after the newest checkpoint is trained "
            "again.",
            "- Each machine has a batch of its own. A data-service worker makes batches as fast "
            f"as one host; a batch has {cluster.batch_mb:g} MB.",
        ]
    )


def _work() -> Work:
    times = _profiled(_PROFILE.value) if _PROFILE.value else {}
    times |= {name: flag.value for name, flag in _TIMES.items() if flag.value is not None}
    if "step" not in times or "front_end" not in times:
        raise ValueError(
            "--front_end_ms and --step_ms are needed, what a whole batch takes on one device: give "
            "both, or --profile=FILE.json of `python -m dual_device_strategy.profile --json`."
        )
    if _ROWS.value:
        times["rows"] = _ROWS.value
    return Work(
        **{
            **times,
            "gradient_mb": _GRADIENT_MB.value,
            "link_gbps": _LINK_GBPS.value,
            "copies_ahead": copying_slots(_SLOTS.value) > 0,
        }
    )


def _profiled(path: str) -> dict[str, float]:
    """The fields of `Work` that a profile has measured."""
    try:
        return dict(json.loads(Path(path).read_text())["work"])
    except OSError as error:
        raise ValueError(f"--profile={path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"--profile={path} is not a whole profile: name a file that `python -m "
            "dual_device_strategy.profile --json=FILE` has written."
        ) from None


def _counts(flag) -> list[int]:
    try:
        counts = sorted({int(text) for text in flag.value})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1 or counts[-1] > 1_000_000:
        raise ValueError(
            f"--{flag.name}={','.join(flag.value)} must be whole numbers from 1 on, such as "
            f"--{flag.name}=2,4"
        )
    return counts


if __name__ == "__main__":
    command.run(main)
