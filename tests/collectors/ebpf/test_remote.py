# SPDX-License-Identifier: GPL-2.0-only
"""Counters that another process loaded: read by a descriptor, by a user who can do nothing else with it."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from probes_machine import SPINS, Machine

from asa.config import Ebpf
from asa.core.errors import SourceError
from asa.core.helper_api import ProbeFacts
from asa.core.sample import RawSample
from collectors.ebpf import build, layout, remote
from collectors.ebpf.core import open_core
from collectors.ebpf.reader import StatsReader
from collectors.ebpf.remote import RemoteProbes
from collectors.ebpf.sharing import read_only
from collectors.rates import derive

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="loading eBPF programs needs root: sudo make test")
FACTS = ProbeFacts(
    backend="core", layout=layout.VERSION, cpus=2, row_bytes=layout.ROW_BYTES, fields=("switches",), lacking={}
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    out = tmp_path_factory.mktemp("object") / "probes.bpf.o"
    build.build(out)
    return out


@pytest.fixture
def stats(compiled):
    stats = open_core(Path("/proc"), Path("/sys"), path=compiled)
    yield stats
    stats.close()


def facts_of(stats):
    return replace(
        FACTS, cpus=stats.cpus, row_bytes=stats.row_bytes, fields=tuple(stats.fields), lacking=dict(stats.lacking)
    )


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def refusing(reason, calls=None):
    def fetch():
        if calls is not None:
            calls.append(reason)
        raise SourceError(source="ebpf", reason=reason)

    return fetch


@pytest.mark.root
@needs_root
def test_it_reads_what_the_owner_of_the_map_reads(stats):
    before_open = descriptors()
    reader = StatsReader(stats)
    probes = RemoteProbes(lambda: (read_only(stats.stats_fd), facts_of(stats)))
    probes.open()
    assert probes.backend is Ebpf.CORE
    assert probes.lacking == stats.lacking
    subprocess.run(["true"], check=True)
    low, told, high = reader.read_all(), probes.read(), reader.read_all()
    reads = (low, (told["probes"], told["felt"]), high)
    low, read, high = ({**asdict(counted), **asdict(felt)} for counted, felt in reads)
    assert low["switches"] > 0
    for field in layout.FIELDS:
        words = [each[field.name] for each in (low, read, high)]
        if field.name not in stats.fields:
            assert words == [None, None, None], field.name
        elif field.words == 1:
            assert words[0] <= words[1] <= words[2], field.name
        else:
            assert all(a <= b <= c for a, b, c in zip(*words, strict=True)), field.name
    probes.close()
    probes.close()
    reader.close()
    assert probes.backend is Ebpf.OFF
    assert descriptors() == before_open


@pytest.mark.root
@needs_root
def test_a_user_without_privileges_reads_and_does_nothing_else(stats):
    descriptor = read_only(stats.stats_fd)
    try:
        command = [sys.executable, HERE / "load/remote_reader.py", str(descriptor), json.dumps(asdict(facts_of(stats)))]
        done = subprocess.run(
            command, pass_fds=[descriptor], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)}
        )
    finally:
        os.close(descriptor)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["uids"] == [65534, 65534, 65534]
    assert said["switches"] > 0
    assert said["tried"].pop("open anew") in {"EACCES", "ENXIO", "EPERM"}
    # a kernel that maps it to read is welcome: that only reads
    assert said["tried"].pop("map to read") in {"EINVAL", "done"}
    assert said["tried"].pop("map to write") in {"EACCES", "EINVAL"}
    assert set(said["tried"].values()) <= {"EPERM", "EOPNOTSUPP", "ENOTSUP"}, said["tried"]
    assert said["tried"]["update"] == "EPERM"


@pytest.mark.root
@needs_root
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"layout": 7},
            r"the helper's probes have another layout: 0x0{15}7, not 0x[0-9a-f]{16}; .*restart asa-helper$",
        ),
        ({"row_bytes": 64}, "have another layout"),
        ({"cpus": 0}, "not understood: 0 CPUs, backend 'core'$"),
        ({"cpus": 1 << 30}, "not understood"),
        ({"backend": "off"}, "not understood: . CPUs, backend 'off'$"),
        ({"cpus": 61}, "has max_entries [0-9]+, not 61$"),
    ],
)
def test_what_does_not_fit_is_refused_and_given_back(stats, change, words):
    probes = RemoteProbes(lambda: (read_only(stats.stats_fd), replace(facts_of(stats), **change)))
    before = descriptors()
    with pytest.raises(SourceError, match=words) as caught:
        probes.read()
    assert "\n" not in str(caught.value)
    assert descriptors() == before
    assert probes.backend is Ebpf.OFF


def test_a_descriptor_of_something_else_is_refused_and_given_back():
    before = descriptors()
    probes = RemoteProbes(lambda: (os.memfd_create("no map"), FACTS))
    with pytest.raises(SourceError, match="has key_size None, not 4"):
        probes.read()
    assert descriptors() == before


@pytest.mark.root
@needs_root
def test_no_rate_spans_two_helpers(compiled):
    opened, clock = [], []

    def fetch():
        opened.append(open_core(Path("/proc"), Path("/sys"), path=compiled))
        return read_only(opened[-1].stats_fd), facts_of(opened[-1])

    def sample():
        clock.append(None)
        subprocess.run(["true"], check=True)
        return RawSample(monotonic_ns=len(clock) * 10**9, wall_ns=0, **probes.read())

    probes = RemoteProbes(fetch)
    try:
        probes.open()
        first, second = sample(), sample()
        assert derive(first, second).switches_per_s > 0
        probes.lost()
        assert probes.backend is Ebpf.OFF
        opened.pop().close()
        third, fourth, fifth = sample(), sample(), sample()
        assert third.probes is None
        assert derive(second, third).switches_per_s is None
        assert derive(third, fourth).switches_per_s is None
        assert derive(fourth, fifth).switches_per_s > 0
    finally:
        probes.close()
        for stats in opened:
            stats.close()


def test_a_helper_that_comes_later_is_found():
    calls = []
    probes = RemoteProbes(refusing("no lease yet", calls))
    probes.open()
    assert probes.lacking == {"ebpf": "no lease yet"}
    for _ in range(remote._PAUSE_READS):
        with pytest.raises(SourceError, match=r"^ebpf: no lease yet$"):
            probes.read()
    assert len(calls) == 1
    with pytest.raises(SourceError):
        probes.read()
    assert len(calls) == 2
    probes.again()
    with pytest.raises(SourceError):
        probes.read()
    assert len(calls) == 3


@pytest.mark.root
@needs_root
def test_a_helper_that_comes_later_serves_from_its_first_read(stats):
    answers = [SourceError(source="ebpf", reason="no lease yet"), (read_only(stats.stats_fd), facts_of(stats))]

    def fetch():
        answer = answers.pop(0)
        if isinstance(answer, SourceError):
            raise answer
        return answer

    probes = RemoteProbes(fetch)
    probes.open()
    probes.again()
    assert probes.read()["probes"].switches is not None
    assert probes.lacking == stats.lacking
    probes.close()


@pytest.mark.root
@needs_root
def test_a_read_costs_little(stats):
    probes = RemoteProbes(lambda: (read_only(stats.stats_fd), facts_of(stats)))
    probes.open()
    took_ns = []
    for _ in range(200):
        start_ns = time.perf_counter_ns()
        probes.read()
        took_ns.append(time.perf_counter_ns() - start_ns)
    probes.close()
    assert min(took_ns) < 1_000_000  # 0.05 ms on the machine this was written on


def test_no_address_leaves_the_kernel(library):
    machine = Machine(library)
    machine.reset()
    lock = 0xFFFF_8881_2345_6780
    machine.contention_begin(lock, SPINS, 1)
    machine.at(2_000_000)
    halves = {lock, lock >> 32, lock & 0xFFFF_FFFF}
    assert not halves & set(machine._rows)
    machine.contention_end(lock, 0, 1)
    assert machine["lock_wait_ns"] == 1_000_000
    assert not halves & set(machine._rows)
