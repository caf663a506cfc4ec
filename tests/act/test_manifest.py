# SPDX-License-Identifier: GPL-2.0-only
"""The packaged manifest, one's own over it, and what is made from them."""

import configparser
import os
import re
from pathlib import Path

import pytest

from asa import paths
from asa.act import manifest, settings
from asa.act.portfolio import Portfolio, Unavailable
from asa.core.decision import SchedulerName
from asa.core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
ENTRY = """
  - name: {name}
    source: {{kind: host, reason: it is made up}}
    purpose: none at all
    ops: {ops}
    help: null
    paper: false
    knobs: {{switches: [--loud]}}
"""
OWN = "schedulers:" + ENTRY.format(name="scx_mine", ops="mine")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Where the administrator's own manifest is, in a folder of root's."""
    path = tmp_path / "etc/manifest.yaml"
    path.parent.mkdir(mode=0o755)
    path.parent.chmod(0o755)
    monkeypatch.setattr(paths, "own_manifest", lambda: path)
    return path


def put(path, text):
    path.write_text(text)
    path.chmod(0o644)


def loaded(tmp_path):
    return Portfolio.load(paths.manifest(), tmp_path / "scx", "")


@pytest.mark.root
def test_a_scheduler_of_ones_own_is_one_of_the_portfolio(own, tmp_path):
    shipped = loaded(tmp_path).names()
    put(own, OWN)
    found = loaded(tmp_path)
    assert found.names() == (*shipped, "scx_mine")
    assert found.modes()["scx_mine"] == ("default",)
    assert found.name_of_ops("mine_1.0") == "scx_mine"
    mine = found.look(SchedulerName("scx_mine"))
    assert isinstance(mine, Unavailable)
    assert "put a binary on PATH and run `asa schedulers install scx_mine`" in mine.reason


@pytest.mark.root
def test_an_entry_of_ones_own_takes_the_place_of_the_packaged_one(own, tmp_path):
    shipped = loaded(tmp_path).names()
    put(own, "schedulers:" + ENTRY.format(name="scx_nest", ops="nest"))
    found = loaded(tmp_path)
    assert found.names() == shipped
    assert found.entry(SchedulerName("scx_nest")).knobs.flags() == ("--loud",)


@pytest.mark.root
def test_settings_of_ones_own_are_put_back_too(own, monkeypatch):
    file = "devices/system/cpu/cpu*/made_up/knob"
    put(own, f'settings: {{"{file}": "[0-9]"}}\n{OWN}    writes: [knob, no_turbo]\n')
    monkeypatch.setattr(settings, "_manifest", lambda: manifest.in_use(paths.manifest()))
    monkeypatch.setattr(settings, "_table", settings._table.__wrapped__)
    assert settings.acceptable("devices/system/cpu/cpu7/made_up/knob", "3")
    assert not settings.acceptable("devices/system/cpu/cpu7/made_up/knob", "33")
    assert not settings.acceptable("devices/system/cpu/cpuX/made_up/knob", "3")
    assert {"knob", "no_turbo"} <= settings.doubtful.__wrapped__()


@pytest.mark.root
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("schedulers:\n  - name: eevdf", r"schedulers\[0\]"),
        ("schedulers:" + ENTRY.format(name="eevdf", ops="mine"), r"schedulers\[0\].name: 'eevdf'.*the kernel's own"),
        (
            OWN.replace("kind: host", "kind: path"),
            r"source.kind: 'path'.*allowed: composed, crate, host",
        ),
        (
            OWN.replace("kind: host, ", ""),
            r"source.kind: None .*composed, crate, host, kernel, kernel-source$",
        ),
        (OWN.replace("    help:", "    halp:"), r"schedulers\[0\].halp: .*one of the keys name, source"),
        (OWN + ENTRY.format(name="scx_mine", ops="other"), r"schedulers\[0\].name: 'scx_mine'.*each one once"),
        ("schedulers:" + ENTRY.format(name="scx_mine", ops="lavd"), r"schedulers\[0\].ops: 'lavd'.*each one once"),
        (OWN.replace("{kind: host, reason: it is made up}", "{kind: kernel}"), "a program of its own"),
        (OWN + "    writes: [no_tubo]\n", r"schedulers\[0\].writes: 'no_tubo'.*no_turbo"),
        (OWN + "    nice: true\n", "nice"),
        ('settings: {"/etc/passwd": "x"}\n' + OWN, "settings"),
        ('settings: {"devices/../../etc/passwd": "x"}\n' + OWN, "settings"),
        ('settings: {"devices/x": "[0-9"}\n' + OWN, r"settings.devices/x: '\[0-9'.*a regular expression"),
        ('settings: {"devices/no_turbo": "x"}\n' + OWN, "each file's name once"),
        ('settings: {"devices/system/cpu/intel_pstate/no_turbo": ".*"}\n' + OWN, "does not have"),
    ],
)
def test_what_is_wrong_is_one_clear_line(own, tmp_path, text, told):
    put(own, text)
    with pytest.raises(InputError, match=told) as caught:
        loaded(tmp_path)
    assert str(caught.value).startswith(str(own))
    assert "\n" not in str(caught.value)


@pytest.mark.root
def test_only_root_may_have_written_it(own, tmp_path):
    put(own, OWN)
    for place, mode in ((own, 0o664), (own.parent, 0o777)):
        kept = place.stat().st_mode
        place.chmod(mode)
        with pytest.raises(InputError, match=rf"{place}.*root's alone to write"):
            loaded(tmp_path)
        place.chmod(kept)
    os.chown(own, 12345, 12345)
    with pytest.raises(InputError, match="root's alone to write"):
        loaded(tmp_path)
    own.rename(tmp_path / "elsewhere")
    own.symlink_to(tmp_path / "elsewhere")
    os.chown(tmp_path / "elsewhere", 0, 0)
    with pytest.raises(InputError, match="no symlink"):
        loaded(tmp_path)


def test_none_of_ones_own_is_no_fault(own, tmp_path):
    own.unlink(missing_ok=True)
    assert "scx_lavd" in loaded(tmp_path).names()


def test_what_a_setting_stands_for():
    name = manifest.pattern("devices/system/cpu/cpu*/power/x_y")
    assert re.fullmatch(name, "devices/system/cpu/cpu17/power/x_y")
    for other in ("devices/system/cpu/cpu/power/x_y", "devices/system/cpu/cpu1/../power/x_y", "xdevices"):
        assert not re.fullmatch(name, other)


def test_the_helpers_unit_lets_be_written_what_the_manifest_names():
    files = {**manifest.read(paths.manifest()).settings, settings.RCU_EXPEDITED: ""}
    unit = configparser.RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string((ROOT / "asa/data/asa-helper.service").read_text())
    allowed = unit["Service"]["ReadWritePaths"].split()
    assert sorted(allowed) == sorted(f"-/sys/{place}" for place in manifest.writable(files))


def test_the_fewest_places_that_hold_all():
    files = ("a/b/c*/d", "a/b/e", "a/bb/x", "k/r")
    assert manifest.writable(files) == ["a/b", "a/bb/x", "k/r"]


def test_candidates_go_over_the_packaged_manifest():
    """Root copies an entry: each is sound beside the portfolio, and none is installed by itself."""
    shipped, path = manifest.read(paths.manifest()), paths.manifest().with_name("candidates.yaml")
    more = manifest.read(path)
    both = manifest.merged(shipped, more, str(path))
    assert [one.name for one in both.schedulers] == [one.name for one in (*shipped.schedulers, *more.schedulers)]
