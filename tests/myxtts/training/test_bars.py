"""Bars of a run: in a terminal their time goes on, also during what says nothing for seconds."""

import time

import pytest

from myxtts.training import reports


@pytest.mark.parametrize("terminal", [True, False])
def test_a_part_of_some_seconds_shows_that_time_goes_on(capsys, monkeypatch, terminal):
    monkeypatch.setattr(reports, "is_terminal", lambda: terminal)
    with reports.Parts("gpt, after its steps", 2, shown=True) as parts:
        parts.begin("samples")
        capsys.readouterr()
        shown, deadline = "", time.monotonic() + (30 if terminal else 1.5)
        while not shown and time.monotonic() < deadline:
            time.sleep(0.05)
            shown += capsys.readouterr().err
        assert ("samples" in shown) == terminal
    capsys.readouterr()
    time.sleep(1.2)
    assert not capsys.readouterr().err
