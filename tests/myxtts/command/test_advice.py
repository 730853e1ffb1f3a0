"""Advice names settings that will hurt, each with a better value, and no others."""

import dataclasses
import re

import pytest

from myxtts.command.advice import JobDevice, JobFacts, advice
from myxtts.training.memory import DATA, MODEL, Part, estimate
from myxtts.training.stages import LongestClip

GB = 1 << 30


@pytest.fixture
def advised(read_line, corpus_path):
    """advised("--lr=1", clips=5): the sentences for a command line in a situation."""

    def advise(line: str = "", **changed) -> list[str]:
        job = read_line(line).job
        estimates = {
            stage: estimate(job.train, stage, LongestClip(1000, 200), 300) for stage in job.stages
        }
        found = JobFacts(
            estimates=estimates,
            devices=(JobDevice("GPU:1", DATA, 4 * GB), JobDevice("GPU:0", MODEL, 8 * GB)),
            on_gpu=True,
            clips=5000,
            hours=5.0,
            held_out=100,
            batch_bytes=20 << 20,
            host_bytes=32 * GB,
            disk_bytes=100 * GB,
            padding=0.08,
            padding_static=0.2,
            cores=8,
        )
        return advice(job, dataclasses.replace(found, **changed))

    return advise


def test_the_defaults_need_no_advice(advised):
    assert advised() == []


@pytest.mark.parametrize(
    ("line", "changed", "better"),
    [
        ("--num_workers=100", {}, "--num_workers=8"),
        ("--num_workers=2", {}, "--num_workers=8"),
        ("--host_prefetch=1000", {}, "--host_prefetch=81"),
        ("--buckets=32", {}, "--buckets=8"),
        ("--static_shapes", {"padding_static": 0.5}, "--nostatic_shapes"),
        ("--slots=2", {}, "--slots=4"),
        ("", {"clips": 40}, "--batch_size=10"),
        ("--precision=float16", {"on_gpu": False}, "--precision=float32"),
        ("--precision=bfloat16", {"on_gpu": False}, "--precision=float32"),
        ("--model_size=normal", {"on_gpu": False, "devices": ()}, "--model_size=tiny"),
        ("--gpt_lr=0.1", {}, "0.0012"),
        ("--grad_accum=64", {}, "--grad_accum=16"),
        ("--max_minutes=1", {}, "--max_minutes=10"),
        ("", {"held_out": 0}, "--validation_share=0.05"),
        ("", {"disk_bytes": GB // 10}, "--keep_checkpoints=1"),
        ("--slots=4 --strategy=mirrored", {}, "leave it out"),
    ],
)
def test_each_setting_that_hurts_is_told_with_the_better_value(advised, line, changed, better):
    (sentence,) = advised(line, **changed)
    assert better in sentence


def test_bfloat16_is_welcome_on_a_processor_that_has_it(advised):
    assert advised("--precision=bfloat16", on_gpu=False, bfloat16_on_cpu=True) == []


def test_a_batch_that_does_not_fit_is_told_with_the_one_that_does(advised):
    (told,) = [s for s in advised("--model_size=small --batch_size=256") if "needs about" in s]
    assert "GB on the model device GPU:0, which has 8.0 (estimated)" in told
    size, accumulate = (
        int(told.split(f"--{name}=")[1].split()[0]) for name in ("batch_size", "grad_accum")
    )
    assert 1 <= size < 256 <= size * accumulate
    assert not [s for s in advised(f"--model_size=small --batch_size={size}") if "needs about" in s]


def test_a_batch_that_is_too_large_for_one_stage_is_lowered_there(advised):
    (told,) = advised("--vocoder_batch_size=400", clips=2000)
    assert told.startswith("vocoder: a batch of 400 needs about")
    assert re.search(r": --vocoder_batch_size=\d+ fits$", told)


def test_a_model_that_fits_with_no_batch_is_told(advised):
    told = "\n".join(advised("--model_size=normal", devices=(JobDevice("GPU:0", MODEL, 2 * GB),)))
    assert "not even a batch of 1 fits: take a smaller --model_size" in told


def test_memory_that_nobody_tells_is_not_guessed_at(advised):
    unknown = (JobDevice("GPU:0", MODEL, None),)
    assert advised("--batch_size=400 --max_minutes=90", devices=unknown) == []


def test_of_several_devices_each_has_its_part_of_a_batch(advised):
    """Half of a batch on each: a batch twice as large fits, where one of them prepares less."""
    half = Part(0.0, 0.5)
    places = (
        JobDevice("GPU:2", DATA, 4 * GB),
        *(JobDevice(f"GPU:{i}", half, 8 * GB) for i in range(2)),
    )

    def fitting(**changed):
        sentences = advised("--model_size=small --batch_size=500", **changed)
        (told,) = [s for s in sentences if "needs about" in s]
        return int(re.search(r"batch_size=(\d+)", told)[1])

    one, two = fitting(), fitting(devices=places, replicas=2)
    assert two == 2 * one
    both = (JobDevice("GPU:0", half, 8 * GB), JobDevice("GPU:1", Part(1.0, 0.5), 8 * GB))
    assert one < fitting(devices=both, replicas=2) < two


def test_remedies_for_a_batch_that_is_too_large_do_not_contradict_each_other(advised):
    sentences = advised("--batch_size=1000000", clips=400)
    sizes = {flag for s in sentences for flag in re.findall(r"--(?:[a-z]+_)?batch_size=\d+", s)}
    assert len(sentences) > 1 and len(sizes) == 1
    assert len({flag for s in sentences for flag in re.findall(r"--grad_accum=\d+", s)}) == 1


def test_the_share_to_hold_out_is_not_the_one_that_held_out_nothing(advised):
    (sentence,) = [s for s in advised(clips=20, held_out=0) if s.startswith("no clip is held out")]
    assert "--validation_share=0.1," in sentence
