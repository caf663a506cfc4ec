# SPDX-License-Identifier: GPL-2.0-only
"""`asa hold` with an agent that stands in for the real one, and its durations."""

import argparse
import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standin import asa, host_in

from asa.cli.hold import duration_s
from asa.cli.main import main

SERVING = {"mode": "switching", "scheduler": "scx_flash", "wanted": "scx_flash", "sentence": "scx_flash serves web"}


@pytest.fixture
def host(tmp_path, monkeypatch):
    yield from host_in(tmp_path, monkeypatch)


def test_until_resume(host, capsys):
    host.agent(**SERVING)
    assert asa(capsys, "hold") == (0, "held by the user until `asa resume`; scx_flash in force\n", "")
    code, said, _ = asa(capsys, "resume")
    assert (code, said.splitlines()[0]) == (0, "the hold is over; switching")


def test_for_some_time(host, capsys):
    host.agent(**SERVING)
    before_ns = time.time_ns()
    code, said, _ = asa(capsys, "hold", "30m", "--json")
    body = json.loads(said)
    assert (code, body["held"], body["agent"]["mode"]) == (0, True, "hold")
    assert 0 <= body["agent"]["held_until_ns"] - before_ns - 1800 * 10**9 < 30 * 10**9
    at = time.localtime(body["agent"]["held_until_ns"] // 10**9)
    assert body["agent"]["mode_reason"] == f"held by the user until {time.strftime('%H:%M', at)}"


def test_the_last_word_counts(host, capsys):
    host.agent(**SERVING)
    assert asa(capsys, "hold", "30m")[0] == 0
    assert asa(capsys, "hold")[:2] == (0, "held by the user until `asa resume`; scx_flash in force\n")
    assert asa(capsys, "hold")[0] == 0  # as it is already
    assert asa(capsys, "hold", "48h")[1].startswith("held by the user until 20")  # with the date


def test_beside_a_strangers(host, capsys):
    host.agent(
        "stranger", mode="hold", mode_reason="scx_layered was attached by somebody else", scheduler="scx_layered"
    )
    code, said, _ = asa(capsys, "hold")
    assert (code, said) == (
        0,
        "scx_layered was attached by somebody else; held by the user until `asa resume`; scx_layered in force\n",
    )


def test_an_earlier_hold_is_not_taken_for_the_answer(host, capsys, monkeypatch):
    host.agent("once", **SERVING)
    assert asa(capsys, "hold")[0] == 0
    monkeypatch.setattr("asa.requests._LIMIT_S", 0.3)
    assert asa(capsys, "hold", "30m")[0] == 1


@pytest.mark.parametrize(("mode", "reason"), [("observing", "not root"), ("shadow", "")])
def test_one_that_switches_nothing_anyway(host, capsys, mode, reason):
    agent = host.agent(mode=mode, mode_reason=reason)
    code, said, error = asa(capsys, "hold")
    why = f" ({reason})" if reason else ""
    assert (code, said) == (1, "")
    assert error == f"asa: the agent (pid {agent.pid}) switches nothing: its mode is {mode}{why}\n"


def test_one_that_does_not_do_it(host, capsys, monkeypatch):
    monkeypatch.setattr("asa.requests._LIMIT_S", 0.3)
    host.agent("keeps", **SERVING)
    assert asa(capsys, "hold", "30m") == (1, "not on hold: switching\n", "")


def test_the_help_names_the_form_of_a_time(capsys):
    with pytest.raises(SystemExit):
        main(["hold", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "such as 90s, 30m or 1h30m" in said
    assert "Keeps the scheduler in force" in said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1h0m5s", 3605), ("720h", 2592000)],
)
def test_durations(text, seconds):
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0s", "30", "-5m", "5 m", "m", "1m1h", "721h", "9" * 30 + "h", "٣m", "1.5h", "30m\n"]
)
def test_what_is_no_duration(text):
    with pytest.raises(argparse.ArgumentTypeError, match="not a duration such as 90s, 30m or 1h30m"):
        duration_s(text)


def test_a_wrong_duration_is_a_wrong_command_line(host, capsys):
    code, _, error = asa(capsys, "hold", "soon")
    assert code == 2
    assert "'soon' is not a duration such as" in error


@given(st.text(alphabet="0123456789hms ", max_size=12))
def test_any_text_is_a_duration_or_an_error(text):
    with contextlib.suppress(argparse.ArgumentTypeError):
        assert 0 < duration_s(text) <= 30 * 86_400
