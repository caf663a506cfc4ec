# SPDX-License-Identifier: GPL-2.0-only
"""`asa switch` with an agent that stands in for the real one."""

import json
import os

import pytest
from standin import asa, host_in

from asa import paths
from asa.act.portfolio import Origin, Portfolio, Record

SERVING = {"mode": "switching", "scheduler": "scx_rusty", "wanted": "scx_rusty"}


@pytest.fixture
def host(tmp_path, monkeypatch):
    yield from host_in(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """scx_flash and scx_p2dq are recorded as installed; nothing is on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    binary = tmp_path / "binary"
    binary.touch()
    record = Record(path=str(binary), origin=Origin.BUILT, version=None, sha256="", flags=None, installed="")
    portfolio = Portfolio.load(paths.manifest(), tmp_path / "cache/scx")
    portfolio.write_records({"scx_flash": record, "scx_p2dq": record})


def test_it_answers_when_it_is_in_force(host, capsys):
    host.agent(**SERVING)
    words = "scx_flash is in force: held by the user on scx_flash until `asa resume`\n"
    assert asa(capsys, "switch", "scx_flash") == (0, words, "")
    assert asa(capsys, "switch", "scx_flash:default") == (0, words, "")  # as it is already
    assert asa(capsys, "switch", "eevdf")[1] == words.replace("scx_flash", "eevdf")


@pytest.mark.parametrize("never", ["scx_flash", "scx_flash:default"])
def test_what_the_settings_bar_is_not_brought_up_by_hand(host, capsys, never):
    host.agent(**SERVING, never=[never, "scx_p2dq:performance"])
    code, said, error = asa(capsys, "switch", "scx_flash")
    assert (code, said) == (1, "")
    assert error.startswith(f"asa: scx_flash is not brought up: switch.never in the settings names {never}; ")
    assert asa(capsys, "switch", "scx_p2dq")[0] == 0


def test_a_mode_for_some_time(host, capsys):
    host.agent(**SERVING)
    code, said, _ = asa(capsys, "switch", "scx_p2dq:performance", "90s", "--json")
    body = json.loads(said)
    assert (code, body["switched"]) == (0, True)
    assert (body["agent"]["scheduler"], body["agent"]["chosen"]) == ("scx_p2dq:performance",) * 2
    assert body["agent"]["held_until_ns"] > 0


def test_what_fails_is_said(host, capsys):
    host.agent("fails", **SERVING)
    code, said, error = asa(capsys, "switch", "scx_flash")
    assert (code, error) == (1, "")
    assert said == (
        "scx_flash is not in force: scx_flash, chosen by hand, could not be loaded, and what ran goes on"
        " (no such binary); held by the user until `asa resume`\n"
    )


def test_what_does_not_come_is_said(host, capsys, monkeypatch):
    monkeypatch.setattr("asa.cli.switch._LIMIT_S", 0.3)
    monkeypatch.setattr("asa.requests._LIMIT_S", 0.3)
    host.agent("slow", **SERVING, sentence="switching to scx_flash")
    code, said, _ = asa(capsys, "switch", "scx_flash")
    assert (code, said) == (1, "scx_flash is not in force after 0.3 s, and still awaited: switching to scx_flash\n")


def test_an_earlier_hold_is_not_taken_for_the_answer(host, capsys):
    host.agent(**SERVING)
    assert asa(capsys, "hold")[0] == 0
    assert asa(capsys, "switch", "scx_flash")[0] == 0


def test_a_strangers_stays(host, capsys):
    host.agent(
        "stranger", mode="hold", mode_reason="scx_layered was attached by somebody else", scheduler="scx_layered"
    )
    code, said, _ = asa(capsys, "switch", "scx_flash")
    assert (code, said) == (1, "scx_flash is not in force: scx_layered was attached by somebody else\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scx_nonsense", "'scx_nonsense' is no scheduler that asa knows; eevdf, "),
        ("scx_flash:fast", "'scx_flash:fast' is no scheduler that asa knows; scx_flash has the modes default"),
        ("scx_flash:", "'scx_flash:' is no scheduler that asa knows"),
        ("scx_rusty", "scx_rusty: not installed; run `asa schedulers install scx_rusty`; usable here: eevdf, "),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(host, capsys, name, words):
    host.agent(**SERVING)
    code, said, error = asa(capsys, "switch", name)
    assert (code, said) == (1, "")
    assert error.startswith(f"asa: {words}")
    assert error.count("\n") == 1


def test_one_that_only_observes(host, capsys):
    host.agent(mode="observing", mode_reason="not root")
    code, _, error = asa(capsys, "switch", "eevdf")
    assert (code, error.endswith("switches nothing: its mode is observing (not root)\n")) == (1, True)


def test_without_an_agent(host, capsys, monkeypatch):
    none = paths.default()
    monkeypatch.setattr(paths, "Places", lambda **given: none)
    assert asa(capsys, "switch", "eevdf") == (1, "", "asa: no agent is running; `asa run` starts one\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away; run the tests as root")
def test_schedulers_of_a_user_whom_the_agent_may_trust(host, capsys, tmp_path):
    folder = tmp_path / "cache/scx"
    for path in (folder, *folder.iterdir()):
        os.chown(path, 65_534, -1)
    host.agent(**SERVING)
    assert asa(capsys, "switch", "scx_flash")[0] == 0
