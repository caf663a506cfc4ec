# SPDX-License-Identifier: GPL-2.0-only
"""Descriptions of machines: what they say, how QEMU and the kernel are told, and what a bad file is answered."""

import json
from pathlib import Path

import pytest

from asa.cli.main import main
from asa.core.errors import InputError
from asa.decide import fingerprint, table
from scenarios.energy import Core
from scenarios.guests import conditions, power
from scenarios.lab import guest
from scenarios.lab.machines import alike, find, fleet, load, read, shipped

TABLES = Path(__file__).resolve().parents[3] / "calibration/results/stages/tables"
SOUND = """
note: none
memory_mb: 1024
kinds:
  fast: {speed_pct: 100, watts: 10}
  slow: {speed_pct: 50, watts: 2.5}
clusters:
  - [{kind: fast, cores: 2, threads: 2}, {kind: slow, cores: 1}]
  - [{kind: fast, cores: 1, threads: 2}]
shared_pct: 60
turbo_pct: [100, 95, 95]
idle_watts: 3
sources: [none]
"""


def described(tmp_path, old="", new=""):
    assert old in SOUND
    path = tmp_path / "mine.yaml"
    path.write_text(SOUND.replace(old, new) if old else SOUND)
    return path


def test_ten_machines_of_the_paper_and_three_laptops():
    assert [one.name for one in fleet()] == [f"vm{number}" for number in range(120, 130)]
    assert [one.name for one in fleet() if one.prototype] == ["vm120", "vm121", "vm125", "vm128"]  # the paper, 5.1.1
    assert [one.cpus for one in fleet()] == [4, 4, 6, 6, 4, 2, 20, 16, 12, 12]
    assert {one.name: one.shape for one in shipped() if one.role is None or len(one.kinds) > 1} == {
        "laptop-hybrid": "2 fast x 2 + 4 slow",
        "laptop-slow": "4 slow",
        "laptop-two-clusters": "4 fast x 2, 4 dense x 2",
        "vm126": "8 fast x 2 + 4 slow",
        "vm129": "4 fast x 2 + 4 slow",
    }
    assert all(one.cpus in guest.CPUS for one in shipped())
    described = {(one.shape, one.memory_mb) for one in fleet()}
    assert len(described) == len(fleet())  # an unseen one that is a prototype again would show nothing


def test_a_machine_by_linux_cpus(tmp_path):
    machine = read(described(tmp_path))
    assert (machine.name, machine.cpus, machine.tick_hz) == ("mine", 7, 1000)
    assert machine.speeds == (100, 100, 100, 100, 50, 100, 100)
    assert [core.cpus for core in machine.cores] == [(0, 1), (2, 3), (4,), (5, 6)]
    assert machine.caches == (frozenset(range(5)), frozenset({5, 6}))
    facts = machine.facts
    assert (facts.cpus, facts.cores, facts.smt, facts.caches) == (7, 4, True, 2)
    assert [(kind.cores, kind.max_mhz, kind.capacity) for kind in facts.kinds] == [(3, 4000, 1024), (1, 2000, 512)]


def test_a_guest_without_a_description_has_alike_cpus_and_draws_power():
    one = alike(3)
    assert (one.name, one.cpus, one.speeds, one.caches) == ("alike-3", 3, (100, 100, 100), (frozenset({0, 1, 2}),))
    assert one.smp() == ("-smp", "3,sockets=1,cores=3,threads=1")
    drawn = power(load("vm126"))
    assert drawn.idle_w == 7.0
    assert drawn.cores[0] == Core(cpus=(0, 1), busy_w=21.0)
    assert drawn.cores[-1] == Core(cpus=(19,), busy_w=7.0)
    assert conditions(one).machine == "alike-3"


