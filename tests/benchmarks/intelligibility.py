"""How intelligible the speech of a run is, and how much each part of the model loses.

    python tests/benchmarks/intelligibility.py --run=RUN [--recogniser_dir=DIR] [--sentences=50]

New sentences in the voices of the run's corpus, if that is an embedded one (else held-out clips):
as recorded, through Griffin-Lim, through tokenizer and vocoder, and generated from the text. The
recogniser, a small one trained on espeak-ng speech, is trained when it is not in DIR yet; that
takes a quarter of an hour on one core. Held-out code accuracy and minutes of training are printed
as well.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from absl import flags

from myxtts.evaluation import command


def main() -> Iterator[str]:
    evaluation = command.evaluation_of_flags("run")
    from myxtts.evaluation import report

    yield from report.report_training(evaluation)
    yield from report.report_held_out(evaluation)
    yield from report.report_intelligibility(evaluation, flags.FLAGS.sentences)


if __name__ == "__main__":
    command.define_flags("run")
    command.run(main)
