"""The order of a run, from the arguments to the last line printed, and its exit code.

0: done, or saved on request. 1: mistakes that the user can fix, one sentence each. 2: the training
failed.
"""

import os
import sys
from collections.abc import Sequence

from absl import app, flags, logging

from dual_device_strategy import command, emulation
from dual_device_strategy.devices import Devices
from dual_device_strategy.emulation import quiet
from myxtts import UserError, start_up
from myxtts.command import console
from myxtts.command.flags import arguments, groups, table
from myxtts.command.flags.arguments import Mistakes
from myxtts.command.settings import Job, job_from

DONE, USER_ERROR, TRAINING_FAILED = 0, 1, 2


def run(argv: Sequence[str] | None = None, program: Sequence[str] | None = None) -> None:
    """Runs the command with `argv` (the program's own by default) and exits.

    `program`: what Python was started with, to be repeated in the command that continues a run;
    the script by default.
    """
    program = sys.argv[:1] if program is None else program
    table.define(groups(), flags.FLAGS)
    read: list = []

    def parse(argv: list[str]) -> list[str]:
        try:
            read[:] = arguments.parse(argv)
        except Mistakes as mistakes:  # a flag file that cannot be read: no flag is known
            sys.exit(_print_errors(mistakes.sentences))
        return argv[:1]

    def main(_: list[str]) -> int:
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.INFO)
        console.set_up()
        code = _exit_code(*read, program)
        if code and flags.FLAGS.strategy == "multi_worker":
            # A normal end would wait for the other workers, and they for this one.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        return code

    app.run(main, argv=None if argv is None else list(argv), flags_parser=parse)


def _exit_code(canonical: list[str], mistakes: list[str], program: Sequence[str]) -> int:
    try:
        return _run(canonical, mistakes, program)
    except Mistakes as found:
        return _print_errors(found.sentences)
    except UserError as error:
        return _print_errors([f"{error}"])
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return DONE


def _print_errors(sentences: Sequence[str]) -> int:
    for sentence in sentences:
        print(f"error: {sentence}", file=sys.stderr)
    return USER_ERROR


def _run(canonical: list[str], mistakes: list[str], program: Sequence[str]) -> int:
    job, devices = _checked(mistakes)
    # What needs TensorFlow's networks is loaded only now that the command is known to be sound.
    from myxtts.command import (
        corpora,
        dry_run,
        new_language,
        profiling,
        random_weights,
        strategies,
        training,
    )
    from myxtts.training.workers import Workers

    def prepared() -> tuple[Job, corpora.Clips]:
        clips = corpora.clips_of(job)
        begun = random_weights.with_random_weights(job, clips)
        return new_language.with_added_language(begun, clips), clips

    if job.values.dry_run:
        dry_run.describe(*prepared(), devices)
        return DONE
    if job.values.profile:
        return profiling.profile_job(*prepared(), devices)
    # First of all: a strategy of several machines wants to be, and mistakes show before clips are
    # prepared.
    strategy = strategies.make_strategy(job, devices)
    workers = Workers(strategy)
    job, clips = workers.chief_first(prepared)
    return training.train(
        job, devices, clips, strategy, again=[*program, *canonical], flags=canonical
    )


def _checked(mistakes: list[str]) -> tuple[Job, Devices]:
    """The job and its devices; raises Mistakes with all that is wrong with either."""
    found = list(mistakes)
    job = devices = None
    try:
        job = job_from(flags.FLAGS, mistakes)
    except Mistakes as error:
        found = error.sentences
    try:
        command.start_emulation_from_flags()
        devices = command.configure_devices_from_flags(
            several=True, shares_needed=flags.FLAGS.strategy in ("split", "multi_worker")
        )
    except (ValueError, RuntimeError) as error:
        found.append(f"{error}")
    left_out = start_up.as_usual()
    if found:
        raise Mistakes(found)
    if left_out and emulation.active():
        quiet.leave_out_missing_cuda()
    return job, devices
