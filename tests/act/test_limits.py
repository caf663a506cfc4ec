# SPDX-License-Identifier: GPL-2.0-only
"""Limits of control groups: which are in force, who heeds them, and that nobody is chosen who lifts them."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from asa import paths
from asa.act import limits
from asa.act.limits import Limit
from asa.act.manifest import Heeded
from asa.act.portfolio import Portfolio
from asa.config import Settings, SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide.table import Entry, MappingTable
from asa.heed import Heed
from scenarios.planted import evidence

USER = "user.slice/user-1000.slice/user@1000.service"


@pytest.fixture
def group(tmp_path):
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    (tmp_path / "fs/cgroup/cgroup.controllers").write_text("cpu memory\n")

    def make(path, *, populated=1, **files):
        folder = tmp_path / "fs/cgroup" / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.events").write_text(f"populated {populated}\nfrozen 0\n")
        values = {"weight": "100", "max": "max 100000"} | files
        for name, text in values.items():
            (folder / f"cpu.{name}").write_text(f"{text}\n")
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("path", "files", "words"),
    [
        ("docker/2b1a", {"max": "50000 100000"}, "docker/2b1a (cpu.max 0.5 CPUs)"),
        ("system.slice/docker-1f0c.scope", {"max": "250000 100000"}, "(cpu.max 2.5 CPUs)"),
        ("system.slice/backup.service", {"max": "20000 100000"}, "system.slice/backup.service (cpu.max 0.2 CPUs)"),
        ("docker/2b1a", {"max": "12800000 100000"}, "docker/2b1a (cpu.max 128 CPUs)"),
        ("docker/2b1a", {"max": "1250000 100000"}, "docker/2b1a (cpu.max 12.5 CPUs)"),
        ("system.slice/backup.service", {"weight": "20"}, "system.slice/backup.service (cpu.weight 20)"),
        ("machine.slice/machine-vm.scope", {"weight": "500"}, "(cpu.weight 500)"),
        (f"{USER}/app.slice/build.service", {"weight": "10"}, "(cpu.weight 10)"),
        (f"{USER}/app.slice", {"max": "50000 100000"}, "(cpu.max 0.5 CPUs)"),
        ("kubepods.slice/a/b/c/d", {"max": "50000 100000"}, "kubepods.slice/a/b/c/d"),
        # none
        ("system.slice/a.service", {}, None),
        (f"{USER}/background.slice", {"weight": "30"}, None),  # systemd's own, on every desktop
        ("user.slice", {"weight": "200"}, None),
        ("system.slice/a.service", {"max": "50000 100000", "populated": 0}, None),
        ("system.slice/a.service", {"max": "garbled", "weight": ""}, None),
    ],
)
def test_which_limits_are_in_force(group, path, files, words):
    found = limits.found(group(path, **files))
    assert len(found) == (words is not None)
    if words is not None:
        assert words in found[0].words


def test_no_control_groups(tmp_path):
    assert limits.found(tmp_path) == ()


def test_who_heeds_what():
    entries = Portfolio.load(paths.manifest(), Path("/nonexistent")).entries()
    weight = Limit(group="a", kind=Heeded.WEIGHT, value="20")
    most = Limit(group="a", kind=Heeded.MAX, value="50000 100000")
    others = {entry.name for entry in entries} - {"eevdf"}
    assert limits.heedless((), entries) == frozenset()
    assert limits.heedless((weight,), entries) == others - {"scx_flash"}  # its ops have cgroup_set_weight
    assert limits.heedless((most,), entries) == others
    assert limits.heedless((weight, most), entries) == others


@dataclass(frozen=True)
class Setup:
    table: MappingTable


def test_nobody_is_chosen_who_lifts_a_limit_while_it_is_in_force(group):
    entries = Portfolio.load(paths.manifest(), Path("/nonexistent")).entries()
    names = (("scx_lavd", "powersave"), ("scx_flash", "default"), ("scx_rusty", "default"))
    ranking = tuple(Entry(scheduler=name, mode=mode, why="w", evidence=evidence()) for name, mode in names)
    table = MappingTable(path="t", machine="m", provenance="p", rankings={Workload("cpu"): ranking})
    said = []
    sys = group("system.slice/a.service")
    heed, setup = Heed(sys, lambda _: entries, said.append), Setup(table)
    assert heed.apply(setup, Settings()) is setup
    group("system.slice/a.service", weight="20")
    setup = heed.apply(setup, Settings())
    assert setup.table.wanted(Workload("cpu"), ()) == "scx_flash"
    assert not setup.table.allows(Workload("cpu"), SchedulerName("scx_lavd:powersave"), saver=False)
    assert "which it ignores" in dict(setup.table.ranked(Workload("cpu"), saver=False))["scx_rusty"]
    assert "system.slice/a.service (cpu.weight 20)" in heed.words
    assert heed.apply(setup, Settings()) is setup
    group("system.slice/a.service", max="50000 100000")
    setup = heed.apply(setup, Settings())
    assert setup.table.wanted(Workload("cpu"), ()) == EEVDF
    off = heed.apply(setup, Settings(switch=SwitchSettings(respect_limits=False)))
    assert off.table.wanted(Workload("cpu"), ()) == "scx_lavd:powersave"
    group("system.slice/a.service")
    assert heed.apply(setup, Settings()).table.limited == frozenset()
    assert heed.words == ""
    assert said[0].startswith("limits of CPU time are in force: system.slice/a.service (cpu.weight 20)")
    assert "limits of CPU time are in force no longer: all schedulers may be chosen" in said
    assert replace(setup.table, limited=frozenset()) == table
