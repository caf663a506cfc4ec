# SPDX-License-Identifier: GPL-2.0-only
"""Units that are taken over and put back, with a systemctl that stands in."""

import json
from dataclasses import replace

import pytest

from asa import takeover
from asa.act.rivals import Harm, Rival
from asa.core.errors import AsaError


class Systemd:
    """What `systemctl` would say and do: unit -> [enabled, active]."""

    def __init__(self, **units):
        self.units = {f"{name}.service": list(state) for name, state in units.items()}
        self.called = []
        self.fails = set()

    def __call__(self, words):
        verb, *_, name = words
        self.called.append(tuple(words))
        unit = self.units.get(name)
        if verb in self.fails or unit is None:
            return 1, "Failed"
        if verb == "is-enabled":
            return int(not unit[0]), "enabled" if unit[0] else "disabled"
        if verb == "is-active":
            return int(not unit[1]), "active" if unit[1] else "inactive"
        if verb == "disable":
            unit[:] = [False, False]
        elif verb == "enable":
            unit[0] = True
        elif verb == "start":
            unit[1] = True
        elif verb in ("mask", "unmask"):
            unit[2:] = ["masked"] * (verb == "mask")
        return 0, ""


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "state/taken-over.json"


def rival(name, harm=Harm.SWITCHES, stop=None):
    return Rival(name=name, harm=harm, where="pid 7", text="", stop=stop or f"systemctl disable --now {name}.service")


def test_whose_units_those_are():
    found = (
        rival("scx"),
        rival("scx_loader"),
        rival("falcond", Harm.MAY_SWITCH),
        rival("tuned", Harm.PRIORITIES),
        rival("by hand", stop="kill 7"),
        rival("a user's", stop="systemctl --user disable --now a.service"),
        rival("sly", stop="systemctl disable --now --all"),
        rival("scx"),
    )
    assert takeover.units(found, loader_is_ours=False) == ("scx.service", "scx_loader.service")
    assert takeover.units(found, loader_is_ours=True) == ("scx.service",)
    assert takeover.commands(["scx.service"]) == ("systemctl disable --now scx.service",)


def test_who_orders_of_scx_loader_keeps_its_other_work(kept):
    falcond = replace(rival("falcond", harm=Harm.MAY_SWITCH), orders_loader=True)
    active, loader = {"scx_loader.service": "active"}, ("scx_loader.service",)
    assert takeover.masks([falcond, rival("scx")], "auto", {}) == loader
    assert takeover.masks([falcond], "auto", active) == takeover.masks([rival("scx")], "own", active) == ()
    follows = rival("scx_loader --auto", stop="systemctl disable --now scx_loader.service")
    assert takeover.masks([follows, falcond], "auto", active) == loader  # stopped, and to be started by nobody
    assert takeover.masks([follows, falcond], "loader", active) == ()  # it is to take our orders
    assert takeover.masks([follows], "auto", active) == ()
    assert takeover.commands([], ["scx_loader.service"]) == (
        "systemctl disable --now scx_loader.service",
        "systemctl mask scx_loader.service",
    )
    systemd = Systemd(falcond=(True, True), scx_loader=(False, True))
    takeover.take([], kept, systemd, masked=["scx_loader.service"])
    assert systemd.units == {"falcond.service": [True, True], "scx_loader.service": [False, False, "masked"]}
    takeover.take([], kept, systemd, masked=["scx_loader.service"])
    takeover.back(kept, systemd)
    assert systemd.units["scx_loader.service"] == [False, True]


@pytest.mark.parametrize("state", [(True, True), (False, True), (True, False), (False, False)])
def test_a_unit_comes_back_as_it_was(kept, state):
    systemd = Systemd(scx=state)
    takeover.take(["scx.service"], kept, systemd)
    assert systemd.units["scx.service"] == [False, False]
    assert [(one.enabled, one.active) for one in takeover.known(kept)] == [state]
    assert [one.name for one in takeover.back(kept, systemd)] == ["scx.service"]
    assert systemd.units["scx.service"] == list(state)
    assert not kept.exists()
    assert takeover.back(kept, systemd) == ()


def test_how_it_was_is_on_disk_before_it_is_touched_and_a_second_time_forgets_nothing(kept):
    systemd = Systemd(scx=(True, True), one=(True, True))
    systemd.fails = {"disable"}
    with pytest.raises(
        AsaError, match=r"systemctl disable --now scx.service ended with 1: 'Failed'; asa doctor --undo"
    ):
        takeover.take(["scx.service"], kept, systemd)
    assert systemd.called[-1] == ("disable", "--now", "scx.service")
    assert [one.name for one in takeover.known(kept)] == ["scx.service"]
    systemd.fails = set()
    takeover.take(["scx.service"], kept, systemd)
    takeover.take(["scx.service", "one.service"], kept, systemd)
    assert [(one.name, one.enabled, one.active) for one in takeover.known(kept)] == [
        ("scx.service", True, True),
        ("one.service", True, True),
    ]


def test_what_cannot_be_put_back_stays_known_and_what_has_gone_is_forgotten(kept):
    systemd = Systemd(gone=(True, True), stuck=(True, True), last=(True, True))
    names = ["gone.service", "stuck.service", "last.service"]
    takeover.take(names, kept, systemd)
    del systemd.units["gone.service"]
    systemd.fails = {"start"}
    with pytest.raises(AsaError, match=r"systemctl start stuck\.service ended with 1"):
        takeover.back(kept, systemd)
    assert [one.name for one in takeover.known(kept)] == names[1:]
    systemd.fails = set()
    assert [one.name for one in takeover.back(kept, systemd)] == names[1:]
    assert systemd.units == {name: [True, True] for name in names[1:]}


@pytest.mark.parametrize(
    "text", ["", "[1]", json.dumps([{"name": "--all", "enabled": True, "active": True}]), json.dumps({"a": 1})]
)
def test_a_damaged_file_is_one_line(kept, text):
    kept.parent.mkdir()
    kept.write_text(text)
    with pytest.raises(AsaError, match=r"taken-over.json: damaged: .*; enable by hand"):
        takeover.known(kept)


def test_a_masked_unit(tmp_path):
    (tmp_path / "a.service").symlink_to("/dev/null")
    (tmp_path / "b.service").touch()
    assert [takeover.is_masked(f"{name}.service", tmp_path) for name in "abc"] == [True, False, False]
