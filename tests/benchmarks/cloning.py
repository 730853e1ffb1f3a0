"""How similar a cloned voice sounds to its reference, for voices that the run was not trained on.

    python tests/benchmarks/cloning.py --run=RUN [--recogniser_dir=DIR] [--sentences=55]

Eleven espeak-ng voices, told apart by a speaker encoder trained on 80 others; it is trained when
it is not in DIR yet. Recordings by the same voices are judged beside the generated speech: they
are the ceiling.
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
    yield from report.report_cloning(evaluation, flags.FLAGS.sentences)


if __name__ == "__main__":
    command.define_flags("run")
    flags.FLAGS.set_default("sentences", 55)
    command.run(main)
