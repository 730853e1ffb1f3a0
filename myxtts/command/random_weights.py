"""--model_size=xtts_v2: networks of the published form whose weights begin as random ones."""

import dataclasses

from myxtts.command.corpora import Clips
from myxtts.command.settings import Job
from myxtts.training.run_directory import RunDirectory
from myxtts.training.start import random_start


def with_random_weights(job: Job, clips: Clips) -> Job:
    """The job as it is; or, for such networks, with a vocabulary made from the clips' texts. A run
    that has begun has its own."""
    model = job.train.model
    if job.start is not None or model.form == "own":
        return job
    start = random_start(model, clips.training, job.train.seed, RunDirectory(job.run_path))
    train = dataclasses.replace(job.train, model=start.model)
    return dataclasses.replace(job, start=start, train=train)
