"""--profile: where the time of this very job goes, stage by stage of its pipeline."""

from pathlib import Path

from absl import logging

from dual_device_strategy.devices import Devices
from dual_device_strategy.profile import ProfileError, profile
from myxtts import UserError
from myxtts.command.corpora import Clips, vocabulary_of
from myxtts.command.rehearsal import rehearsed
from myxtts.command.settings import Job
from myxtts.command.strategies import make_strategy


def profile_job(job: Job, devices: Devices, clips: Clips) -> int:
    """Measures each stage that the job trains, prints a table and writes a page for each."""
    if job.values.strategy != "split":
        raise UserError(
            f"--profile measures the split strategy, --strategy={job.values.strategy} was asked "
            "for: leave that out; the profile says what one device alone would take"
        )
    vocabulary = vocabulary_of(job, clips.training)
    pages = []
    for stage in job.stages:
        logging.info("%s: measuring, %d times each", stage, job.values.profile_steps)
        strategy = make_strategy(job, devices)
        with rehearsed(job.train, stage, strategy, clips.training, vocabulary) as (dataset, step):
            try:
                result = profile(strategy, dataset, step, steps=job.values.profile_steps)
            except ProfileError as error:
                raise UserError(f"{stage}: {error}") from None
        print(f"\n{stage}\n{result.table()}", flush=True)
        pages.append(_written(job.run_path, stage, result))
    print("\npages: " + ", ".join(map(str, pages)))
    return 0


def _written(place: Path, stage: str, result) -> Path:
    path = place / f"profile-{stage}.html"
    try:
        place.mkdir(parents=True, exist_ok=True)
        result.write_html(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
    return path
