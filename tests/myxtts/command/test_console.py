"""What a person sees of the log, and what lies in the run directory."""

import logging
import os
import pty
import subprocess
import sys

from absl import logging as absl_logging

from myxtts import start_up
from myxtts.command import console
from myxtts.training.run_directory import RunDirectory


def test_lines_are_plain_and_say_what_is_more_than_information():
    def shown(level, text):
        record = logging.LogRecord("absl", level, "a/file.py", 7, text, (), None)
        return console.Plain().format(record)

    assert shown(logging.INFO, "gpt: 100 steps planned") == "gpt: 100 steps planned"
    assert shown(logging.WARNING, "a clip is bad") == "warning: a clip is bad"


def test_the_log_in_the_run_directory_has_all_lines_with_time_and_file(tmp_path, monkeypatch):
    kept = logging.handlers.MemoryHandler(100, flushLevel=logging.CRITICAL + 1)
    monkeypatch.setattr(console, "_kept", kept)
    absl_logging.get_absl_logger().addHandler(kept)
    try:
        absl_logging.warning("before there was a directory")
        console.write_to(RunDirectory(tmp_path))
        absl_logging.warning("and afterwards")
    finally:
        absl_logging.get_absl_logger().removeHandler(kept)
        kept.target.close()
    first, second = RunDirectory(tmp_path).log_file.read_text().splitlines()
    assert first.startswith("W") and "test_console.py:" in first
    assert first.endswith("] before there was a directory") and second.endswith("] and afterwards")


def test_a_terminal_shows_plain_lines_while_start_up_messages_are_left_out():
    code = """
from myxtts import start_up
start_up.quieten()
start_up.say_loading()
from absl import flags, logging
from myxtts.command import console
flags.FLAGS(["command"])
logging.use_absl_handler()
console.set_up()
logging.set_verbosity(logging.INFO)
logging.info("a line")
start_up.as_usual()
"""
    person, terminal = pty.openpty()
    root = start_up.__file__.rpartition("/myxtts/")[0]
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": root}, stderr=terminal)
    os.close(terminal)
    shown = os.read(person, 10_000).decode()
    os.close(person)
    assert shown.split("\r\n") == ["loading TensorFlow", "a line", ""]


def test_only_start_up_messages_are_left_out_even_when_the_process_dies():
    code = """
import os
from myxtts import start_up
start_up.quieten()
os.write(2, b"I0000 oneDNN custom operations are on. You may see\\nan error of the loader\\n")
if os.environ["END"] == "usual":
    start_up.as_usual()
    os.write(2, b"oneDNN custom operations are on\\n")
else:
    os.write(2, b"last words\\n")
    os.abort()
"""
    for end, rest in (("usual", "oneDNN custom operations are on\n"), ("abort", "last words\n")):
        root = start_up.__file__.rpartition("/myxtts/")[0]
        done = subprocess.run(
            [sys.executable, "-c", code], env={"END": end, "PYTHONPATH": root},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.stderr == f"an error of the loader\n{rest}"
