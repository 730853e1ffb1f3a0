"""--init_from: weights that do not fit are refused before anything else is made."""

import dataclasses
import re
import shutil

import numpy as np
import pytest

from myxtts import UserError
from myxtts.command import dry_run
from myxtts.command.corpora import Clips
from myxtts.xtts_v2.pth import write_pth
from myxtts.xtts_v2.weights import read_dvae, read_weights

HEAD, BOOK = "gpt.mel_head.weight", "codebook.embed_avg"


@pytest.fixture
def told(start_directory, tmp_path, read_line):
    """The mistakes of a command that starts from it after `change` was made to its tensors."""

    def run(name, change):
        shutil.copytree(start_directory, tmp_path / "model")
        file = tmp_path / "model" / name
        tensors = dict(read_dvae(file) if name == "dvae.pth" else read_weights(file).model)
        change(tensors)
        write_pth(file, tensors if name == "dvae.pth" else {"model": tensors})
        return read_line(f"--init_from={tmp_path}/model").mistakes

    return run


def _rename(tensors):
    tensors["other"] = tensors.pop(HEAD)


def _turn(tensors):
    tensors[HEAD] = tensors[HEAD].T


@pytest.mark.parametrize(
    "name, change, sentence",
    [
        ("model.pth", lambda t: t.pop(HEAD), rf"model lacks {HEAD}; it is no whole XTTS v2"),
        ("model.pth", _rename, rf"model lacks {HEAD} and holds other, which a model of these"),
        ("model.pth", _turn, rf"{HEAD} in .*model has the shape \[32, 34\] where \[34, 32\] is"),
        ("dvae.pth", lambda t: t.pop(BOOK), rf"model/dvae\.pth lacks {BOOK}; it is no whole"),
    ],
)
def test_a_missing_renamed_or_misshapen_tensor_is_a_mistake(told, name, change, sentence):
    (mistake,) = told(name, change)
    assert re.match(f"--init_from: .*{sentence}", mistake), mistake


def test_a_whole_directory_is_no_mistake(start_directory, read_line):
    assert read_line(f"--init_from={start_directory}").mistakes == []


def test_a_file_without_its_end_is_a_mistake(start_directory, tmp_path, read_line):
    shutil.copytree(start_directory, tmp_path / "model")
    file = tmp_path / "model/model.pth"
    file.write_bytes(file.read_bytes()[:-5000])
    (mistake,) = read_line(f"--init_from={tmp_path}/model").mistakes
    assert f"--init_from: {file} is no .pth file, or its end is missing" in mistake


def test_the_share_of_unknown_tokens_is_shown_and_half_of_them_are_refused(
    start_directory, read_line, spoken_directory, spoken_corpus, caplog
):
    line = f"--init_from={start_directory} --train_data={spoken_directory} --batch_size=2"
    job = read_line(line).job

    def shown(*texts):
        corpus = spoken_corpus.subset(np.arange(len(texts)))
        corpus = dataclasses.replace(corpus, texts=texts, languages=("en", "de"))
        clips = Clips(corpus, None, {}, "a summary")
        return list(dry_run._corpus(job, clips, job.start.vocabulary))

    # Letters, and a tag for each text.
    line = "[UNK]      {} of the tokens; clips that have one are left out"
    assert line.format("0.0%") in shown("abc", "abc", "abc")
    assert line.format("11.1%") in shown("ab", "abc", "\u00e9")
    assert "they are left out" in caplog.text
    with pytest.raises(UserError, match=r"1 of 3 clips .*\(54.5% of all tokens are \[UNK\]"):
        shown("a", "a", "\u00e9" * 6)
