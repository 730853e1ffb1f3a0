"""What TensorBoard is given: both curves of a figure in one chart, pictures with axes, texts."""

import numpy as np
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.training import pictures
from myxtts.training.reports import Board


def events(directory):
    """(run, tag, summary) of all that was written."""
    for path in sorted(directory.rglob("events*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                yield str(path.parent.relative_to(directory)), value.tag, value


def test_a_figure_has_one_name_in_training_and_on_held_out_clips(tmp_path):
    board = Board(tmp_path, "gpt")
    board.figures(5, {"audio_loss": 2.0})
    board.figures(5, {"audio_loss": 3.0}, held_out=True)
    board.settings({"batches": {"batch_size": 4}, "stages": ("a",), "none": None})
    board.sound(5, "text0", np.zeros(100, np.float32), rate=22050, text="Good day.")
    board.close()
    found = {(run, tag): value for run, tag, value in events(tmp_path)}
    assert tf.make_ndarray(found["gpt/training", "gpt/audio_loss"].tensor) == 2.0
    assert tf.make_ndarray(found["gpt/held_out", "gpt/audio_loss"].tensor) == 3.0
    assert found["gpt/training", "text0"].metadata.summary_description == "Good day."
    settings = found["gpt/training", "_hparams_/session_start_info"].metadata.plugin_data.content
    assert b"batches.batch_size" in settings


def test_pictures_have_axes_and_without_matplotlib_none(monkeypatch):
    chance = np.random.default_rng(0)
    mel = chance.normal(size=[50, 80])
    weights = chance.uniform(size=[20, 6])
    drawn = pictures.mel_picture(mel, AudioConfig())
    assert drawn.shape == (400, 700, 3) and drawn.dtype == np.uint8
    assert (drawn[:10, :10] == 255).all() and len(np.unique(drawn)) > 50
    assert pictures.attention_picture(weights, 1.5, list("abcdef")).shape == (400, 700, 3)
    assert pictures._labels("abc") == [(0, "a"), (1, "b"), (2, "c")]
    assert pictures._labels("ab" * 40)[:2] == [(0, "ab"), (2, "ab")]
    monkeypatch.setattr(pictures, "_figure", lambda: (None, None))
    grey = pictures.mel_picture(mel, AudioConfig())
    assert grey.shape == (80, 50, 3) and grey.min() == 0 and grey.max() == 255
