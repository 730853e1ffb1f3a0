"""--add_language: what training starts from, with tokens for one more language."""

import collections
import dataclasses

from absl import logging

from myxtts import UserError
from myxtts.command.corpora import Clips
from myxtts.command.settings import Job
from myxtts.corpus.manifest import Corpus
from myxtts.text.languages import base_language
from myxtts.training.run_directory import RunDirectory
from myxtts.training.start import Start, start_from
from myxtts.xtts_v2.new_language import AddedLanguage


def with_added_language(job: Job, clips: Clips) -> Job:
    """The job as it is, or with the language's tokens, which are learnt from the clips' texts; a
    run that has begun has them already."""
    language = job.values.add_language
    if language is None:
        return job
    source = job.start.source
    if RunDirectory(job.run_path).init.exists():
        if base_language(language) not in map(base_language, source.config.languages):
            raise UserError(
                f"{job.run_path} was begun without --add_language={language}; give another "
                "--checkpoint_dir"
            )
        return _started(job, job.start)
    texts = _texts(clips.training)
    own = texts.pop(base_language(language), [])
    if not own:
        raise UserError(
            f"--add_language={language}: no clip is in that language, they are in "
            f"{', '.join(sorted(texts))}; where the metadata names none, give --language={language}"
        )
    added = AddedLanguage.learn(
        source.vocabulary,
        language,
        own,
        source.normaliser,
        tokens=job.values.add_language_tokens,
        shared=job.values.shared_merges,
    )
    for code, lines in texts.items():
        logging.info(
            "%s: %.1f %% of the texts have other ids with the new tokens",
            *(code, 100 * added.changed_share(lines, code)),
        )
    return _started(job, start_from(job.start.path, added.extended(source)))


def _texts(corpus: Corpus) -> dict[str, list[str]]:
    texts = collections.defaultdict(list)
    for clip, text in enumerate(corpus.texts):
        texts[base_language(corpus.language_of(clip))].append(text)
    return texts


def _started(job: Job, start: Start) -> Job:
    """The settings of the job hold for the networks that it starts from now."""
    sizes = dataclasses.replace(
        job.train.model.xtts_v2, args=start.model.xtts_v2.args, added_tokens=True
    )
    model = dataclasses.replace(job.train.model, xtts_v2=sizes)
    return dataclasses.replace(job, start=start, train=dataclasses.replace(job.train, model=model))
