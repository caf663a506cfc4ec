# SPDX-License-Identifier: GPL-2.0-only
"""`asa trial` with an agent that stands in for the real one."""

import json

import pytest
from standin import asa, host_in

SERVING = {
    "mode": "switching",
    "scheduler": "scx_flash",
    "wanted": "scx_flash",
    "sentence": "scx_flash serves web",
    "workload": "web",
}
NEXT = {
    "use": "web",
    "candidate": "eevdf",
    "in_force": "scx_flash",
    "under_way": False,
    "pairs": 0,
    "most_pairs": 24,
    "block_s": 20.0,
    "why_not": "a call is on",
}
UNDER_WAY = NEXT | {"under_way": True, "pairs": 2, "why_not": ""}
QUESTION = NEXT | {"question": True}


@pytest.fixture
def host(tmp_path, monkeypatch):
    yield from host_in(tmp_path, monkeypatch)


def test_what_is_next_and_why_it_has_not_begun(host, capsys):
    host.agent(**SERVING, trial=NEXT)
    lines = "next       eevdf against scx_flash for web, turns of 20 s\n           a call is on\n"
    assert asa(capsys, "trial") == (0, lines, "")


def test_without_an_agent(host, capsys):
    assert asa(capsys, "trial") == (3, "agent      not running; `asa run` starts it\n", "")
    code, _, error = asa(capsys, "trial", "eevdf")
    assert (code, error.count("\n")) == (1, 1)
    assert json.loads(asa(capsys, "trial", "--json")[1]) == {"running": False, "done": True, "agent": None}


def test_one_by_name(host, capsys):
    host.agent(**SERVING)
    shown = "trial      eevdf against scx_flash for web: 2 of 24 pairs at most, turns of 20 s\n"
    assert asa(capsys, "trial", "eevdf") == (0, shown, "")
    assert asa(capsys, "trial", "stop")[:2] == (0, "trial      none: scx_flash serves web\n")


def test_yes_and_no(host, capsys):
    host.agent(**SERVING, trial=QUESTION)
    assert asa(capsys, "trial")[1].startswith("question   eevdf against scx_flash for web, turns of 20 s\n")
    assert asa(capsys, "trial", "yes")[1].startswith("trial      eevdf against scx_flash for web")
    assert asa(capsys, "trial", "no")[:2] == (0, "trial      none: scx_flash serves web\n")


@pytest.mark.parametrize(
    ("state", "what", "words"),
    [
        ({}, "yes", "the agent asks for nothing"),
        ({}, "stop", "no trial is under way"),
        ({"trial": NEXT}, "stop", "no trial is under way"),
        ({"trial": NEXT}, "yes", "the agent asks for nothing"),
        ({}, "scx_nobody", "'scx_nobody' is no scheduler that asa knows"),
        ({"barred": ["eevdf"]}, "eevdf", "may not serve this use now"),
        ({"scheduler": "eevdf"}, "eevdf", "eevdf is in force"),
        ({"trial": UNDER_WAY | {"candidate": "scx_rusty"}}, "eevdf", "scx_rusty is tried now"),
        ({"mode": "hold", "mode_reason": "Alt-SysRq-S"}, "eevdf", "on hold (Alt-SysRq-S)"),
        ({"mode": "observing", "mode_reason": "not root"}, "eevdf", "switches nothing"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(host, capsys, state, what, words):
    host.agent(**(SERVING | state))
    code, said, error = asa(capsys, "trial", what)
    assert (code, said, error.count("\n")) == (1, "", 1)
    assert words in error


def test_an_agent_that_does_not_do_it(host, capsys, monkeypatch):
    host.agent("keeps", **SERVING)
    monkeypatch.setattr("asa.requests._LIMIT_S", 0.3)
    assert asa(capsys, "trial", "eevdf")[0] == 1
