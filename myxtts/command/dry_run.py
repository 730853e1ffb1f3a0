"""--dry_run: checks a job and prints everything about it, without training."""

import dataclasses
import json
import math
from collections.abc import Iterator

from dual_device_strategy import emulation
from dual_device_strategy.devices import Devices
from myxtts.command.advice import GB, JobDevice, JobFacts, advice, facts_of
from myxtts.command.corpora import Clips, vocabulary_of
from myxtts.command.settings import Job
from myxtts.config import to_json
from myxtts.training.data import StageData, UsableClips
from myxtts.training.memory import Estimate
from myxtts.training.shares import ShareTrials


def describe(job: Job, clips: Clips, devices: Devices) -> None:
    """Prints settings, devices, corpus, networks, memory and advice. The run directory is left
    alone; the corpus is made or prepared, as the run would have to."""
    vocabulary = vocabulary_of(job, clips.training)
    facts = facts_of(job, devices, clips, vocabulary)
    sentences = advice(job, facts)
    sections = (
        ("Settings", json.dumps(to_json(job.train), indent=2).splitlines()),
        *([("Start", _start(job))] if job.start else []),
        ("Devices", _devices(job, devices)),
        ("Corpus", _corpus(job, clips, vocabulary)),
        ("Parameters", _parameters(facts)),
        ("Memory of a training step, estimated", _memory(facts)),
        ("Advice", sentences or ["none: nothing was found that will hurt"]),
    )
    # A mistake that is found on the way is all that is printed.
    for title, lines in [(title, list(lines)) for title, lines in sections]:
        print(f"{title}")
        for line in lines:
            print(f"  {line}")
    print(f"Nothing was trained. The same command without --dry_run trains in {job.run_path}")


def _start(job: Job) -> Iterator[str]:
    start = job.start
    if start.path is None:
        tags = ", ".join(start.vocabulary.languages)
        yield f"weights    random; vocab.json ({tags}) and mel_stats are made from the corpus"
    else:
        yield f"weights    those of {start.path}"
    if start.path and start.licence:
        yield f"licence    {start.licence}; it holds for this run and all that descends from it"
    for stage in job.stages:
        config = job.train.stage(stage)
        clips = job.train.batch_size(stage) * job.train.grad_accum
        adapted = stage == "gpt" and job.values.trainable == "adapters"
        whose = "of adapters" if adapted else "for the width of these networks"
        yield (
            f"{stage:<10} learning rate {config.learning_rate:g} ({config.schedule}, {whose}), "
            f"{clips} clips a step"
        )


def _devices(job: Job, devices: Devices) -> Iterator[str]:
    several = [*devices.data, *devices.model] if devices.several else [devices.data, devices.model]
    yield from map(str, several)
    shares = job.values["shares"]
    told = f", shares {shares.serialize().partition('=')[2]}" if shares.present else ""
    yield f"{devices.reason}; strategy {job.values.strategy}, slots {job.slots}{told}"
    if shares.value == "auto":
        yield (
            "shares are equal in the first steps of a stage, and that is what memory is estimated "
            f"for; these are timed, {ShareTrials.STEPS} or {ShareTrials.STEPS_OF_SHAPES} at a "
            "time, and then a device that has less to do gets more rows"
        )


def _corpus(job: Job, clips: Clips, vocabulary) -> Iterator[str]:
    yield from f"{clips.summary}".splitlines()
    held_out = 0 if clips.validation is None else len(clips.validation)
    yield f"training   {len(clips.training)} clips, {held_out} held out"
    yield f"vocabulary {len(vocabulary)} tokens of {job.train.model.text.vocabulary}"
    stage = job.stages[0]
    size = min(len(clips.training), job.train.batches.batch_size)
    batches = dataclasses.replace(job.train.batches, batch_size=size)
    usable = UsableClips.of(clips.training, vocabulary, job.train.model)
    data = StageData(usable, job.train, batches)
    if vocabulary.unknown is not None:
        yield f"[UNK]      {data.unknown:.1%} of the tokens; clips that have one are left out"
    yield f"batches    {data.plan.batches_per_epoch} an epoch, {data.shapes()} ({stage})"


def _parameters(facts: JobFacts) -> Iterator[str]:
    for stage, estimate in facts.estimates.items():
        for name, count in estimate.parameters.items():
            yield f"{stage:<10} {name:<15} {count / 1e6:9.2f} M"
        yield f"{'':<10} {'a checkpoint':<15} {estimate.checkpoint_bytes / GB:9.2f} GB"


def _memory(facts: JobFacts) -> Iterator[str]:
    for device in facts.devices:
        there = "" if device.room is None else f" of {device.room / GB:.2f} GB that are free"
        if emulation.active() and device.name.startswith("GPU"):
            there += ", emulated"
        for stage, estimate in facts.estimates.items():
            yield (
                f"{device.part.role:<6} {device.name:<6} {stage:<10} {_clips(estimate, device)}: "
                f"{estimate.on(device.part) / GB:6.2f} GB{there}"
            )


def _clips(estimate: Estimate, device: JobDevice) -> str:
    share = device.part.trains or device.part.prepares
    size = estimate.batch_size
    if share == 1:
        return f"batches of {size:>3} clips"
    return f"{math.ceil(size * share)} clips of batches of {size}"
