"""Fixtures for what runs on logical CPUs and on emulated GPUs alike."""

import html
import json
import re
import shutil
import subprocess

import pytest

from dual_device_strategy import DataModelSplitStrategy, copies
from tests.dual_device_strategy.pairs import PAIRS


@pytest.fixture(params=PAIRS)
def pair(request):
    """Data device and model device."""
    return PAIRS[request.param]


@pytest.fixture
def strategy(pair):
    return DataModelSplitStrategy(*pair)


@pytest.fixture
def small_batches_too(monkeypatch):
    """Also small batches are copied two at a time."""
    monkeypatch.setattr(copies, "WORTH_TWO_COPIES", 0)


# Runs the mains of one command one after the other, on devices that are made once.
_RUN_COMMANDS = """
import contextlib, functools, importlib, io, json, sys, traceback
from absl import flags
from dual_device_strategy import command

command.start_devices = functools.cache(command.start_devices)
main = importlib.import_module(f"dual_device_strategy.{sys.argv[1]}.__main__").main
results = {}
for name, arguments in json.loads(sys.argv[2]).items():
    for flag in flags.FLAGS:
        flags.FLAGS[flag].unparse()
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(flags.FLAGS([name, *arguments]))
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = "crashed"
    results[name] = code, out.getvalue(), err.getvalue()
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def run_commands(run_python):
    """Runs a command of the package with several sets of flags, all in one process.

    Takes {name: flags}, returns {name: (exit code, stdout, stderr)}.
    """

    def run(command, commands, folder, timeout=600):
        arguments = ["-c", _RUN_COMMANDS, command, json.dumps(commands)]
        done = run_python(arguments, timeout=timeout, cwd=folder, UNOPTIMIZED_GRAPHS="1")
        assert done.stdout, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Runs headless Chromium, with a new profile, on a file; returns what it prints."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if not program:
        pytest.skip("no Chromium is installed to open the page with (apt-get install chromium)")

    def run(file, *flags):
        done = subprocess.run(
            [
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
                *flags,
                f"file://{file}",
            ],
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def opened(chromium, tmp_path):
    """What a browser says of a page in a window of some width: its text, sizes and requests."""

    def open_page(page, width):
        # In a frame, because the windows of Chromium have a least width.
        frame = tmp_path / "frame.html"
        frame.write_text(
            f"<iframe style='width:{width}px;height:800px;border:0' "
            f"srcdoc='{html.escape(page, quote=True)}'></iframe>"
            "<script>onload = () => { const frame = document.querySelector('iframe');"
            "const page = frame.contentDocument.documentElement;"
            "const said = document.createElement('pre');"
            "said.textContent = JSON.stringify({width: page.clientWidth, needed: page.scrollWidth,"
            "requests: frame.contentWindow.performance.getEntriesByType('resource')"
            ".map((entry) => entry.name), text: frame.contentDocument.body.innerText});"
            "document.body.replaceChildren(said); }</script>"
        )
        dom = chromium(frame, "--dump-dom")
        return json.loads(html.unescape(re.search("<pre>(.*)</pre>", dom, re.DOTALL)[1]))

    return open_page
