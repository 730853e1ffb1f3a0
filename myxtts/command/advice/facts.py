"""The facts behind advice: the clips of a job, the devices, the host, the disk."""

import dataclasses
import os
import shutil
from pathlib import Path

from dual_device_strategy import emulation
from dual_device_strategy.devices import Devices, free_memory
from myxtts.command.corpora import Clips
from myxtts.command.settings import Job
from myxtts.config import AudioConfig, BatchConfig
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.workers import default_workers
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.memory import LIBRARIES, Estimate, Part, estimate
from myxtts.training.precision import bfloat16_on_cpu, precision_for
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import LongestClip


@dataclasses.dataclass(frozen=True)
class JobDevice:
    """A device of the job: its name, what it does, and its free memory (None if unknown)."""

    name: str
    part: Part
    room: int | None


@dataclasses.dataclass(frozen=True)
class JobFacts:
    """The clips, devices, host and disk of a job, against which its settings are checked.

    Attributes:
      estimates: memory estimates by stage.
      devices: the devices of the job.
      replicas: the number of devices that train, on all machines.
      on_gpu: whether the model device is a real GPU.
      bfloat16_on_cpu: whether the processor multiplies bfloat16.
      clips: the number of clips in the training corpus.
      batch_bytes: the size of the largest batch in host memory.
      host_bytes: free memory on the host.
      disk_bytes: free space on the disk of the run directory.
      padding: the share of a batch that is padding, with the requested buckets.
      padding_static: the same with --static_shapes.
      cores: the number of cores of the host.
    """

    estimates: dict[str, Estimate]
    devices: tuple[JobDevice, ...]
    on_gpu: bool
    clips: int
    hours: float
    held_out: int
    batch_bytes: int
    host_bytes: int
    disk_bytes: int
    padding: float
    padding_static: float
    bfloat16_on_cpu: bool = False
    replicas: int = 1
    cores: int = dataclasses.field(default_factory=default_workers)


def facts_of(
    job: Job, devices: Devices, clips: Clips, vocabulary: Vocabulary, *, workers: int = 1
) -> JobFacts:
    """`workers`: the machines that train together."""
    corpus, train = clips.training, job.train
    longest = LongestClip(
        frames=int(train.model.audio.frames(corpus.samples.max())),
        text_tokens=_longest_text(clips, vocabulary, train.model.text.max_tokens),
    )
    precision = precision_for(train.precision, RunDirectory(job.run_path))
    slots = 4 if job.slots == "auto" else job.slots
    host = _free_host_bytes()
    found = _job_devices(job, devices, host, workers)
    real_gpu = found[-1].name.startswith("GPU") and not emulation.active()
    libraries = LIBRARIES if real_gpu else 0
    estimates = {
        stage: estimate(
            train,
            stage,
            longest,
            len(vocabulary),
            precision=precision,
            slots=slots,
            libraries=libraries,
        )
        for stage in job.stages
    }
    bucketed, static = (
        _padding(clips, train.batches, train.model.audio, static) for static in (False, True)
    )
    return JobFacts(
        estimates=estimates,
        devices=found,
        replicas=workers * len([device for device in found if device.part.trains]),
        on_gpu=real_gpu,
        clips=len(corpus),
        hours=corpus.hours,
        held_out=len(clips.validation) if clips.validation is not None else 0,
        batch_bytes=max(estimates[stage].host_batch_bytes for stage in job.stages),
        host_bytes=host,
        disk_bytes=shutil.disk_usage(_existing(job.run_path)).free,
        padding=bucketed,
        padding_static=static,
        bfloat16_on_cpu=bfloat16_on_cpu(),
    )


def _job_devices(job: Job, devices: Devices, host: int, workers: int) -> tuple[JobDevice, ...]:
    """Those that only prepare come first."""
    data, model = devices.data_device, devices.model_device
    data, model = (data, model) if devices.several else ((data,), (model,))
    if job.values.strategy == "one_device":
        model = model[:1]
    shares = job.values.shares
    if not isinstance(shares, tuple) or len(shares) != len(model):
        shares = (1 / len(model),) * len(model)
    trains = dict(zip(model, shares, strict=True))
    return tuple(
        JobDevice(
            name,
            Part((name in data) / workers, trains.get(name, 0.0) / workers),
            free_memory(name) if name.startswith("GPU") else host,
        )
        for name in dict.fromkeys([*data, *model])
    )


def _longest_text(clips: Clips, vocabulary: Vocabulary, most: int) -> int:
    corpus = clips.training
    longest = max(range(len(corpus)), key=lambda clip: len(corpus.texts[clip]))
    tokens = len(vocabulary.encode(corpus.texts[longest], corpus.language_of(longest)))
    return min(tokens, most)


def _padding(clips: Clips, batches: BatchConfig, audio: AudioConfig, static: bool) -> float:
    corpus = clips.training
    size = min(batches.batch_size, len(corpus))
    batches = dataclasses.replace(batches, static_shapes=static, batch_size=size)
    plan = BatchPlan(
        corpus.samples,
        speaker_ids=corpus.speaker_ids,
        language_ids=corpus.language_ids,
        config=batches,
        audio=audio,
    )
    return plan.padding_share()


def _existing(place: Path) -> Path:
    while not place.exists():
        place = place.parent
    return place


def _free_host_bytes() -> int:
    """The memory that programs could get: free memory and the system's caches."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