def test_qemu_and_the_kernel_are_told(tmp_path):
    machine = read(described(tmp_path))
    smp = machine.smp("max-x86_64-cpu")
    assert smp[:2] == ("-smp", "1,maxcpus=12,sockets=2,cores=3,threads=2")
    assert smp[2::2] == ("-device",) * 6
    assert [word.removeprefix("max-x86_64-cpu,") for word in smp[3::2]] == [
        "socket-id=0,core-id=0,thread-id=1",
        "socket-id=0,core-id=1,thread-id=0",
        "socket-id=0,core-id=1,thread-id=1",
        "socket-id=0,core-id=2,thread-id=0",
        "socket-id=1,core-id=0,thread-id=0",
        "socket-id=1,core-id=0,thread-id=1",
    ]
    speeds = "100:100:100:100:50:100:100:100:100:100:100:100"  # by QEMU's number: what is left out counts
    assert machine.icount() == f",speeds={speeds},shared=60,turbo=100:95:95"
    assert machine.append() == ("asa_machine.speeds=100,100,100,100,50,100,100",)
    (alike,) = find("vm124")
    assert (alike.smp(), alike.icount(), alike.append()) == (("-smp", "4,sockets=2,cores=2,threads=1"), "", ())
    (threads,) = find("vm127")
    assert (threads.smp(), threads.icount()) == (("-smp", "16,sockets=1,cores=8,threads=2"), ",shared=61")


def test_what_a_guest_is_expected_to_be_is_what_guests_have_told():
    for name in ("vm120", "vm122"):
        told = table.read(TABLES / f"{name}.yaml").machine
        (machine,) = find(name)
        assert fingerprint.differences(told, machine.facts) == ()
    first, second = find("vm120,vm124")
    assert fingerprint.differences(fingerprint.machine("vm120", first.facts), second.facts) == (
        "caches 1 there, 2 here",
    )


def test_machines_by_words(tmp_path):
    assert find("all") == fleet()
    assert find("vm129, vm120,vm120") == (fleet()[0], fleet()[-1])
    assert find("prototypes,unseen") == fleet()
    assert {one.name for one in find("prototypes")} == {"vm120", "vm121", "vm125", "vm128"}
    assert [one.name for one in find("laptops")] == ["laptop-hybrid", "laptop-slow", "laptop-two-clusters"]
    path = described(tmp_path)
    assert [one.name for one in find(f"{path},vm125,{path}")] == ["vm125", "mine"]
    with pytest.raises(
        InputError, match="--machine: 'vm119' is not accepted; allowed: all, prototypes, unseen, laptops, laptop-hy"
    ):
        find("vm119")
    with pytest.raises(InputError, match=r"'unseen' is not accepted; allowed: laptop-hybrid, .* ends in \.yaml"):
        load("unseen")


CLUSTERS = SOUND[SOUND.index("clusters:") : SOUND.index("shared_pct:")]
KINDS = SOUND[SOUND.index("kinds:") : SOUND.index("clusters:")]
CORES = "a mapping with the keys kind, cores, threads"
CORES_OF = f"a list of at least 1, each of them {CORES}"


