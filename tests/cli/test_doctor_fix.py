# SPDX-License-Identifier: GPL-2.0-only
"""`asa doctor --fix` and `--undo`: what is shown, what is asked, and what is run."""

import io
import os
from dataclasses import replace

import pytest

from asa import paths, takeover
from asa.act import rivals
from asa.act.rivals import Harm, Rival
from asa.cli.main import main

SCX = Rival(name="scx", harm=Harm.SWITCHES, where="pid 7", text="", stop="systemctl disable --now scx.service")


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A machine of root's with scx.service; gives what was taken over."""
    taken = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(rivals, "unit_states", dict)
    monkeypatch.setattr(rivals, "found", lambda *_: (SCX,))
    monkeypatch.setattr(
        paths, "installed", lambda: paths.Places(cache=tmp_path, state=tmp_path, config=tmp_path / "no")
    )

    def take(names, path, masked=()):
        taken.append(((*names, *masked), path))
        return [takeover.Unit(name=name, enabled=True, active=True) for name in (*names, *masked)]

    monkeypatch.setattr(takeover, "take", take)
    monkeypatch.setattr(takeover, "there", lambda name: name == rivals.LOADER_UNIT)
    return taken


def ran(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *words])
    return ended.value.code or 0, *capsys.readouterr()


@pytest.mark.parametrize(
    ("typed", "done"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False), ("no\n", False)]
)
def test_nothing_is_done_without_a_yes(host, tmp_path, monkeypatch, capsys, typed, done):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    code, said, _ = ran(capsys, "--fix")
    assert said.startswith("systemctl disable --now scx.service\n")
    assert "asa doctor --undo" in said
    assert (code, host) == ((0, [(("scx.service",), tmp_path / "taken-over.json")]) if done else (1, []))


def test_yes_beforehand_and_nothing_to_do(host, monkeypatch, capsys):
    assert ran(capsys, "--fix", "--yes")[0] == 0
    assert len(host) == 1
    monkeypatch.setattr(rivals, "found", lambda *_: ())
    code, said, _ = ran(capsys, "--fix")
    assert (code, said.startswith("nothing to do: no unit here loads schedulers by itself")) == (0, True)


def test_scx_loader_is_masked_beside_one_that_gives_it_orders(host, tmp_path, monkeypatch, capsys):
    falcond = replace(SCX, name="falcond", harm=Harm.MAY_SWITCH, orders_loader=True)
    monkeypatch.setattr(rivals, "found", lambda *_: (falcond,))
    code, said, _ = ran(capsys, "--fix", "--yes")
    assert said.startswith("systemctl disable --now scx_loader.service\nsystemctl mask scx_loader.service\nstopped")
    assert (code, host) == (0, [(("scx_loader.service",), tmp_path / "taken-over.json")])
    monkeypatch.setattr(takeover, "there", lambda name: False)  # falcond without it
    assert ran(capsys, "--fix")[1].startswith("nothing to do")


def test_undo_says_what_is_as_before(host, monkeypatch, capsys):
    assert ran(capsys, "--undo")[:2] == (0, "nothing was taken over\n")
    unit = takeover.Unit(name="scx.service", enabled=True, active=True)
    monkeypatch.setattr(takeover, "back", lambda path: (unit,))
    assert ran(capsys, "--undo")[:2] == (0, "as before: scx.service\n")


@pytest.mark.parametrize("option", ["--fix", "--undo"])
def test_for_root_alone(host, monkeypatch, capsys, option):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, _, told = ran(capsys, option)
    assert code != 0
    assert f"sudo asa doctor {option}" in told
    assert host == []
