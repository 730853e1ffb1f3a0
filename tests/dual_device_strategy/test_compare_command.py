"""The comparison as a command: what it writes, logs of two runs, and bad input."""

import json

import pytest

from dual_device_strategy.monitor import RunLog


@pytest.fixture(scope="module")
def ended(run_commands, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    whole, cut = folder / "whole.jsonl", folder / "cut.jsonl"
    log = RunLog(whole, {"slots": 3})
    log.write({"step": 20, "seconds": 1.5, "step_ms": 20.0, "variation": 0.1, "wait_share": 0.0})
    log.close({"steps": 40, "step_ms": 20.5, "variation": 0.1, "total_seconds": 3.0})
    lines = whole.read_text().splitlines(keepends=True)
    cut.write_text("".join(lines[:2]) + lines[2][:30])
    (folder / "foreign.jsonl").write_text('{"loss": 1.0}\n')
    (folder / "picture.png").write_bytes(b"\x89PNG\x0d\xff")
    small = ["--num_steps=3", "--rounds=1", "--text_len=8", "--mel_frames=8", "--batch_sizes=4"]
    commands = {
        "two cases": [
            *small,
            "--part_ms=2,4,4",
            "--part_ms=0,0,8",
            "--reading=every_step",
            "--json=out.json",
            "--plot=out.html",
        ],
        "two logs": ["--logs", "whole.jsonl", "whole.jsonl"],
        "cut": ["--logs", "whole.jsonl", "cut.jsonl"],
        "foreign": ["--logs", "whole.jsonl", "foreign.jsonl"],
        "no text": ["--logs", "picture.png", "whole.jsonl"],
        "missing": ["--logs", "nowhere.jsonl", "whole.jsonl"],
        "one log": ["--logs", "whole.jsonl"],
        "nothing fits": [*small, "--step_mb=9000"],
        "sizes": [*small, "--batch_sizes=8,none"],
        "times": [*small, "--part_ms=1"],
        "fixed": [*small, "--fixed_ms=1"],
        "reading": [*small, "--reading=sometimes"],
        "picture": [*small, "--plot=out.pdf"],
        "unwritable": [*small, "--json=/no/such/folder/out.json"],
    }
    return run_commands("compare", commands, folder), folder


def test_cases_are_compared_and_written(ended):
    results, folder = ended
    code, out, err = results["two cases"]
    assert (code, "Traceback" in err) == (0, False), err
    assert out.count("\nRecommended for 4,096 MB") == 2
    assert out.count("| split (ours) |") == 2 + 1  # two tables, and the head of the summary
    figures = json.loads((folder / "out.json").read_text())
    assert figures["emulated"] is True
    assert [(c["batch_size"], c["part_ms"]) for c in figures["batch_sizes"]] == [
        (4, [0.5, 1, 1]),
        (4, [0, 0, 2]),
    ]
    page = (folder / "out.html").read_text()
    assert "<td>tf.device on both devices" in page and "<pre>" not in page


def test_logs_of_two_runs_are_a_table(ended):
    code, out, _ = ended[0]["two logs"]
    assert code == 0
    assert "| step, ms | 20.50 | 20.50 | 1.00 |" in out


@pytest.mark.parametrize(
    ("name", "sentence", "shown"),
    [
        # The last figures that a run wrote before it was cut off are shown.
        ("cut", "cut.jsonl is cut off or damaged in line 3", "| step, ms | 20.50 | 20.00 |"),
        ("foreign", "foreign.jsonl is not the log of a monitored run", "| steps | 40 |"),
        ("no text", "picture.png cannot be read: it is not a text file", "| steps | - | 40 |"),
        ("missing", "nowhere.jsonl cannot be read: No such file or directory", "| steps | - | 40"),
        ("one log", "--logs compares two files, 1 were given", ""),
        ("nothing fits", "", "No batch size fits: make batches smaller than the smallest"),
        ("sizes", "--batch_sizes=8,none must be whole numbers from 1 on", ""),
        ("times", "--part_ms=1 must be three times in ms", ""),
        ("fixed", "--fixed_ms=1 must be two times in ms", ""),
        ("reading", "--reading=sometimes: 'sometimes' is not one of every_step, every_tenth", ""),
        ("picture", "--plot=out.pdf must be a .png or an .html file", ""),
        ("unwritable", "--json=/no/such/folder/out.json cannot be written (No such file", ""),
    ],
)
def test_bad_input_ends_with_one_sentence_and_what_is_known(ended, name, sentence, shown):
    code, out, err = ended[0][name]
    assert code == 1
    assert "Traceback" not in err
    assert sentence in err
    assert shown in out
