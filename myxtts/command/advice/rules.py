"""The rules that advice follows, one generator of sentences for each subject."""

from collections.abc import Iterator

from myxtts.command.advice.facts import JobFacts
from myxtts.command.settings import Job
from myxtts.training.stages import stage_named

GB = 1 << 30
LARGEST_SHARE = 0.9  # of a device's memory; the rest is for fragments and workspaces
MANY_BUCKETS = 16


def advice(job: Job, found: JobFacts) -> list[str]:
    """A sentence for each setting that will hurt."""
    rules = (_memory, _input, _shapes, _numbers, _length, _without_effect)
    return [sentence for rule in rules for sentence in rule(job, found)]


def _memory(job: Job, found: JobFacts) -> Iterator[str]:
    fits = {}
    for stage in job.stages:
        estimate = found.estimates[stage]
        too_small = {
            device: estimate.largest_batch(device.part, LARGEST_SHARE * device.room)
            for device in found.devices
            if device.room is not None and estimate.on(device.part) > LARGEST_SHARE * device.room
        }
        if not too_small:
            continue
        device = min(too_small, key=too_small.get)
        text = (
            f"{stage}: a batch of {estimate.batch_size} needs about "
            f"{estimate.on(device.part) / GB:.1f} GB on the {device.part.role} device "
            f"{device.name}, which has {device.room / GB:.1f} (estimated)"
        )
        size = _divisible(min(too_small[device], _most_varied(found)), found)
        if size < 1:
            least = found.replicas
            yield f"{text}, and not even a batch of {least} fits: take a smaller --model_size"
        else:
            fits[stage] = size, text
    if len(fits) == 1:
        ((stage, (size, text)),) = fits.items()
        yield f"{text}: --{stage}_batch_size={size} fits"
    elif fits:
        # One remedy for all of them, as --grad_accum is one for all.
        stage = min(fits, key=lambda name: fits[name][0])
        size, text = fits[stage]
        accumulate = -(-found.estimates[stage].batch_size * job.train.grad_accum // size)
        yield (
            f"{text}: --batch_size={size} fits in every stage, and with --grad_accum={accumulate} "
            "learns alike"
        )
    kept = job.train.keep_checkpoints + 1
    checkpoints = sum(kept * found.estimates[stage].checkpoint_bytes for stage in job.stages)
    if checkpoints > LARGEST_SHARE * found.disk_bytes:
        one = max(found.estimates[stage].checkpoint_bytes for stage in job.stages)
        yield (
            f"--keep_checkpoints={job.train.keep_checkpoints} takes about {checkpoints / GB:.1f} "
            f"GB and {found.disk_bytes / GB:.1f} GB are free: --keep_checkpoints=1, or another "
            f"disk; one checkpoint takes up to {one / GB:.2f} GB"
        )


def _input(job: Job, found: JobFacts) -> Iterator[str]:
    workers = job.train.workers
    if workers is not None and workers > 2 * found.cores:
        yield (
            f"--num_workers={workers} on {found.cores} cores makes them take turns: "
            f"--num_workers={found.cores}"
        )
    elif workers is not None and 2 * workers <= found.cores and found.on_gpu:
        yield (
            f"--num_workers={workers} leaves {found.cores - workers} of {found.cores} cores idle "
            f"while GPUs wait for batches: --num_workers={found.cores}"
        )
    prefetch = job.train.host_prefetch
    held = prefetch * found.batch_bytes
    if held > found.host_bytes / 4:
        better = max(2, int(found.host_bytes / 20 / found.batch_bytes))
        if better < prefetch:
            yield (
                f"--host_prefetch={prefetch} holds {held / GB:.1f} GB of batches and the host has "
                f"{found.host_bytes / GB:.1f} GB free: --host_prefetch={better}"
            )
    if job.slots == 2 and job.values.strategy == "split":
        yield "--slots=2 has no READY batch, so every step waits for its copy: --slots=4"


def _shapes(job: Job, found: JobFacts) -> Iterator[str]:
    batches = job.train.batches
    if not batches.static_shapes and batches.buckets > MANY_BUCKETS:
        yield (
            f"--buckets={batches.buckets} without --static_shapes: each shape costs a compilation "
            f"and memory of its own on GPUs, and {found.padding:.0%} padding is left: --buckets=8"
        )
    if batches.static_shapes and found.padding_static - found.padding > 0.15:
        yield (
            f"--static_shapes makes {found.padding_static:.0%} of every batch padding, "
            f"{job.train.batches.buckets} buckets would {found.padding:.0%}: --nostatic_shapes, or "
            "a lower --max_seconds"
        )
    largest = max(found.estimates[stage].batch_size for stage in job.stages)
    if found.clips < 4 * largest:
        better = _fitting(job, found)
        yield (
            f"{found.clips} clips make {found.clips // largest} batches of {largest}, and the "
            f"clips of a batch can differ little in length: --batch_size={better}"
        )


def _numbers(job: Job, found: JobFacts) -> Iterator[str]:
    train = job.train
    slow = {"float16"} if found.bfloat16_on_cpu else {"float16", "bfloat16"}
    if not found.on_gpu and train.precision in slow:
        yield f"--precision={train.precision} is slow on this processor: --precision=float32"
    if not found.on_gpu and job.values.model_size in ("normal", "xtts_v2"):
        yield (f"--model_size={job.values.model_size} is far too slow on a CPU: --model_size=tiny")
    for stage in job.stages:
        rate = train.stage(stage).learning_rate
        usual = stage_named(stage, train.model.form).usual_rate(train.model)
        if rate > 5 * usual:
            yield f"a learning rate of {rate:g} in the {stage} stage will diverge: {usual:g}"
    if train.grad_accum > 1 and train.grad_accum * train.batches.batch_size > 512:
        size = train.grad_accum * train.batches.batch_size
        yield (
            f"--grad_accum={train.grad_accum} makes {size} clips a step: "
            f"--grad_accum={max(1, 256 // train.batches.batch_size)} learns more in the same time"
        )


def _length(job: Job, found: JobFacts) -> Iterator[str]:
    train = job.train
    if train.epochs and train.epochs * found.hours < 5 and "epochs" in job.given:
        better = -(-10 // max(found.hours, 1e-3))
        yield (
            f"--epochs={train.epochs} of {found.hours:.2f} hours is little to learn from: "
            f"--epochs={better:.0f} or more"
        )
    if train.epochs and train.epochs > 200 and train.patience is None:
        yield (
            f"--epochs={train.epochs} without --patience goes on when the held-out loss has "
            "stopped falling: --patience=10"
        )
    if train.max_minutes and train.max_minutes < 5 and len(job.stages) > 1:
        yield (
            f"--max_minutes={train.max_minutes:g} for {len(job.stages)} stages shows that it runs, "
            "not how it sounds: --max_minutes=10 or more"
        )
    if not found.held_out:
        yield (
            "no clip is held out, so nothing says when to stop: "
            f"--validation_share={_share_that_holds_out(found.clips):g}, or --val_data"
        )


def _without_effect(job: Job, found: JobFacts) -> Iterator[str]:
    if job.source is not None:
        for name in ("embedded_dir", "embedded_minutes", "embedded_voices", "embedded_languages"):
            if name in job.given:
                yield f"--{name} has no effect, because --train_data is given: leave it out"
    if job.values.strategy != "split":
        for name in ("slots", "warm_up"):
            if name in job.given and (name, job.values.strategy) != ("slots", "multi_worker"):
                yield f"--{name} has no effect under --strategy={job.values.strategy}: leave it out"
    if job.values.val_data is not None and "validation_share" in job.given:
        yield "--validation_share has no effect, because --val_data is given: leave it out"


def _most_varied(found: JobFacts) -> int:
    """The largest batch size for which the corpus makes four batches, so that clips can differ."""
    return max(1, found.clips // 4)


def _fitting(job: Job, found: JobFacts) -> int:
    """The largest batch that fits in every stage, by the same rule as the advice about memory."""
    fits = [
        found.estimates[stage].largest_batch(device.part, LARGEST_SHARE * device.room)
        for stage in job.stages
        for device in found.devices
        if device.room is not None
    ]
    return max(found.replicas, _divisible(min([_most_varied(found), *fits]), found))


def _divisible(size: int, found: JobFacts) -> int:
    """By the number of model devices."""
    return size // found.replicas * found.replicas


def _share_that_holds_out(clips: int) -> float:
    """At least two clips."""
    return min(0.5, max(0.05, -(-200 // max(clips, 1)) / 100))
