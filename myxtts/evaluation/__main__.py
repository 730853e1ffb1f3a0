"""Measures a trained run.

    python -m myxtts.evaluation --checkpoint=RUN

prints its figures on held-out clips (`held_out`), how well new sentences are understood
(`intelligibility`), and how close unseen voices come to their references (`cloning`); `--measure`
chooses among them. The last two need networks that judge. On first use they are trained, which
takes a quarter of an hour each on one core, and kept in --recogniser_dir.
"""

from collections.abc import Iterator

from absl import flags

from myxtts import UserError
from myxtts.evaluation import command

_MEASURES = ("held_out", "intelligibility", "cloning")


def _main() -> Iterator[str]:
    wanted = flags.FLAGS.measure
    unknown = [name for name in wanted if name not in _MEASURES]
    if unknown or not wanted:
        raise UserError(f"--measure must name some of {', '.join(_MEASURES)}, got {wanted}")
    evaluation = command.evaluation_of_flags("checkpoint")
    from myxtts.evaluation import report

    count = flags.FLAGS.sentences
    yield from report.report_training(evaluation)
    if "held_out" in wanted:
        yield from report.report_held_out(evaluation)
    for name, measure in (
        ("intelligibility", report.report_intelligibility),
        ("cloning", report.report_cloning),
    ):
        if name not in wanted:
            continue
        try:
            yield from measure(evaluation, count)
        except UserError as error:
            if flags.FLAGS["measure"].present:
                raise
            yield f"{name} is not measured: {error}"


if __name__ == "__main__":
    command.define_flags("checkpoint")
    flags.DEFINE_list("measure", list(_MEASURES), f"Of: {', '.join(_MEASURES)}.")
    command.run(_main)
