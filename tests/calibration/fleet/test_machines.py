# SPDX-License-Identifier: GPL-2.0-only
"""The fleet's machines, and how they are asked for."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from asa.cli.main import main
from asa.core.errors import InputError, LabError
from asa.decide import fingerprint, table
from calibration.fleet.machines import MACHINES, find
from scenarios.lab import guest
from scenarios.lab.emulator import Emulator, Topology
from scenarios.lab.guest import CPUS

TABLES = Path(__file__).resolve().parents[3] / "calibration/results/stages/tables"


def test_ten_machines_that_a_guest_can_be():
    assert [one.name for one in MACHINES] == [f"vm{number}" for number in range(120, 130)]
    assert [one.name for one in MACHINES if one.prototype] == ["vm120", "vm121", "vm125", "vm128"]  # the paper, 5.1.1
    assert {one.cpus for one in MACHINES} == {2, 4, 6, 12, 16}
    assert all(one.cpus in CPUS for one in MACHINES)
    described = {(one.sockets, one.cores, one.threads, one.memory_mb) for one in MACHINES}
    assert len(described) == len(MACHINES)  # an unseen one that is a prototype again would show nothing


def test_what_a_guest_is_expected_to_be_is_what_guests_have_told():
    for name in ("vm120", "vm122"):
        told = table.read(TABLES / f"{name}.yaml").machine
        (machine,) = find(name)
        assert fingerprint.differences(told, machine.facts) == ()
    first, second = find("vm120,vm124")
    assert fingerprint.differences(fingerprint.machine("vm120", first.facts), second.facts) == (
        "caches 1 there, 2 here",
    )


def test_machines_by_words():
    assert find("all") == MACHINES
    assert find("vm129, vm120,vm120") == (MACHINES[0], MACHINES[-1])
    assert {*find("prototypes"), *find("unseen")} == set(MACHINES)
    assert not set(find("prototypes")) & set(find("unseen"))
    with pytest.raises(
        InputError, match="--machine: 'vm119' is not accepted; allowed: all, prototypes, unseen, or of vm1"
    ):
        find("vm119")


def test_a_topology_in_the_words_of_qemu(tmp_path):
    shape = Topology(sockets=2, cores=3, threads=2)
    assert (shape.cpus, shape.options()) == (12, ("-smp", "12,sockets=2,cores=3,threads=2"))
    emulator = Emulator(binary=tmp_path / "qemu", version=(10, 0, 0), kvm=False, why="")
    with pytest.raises(LabError, match="has 12 CPUs, not 4"):
        guest.Guest.start(["true"], kernel=None, emulator=emulator, out=tmp_path / "out", cpus=4, topology=shape)
    assert replace(shape, threads=1).cpus == 6


@pytest.mark.parametrize("as_json", [True, False])
def test_the_list(capsys, as_json):
    with pytest.raises(SystemExit) as ended:
        main(["lab", "fleet", "list", *(["--json"] if as_json else [])])
    assert not ended.value.code
    said = capsys.readouterr().out
    if as_json:
        rows = [json.loads(line) for line in said.splitlines()]
        assert [(row["name"], row["cpus"]) for row in rows] == [(one.name, one.cpus) for one in MACHINES]
    else:
        assert all(one.name in said for one in MACHINES)
