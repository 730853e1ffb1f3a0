"""`python -m dual_device_strategy.profile`: targets, files, mistakes."""

import json

import pytest

TARGETS = """
import tensorflow as tf
from dual_device_strategy import on_data_device

def good():
    return tf.data.Dataset.range(100).batch(2).apply(on_data_device(doubled)), total

def doubled(x):
    return 2 * x

def total(x):
    return tf.reduce_sum(x)

def nothing():
    return None

def a_list():
    return [1, 2], total

def short():
    return tf.data.Dataset.range(9).apply(on_data_device(doubled)), total

def late():
    calls = []
    def step(x):
        calls.append(x)
        if len(calls) > 20:
            raise ValueError("loss is NaN\\nin the second line")
        return x
    return tf.data.Dataset.range(100), step

def mixed_types(x):
    return x + tf.constant(1.5)

def untraceable():
    return tf.data.Dataset.range(100).apply(on_data_device(mixed_types)), total

def missing_file():
    return tf.data.Dataset.range(100).map(lambda x: tf.io.read_file("/no/such/file")), total

def batched_behind():
    return tf.data.Dataset.range(100).apply(on_data_device(doubled)).batch(2), total
"""


@pytest.fixture(scope="module")
def ended(run_commands, tmp_path_factory):
    """How the command ended, by name, and the folder it ran in."""
    folder = tmp_path_factory.mktemp("profile")
    (folder / "targets.py").write_text(TARGETS)
    (folder / "kept.html").write_text("an older page")
    small = ["--emulate_gpus=2", "--num_steps=10"]
    targets = {
        "good": ["--html=good.html", "--json=good.json"],
        "nothing": ["--html=kept.html"],
        "a_list": ["--html=new.html"],
        "short": ["--html=short.html", "--json=short.json"],
        "late": [],
        "untraceable": [],
        "missing_file": [],
        "batched_behind": [],
        "not_there": [],
    }
    commands = {name: [*small, f"--target=targets:{name}", *more] for name, more in targets.items()}
    sizes = ["--batch_size=4", "--text_len=10", "--mel_frames=20", "--part_ms=2,40,8"]
    commands |= {
        "built in": [*small, *sizes],
        "no module": [*small, "--target=no_such_module:f"],
        "no function": [*small, "--target=targets"],
        "unwritable": [*small, "--html=/no/such/folder/page.html"],
        "one slot": [*small, "--slots=1"],
        "two times": [*small, "--part_ms=10,20"],
    }
    return run_commands("profile", commands, folder), folder


def test_a_target_is_measured_and_written(ended):
    results, folder = ended
    code, out, err = results["good"]
    assert (code, "Traceback" in err) == (0, False), err
    assert "verdict: " in out
    assert "Where the time goes" in (folder / "good.html").read_text()
    assert json.loads((folder / "good.json").read_text())["staged"]["count"] == 10


def test_the_built_in_workload_takes_the_times_asked_for(ended):
    code, out, _ = ended[0]["built in"]
    (front_end,) = [line.split() for line in out.splitlines() if line.startswith("  front end")]
    assert code == 0
    assert 9 <= float(front_end[2]) < 20  # 10 ms, and 40 for a batch of 16


@pytest.mark.parametrize(
    ("name", "sentence", "shown"),
    [
        ("no module", "--target=no_such_module:f cannot be used: ModuleNotFoundError: No mo", ""),
        ("no function", "--target=targets cannot be used: ValueError: write module:function", ""),
        ("not_there", "cannot be used: AttributeError: module 'targets' has no attribute", ""),
        ("nothing", "must return a tf.data.Dataset and a step function, it returned None", ""),
        ("a_list", "must return a tf.data.Dataset and a step function, it returned ([1", ""),
        ("untraceable", "cannot be used: TypeError: Input 'y' of 'AddV2' Op has type float", ""),
        ("short", "ended after 9 batches and 13 are needed: ask for fewer steps", "host pipeline"),
        ("late", "the staged run failed: ValueError: loss is NaN", "  step  "),
        ("missing_file", "the host pipeline failed: NotFoundError: ", "each part alone"),
        ("batched_behind", "the dataset has a batch operation behind on_data_device()", ""),
        ("unwritable", "--html=/no/such/folder/page.html cannot be written (No such file", ""),
        ("one slot", "slots must be a whole number of at least 2", ""),
        ("two times", "--part_ms=10,20 must be three times in ms", ""),
    ],
)
def test_bad_input_ends_with_one_sentence_and_what_was_measured(ended, name, sentence, shown):
    code, out, err = ended[0][name]
    assert code == 1
    assert sentence in err.splitlines()[-1]
    assert "Traceback" not in err
    assert shown in out


def test_files_hold_what_was_measured_and_older_ones_survive_mistakes(ended):
    folder = ended[1]
    assert "The measurement is incomplete: the dataset ended" in (folder / "short.html").read_text()
    figures = json.loads((folder / "short.json").read_text())
    assert [(part["part"], part["count"]) for part in figures["parts"]] == [("host", 9)]
    assert (folder / "kept.html").read_text() == "an older page"
    assert not (folder / "new.html").exists()