@pytest.mark.parametrize(
    ("old", "new", "key", "value", "allowed"),
    [
        # no CPU at all
        (CLUSTERS, "clusters: []\n", "clusters", "[]", f"a list of at least 1, each of them {CORES_OF}"),
        ("  - [{kind: fast, cores: 1, threads: 2}]", "  - []", "clusters[1]", "[]", CORES_OF),
        ("cores: 2,", "cores: 0,", "clusters[0][0].cores", "0", "a whole number from 1 to 64"),
        (CLUSTERS, "", "clusters", "None", f"a list of at least 1, each of them {CORES_OF}"),
        # speed
        ("speed_pct: 50", "speed_pct: 0", "kinds.slow.speed_pct", "0", "a whole number from 1 to 100"),
        ("speed_pct: 50", "speed_pct: 101", "kinds.slow.speed_pct", "101", "a whole number from 1 to 100"),
        ("kind: slow", "kind: odd", "clusters[0][1].kind", "'odd'", "one of the kinds fast, slow"),
        (KINDS, "kinds: {}\n", "kinds", "{}", "keys of one's own, at least 1, each with a mapping with the keys"),
        # threads
        ("cores: 1, threads: 2", "cores: 1, threads: 3", "clusters[1][0].threads", "3", "1, 2"),
        ("cores: 1, threads: 2", "cores: 1, threads: 0", "clusters[1][0].threads", "0", "1, 2"),
        ("shared_pct: 60", "", "shared_pct", "None", "a percentage, since cores have two threads"),
        ("shared_pct: 60", "shared_pct: 0", "shared_pct", "0", "a whole number from 1 to 100 or null"),
        # clusters that overlap: CPUs have no numbers here, so that no CPU is in two
        ("cores: 1, threads: 2", "cores: 1, cpus: [0]", "clusters[1][0].cpus", "[0]", "one of the keys kind, cores"),
        ("  - [{kind: fast, cores: 1, threads: 2}]", "  - [0, 1]", "clusters[1][0]", "0", CORES),
        (CLUSTERS, CLUSTERS + CLUSTERS, "", "\"key 'clusters' stands twice in line 10\"", "valid YAML"),
        # too many
        ("cores: 2,", "cores: 40,", "clusters", "'83 CPUs'", "at most 64 CPUs"),
        ("cores: 2,", "cores: 65,", "clusters[0][0].cores", "65", "a whole number from 1 to 64"),
        # the rest
        ("[100, 95, 95]", "[95, 100]", "turbo_pct", "[95, 100]", "a value for each number of busy cores at most"),
        ("[100, 95, 95]", "[99, 98, 97, 96, 95]", "turbo_pct", "[99, 98, 97, 96, 95]", "a value for each number"),
        ("watts: 2.5", "watts: -1", "kinds.slow.watts", "-1", "a number from 0 to 1000"),
        (", watts: 2.5", "", "kinds.slow.watts", "None", "a number from 0 to 1000"),
        ("idle_watts: 3", "", "idle_watts", "None", "a number from 0 to 1000"),
        ("note: none", "note: none\nname: other", "name", "'other'", "no name: the file's is taken"),
        ("note: none", "notes: none", "notes", "'none'", "one of the keys name, note, "),
        ("note: none", "note: [", "", "\"did not find expected ',' or ']' in line 4\"", "valid YAML"),
        ("sources: [none]", "sources: []", "sources", "[]", "a list of at least 1, each of them text"),
        ("memory_mb: 1024", "memory_mb: 1024\ntick_hz: 300", "tick_hz", "300", "250, 1000"),
    ],
)
def test_a_bad_file_is_answered_with_one_line(tmp_path, old, new, key, value, allowed):
    path = described(tmp_path, old, new)
    with pytest.raises(InputError) as caught:
        load(str(path))
    words = str(caught.value)
    assert words.startswith(f"{path}: {key}{': ' if key else ''}{value} is not accepted; allowed: {allowed}")
    assert "\n" not in words


def test_a_file_that_cannot_be_a_machine(tmp_path):
    with pytest.raises(InputError, match="none"):
        load(str(tmp_path / "none.yaml"))
    taken = described(tmp_path).rename(tmp_path / "vm120.yaml")
    with pytest.raises(InputError, match="'vm120' is not accepted; allowed: a file name that is no machine of the lab"):
        load(str(taken))
    listed = tmp_path / "list.yaml"
    listed.write_text("- a\n")
    with pytest.raises(InputError, match="list"):
        load(str(listed))


@pytest.mark.parametrize("as_json", [True, False])
def test_the_list(capsys, as_json):
    with pytest.raises(SystemExit) as ended:
        main(["lab", "fleet", "list", *(["--json"] if as_json else [])])
    assert not ended.value.code
    said = capsys.readouterr().out
    if as_json:
        rows = [json.loads(line) for line in said.splitlines()]
        assert [(row["name"], row["cpus"]) for row in rows] == [(one.name, one.cpus) for one in shipped()]
        assert all(len(row["speeds"]) == row["cpus"] for row in rows)
    else:
        assert all(one.name in said for one in shipped())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--machine", "vm120", "--cpus", "2"), "asa: --machine: it has its own CPUs and memory; leave out --cpus"),
        (("--machine", "vm119"), "asa: --machine: 'vm119' is not accepted; allowed: laptop-hybrid, "),
        (("--machine", "/none/mine.yaml"), "asa: /none/mine.yaml: "),
    ],
)
def test_a_machine_that_lab_run_refuses(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        main(["lab", "run", *words, "--", "true"])
    assert ended.value.code == 125
    assert capsys.readouterr().err.startswith(said)
