"""Long work says where it is, also where nobody draws it."""

import time

import pytest

from fairpc.core import _running as running


def test_a_pipe_gets_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "FIRST", 0.05)
    monkeypatch.setattr(running, "EVERY", 0.05)
    with running.showing_progress("FairPC") as say:
        say("reading")
        time.sleep(0.5)
        say("EM 7")
        time.sleep(0.5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("s: reading")
    assert lines[-1].endswith("s: EM 7")
    assert all(line.startswith("FairPC, ") for line in lines)


def test_short_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with running.showing_progress("FairPC") as say:
        say("reading")
    assert capsys.readouterr().err == ""


def test_nobody_hears_what_is_not_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "FIRST", 0.01)
    with running.showing_progress("FairPC", shown=False) as say:
        say("reading")
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
