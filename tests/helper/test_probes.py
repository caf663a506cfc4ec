# SPDX-License-Identifier: GPL-2.0-only
"""The helper's probes on this machine's kernel: loaded once, tended, and worth nothing once they are closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from asa.config import Ebpf
from asa.core.errors import SourceError
from asa.helper import probes as module
from asa.helper.probes import Probes
from collectors.ebpf import build, collector, hooks, layout, reader
from collectors.ebpf.core import OBJECT, open_core
from collectors.ebpf.remote import RemoteProbes
from collectors.ebpf.sharing import CopiedRows

PROC, SYS = Path("/proc"), Path("/sys")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="loading eBPF programs needs root: sudo make test"),
]


class Clock:
    ns = 0

    def __call__(self):
        return self.ns


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    out = tmp_path_factory.mktemp("object") / "probes.bpf.o"
    build.build(out)
    return out


@pytest.fixture(autouse=True)
def shipped(compiled, monkeypatch):
    """The object that is made of the present sources."""
    monkeypatch.setattr(collector, "open_core", lambda proc, sys: open_core(proc, sys, path=compiled))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def probes(clock):
    probes = Probes(PROC, SYS, Ebpf.CORE, now_ns=clock)
    yield probes
    probes.close()


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def copied(handover):
    """The rows as a daemon reads them."""
    facts = handover.facts
    return CopiedRows(os.dup(handover.map_fd), cpus=facts.cpus, row_bytes=facts.row_bytes)


def words(rows, name):
    """A word of each CPU's row, as it is now."""
    rows.copy()
    return {row[layout.OFFSETS[name]] for row in reader.rows_of(rows.words, rows._cpus)}


def test_they_are_loaded_once_and_handed_over_to_read(probes):
    before = descriptors()
    handover = probes.open()
    held = descriptors()
    assert probes.open() is handover
    assert descriptors() == held
    flags = Path(f"/proc/self/fdinfo/{handover.map_fd}").read_text().partition("flags:\t")[2].split()[0]
    assert int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
    assert handover.facts.layout == layout.VERSION
    assert handover.facts.backend == "core"
    assert "switches" in handover.facts.fields
    assert set(handover.facts.lacking) <= {"input_event", *layout.OF_MODULES}
    probes.close()
    probes.close()
    assert descriptors() == before


def test_what_was_handed_out_counts_no_further_once_they_are_closed(probes):
    rows = copied(probes.open())
    first = words(rows, "switches")
    until(lambda: words(rows, "switches") != first, "tasks are switched")
    probes.close()

    def stands_still():
        seen = words(rows, "switches")
        subprocess.run(["true"], check=True)
        return words(rows, "switches") == seen

    until(stands_still, "the counters stand still")  # a program under way may end after the detach
    assert stands_still()
    rows.close()


def test_it_settles_the_sampling_when_due(probes, clock, monkeypatch):
    monkeypatch.setattr(reader, "MOST_TIMED_SWITCHES_PER_S", 1)
    assert probes.due_in_s() is None
    probes.tick()
    rows = copied(probes.open())
    assert probes.due_in_s() == module.TICK_S

    def timed():
        subprocess.run(["true"], check=True)
        clock.ns += 10**9
        assert probes.due_in_s() == 0.0
        probes.tick()
        assert probes.due_in_s() == module.TICK_S
        return words(rows, "sample_mask") != {0}

    until(timed, "fewer are timed")
    rows.close()


def test_a_tick_before_its_time_does_nothing(probes, clock, monkeypatch):
    tended = []

    def tend(self):
        tended.append(self)

    monkeypatch.setattr(collector.EbpfCollector, "tend", tend)
    probes.open()
    clock.ns += 10**9 - 1
    probes.tick()
    assert tended == []
    clock.ns += 1
    probes.tick()
    probes.tick()
    assert len(tended) == 1


def test_the_networks_interrupts_are_kept_up_to_date(probes, clock, monkeypatch):
    probes.open()
    monkeypatch.setattr(hooks, "network_irqs", lambda proc, sys: frozenset({4000}))
    for _ in range(collector._READS_BETWEEN_IRQS):
        clock.ns += 10**9
        probes.tick()
    assert probes._collector._irqs._network == {4000}


def test_a_refusal_is_remembered_until_closed(monkeypatch):
    probes = Probes(PROC, SYS, Ebpf.CORE)
    with monkeypatch.context() as patch:
        tried = refusing(patch)
        for _ in range(3):
            with pytest.raises(SourceError, match=r"^ebpf: not today$"):
                probes.open()
    assert len(tried) == 1
    assert probes.due_in_s() is None
    probes.close()
    assert probes.open().map_fd >= 0
    probes.close()


def refusing(monkeypatch):
    tried = []

    def refuse(proc, sys):
        tried.append(proc)
        raise SourceError(source="ebpf", reason="not today")

    monkeypatch.setattr(collector, "open_core", refuse)
    return tried


def test_a_refusal_holds_for_a_minute(probes, clock, monkeypatch):
    with monkeypatch.context() as patch:
        tried = refusing(patch)
        for waited_ns in (0, 60 * 10**9 - 1, 1):
            clock.ns += waited_ns
            with pytest.raises(SourceError, match=r"^ebpf: not today$"):
                probes.open()
        assert len(tried) == 2
    clock.ns += 60 * 10**9
    assert probes.open().map_fd >= 0


def test_new_settings_count_at_once_but_for_what_is_loaded(probes, monkeypatch):
    with monkeypatch.context() as patch:
        refusing(patch)
        with pytest.raises(SourceError, match="not today"):
            probes.open()
    probes.renew(Ebpf.CORE)
    handover = probes.open()
    probes.renew(Ebpf.OFF)
    assert probes.open() is handover
    probes.close()
    with pytest.raises(SourceError, match="switched off by the settings"):
        probes.open()


def test_off_is_refused():
    with pytest.raises(SourceError, match=r"switched off by the settings"):
        Probes(PROC, SYS, Ebpf.OFF).open()


UNPRIVILEGED = """
import sys
from pathlib import Path
from asa.config import Ebpf
from asa.core.errors import SourceError
from asa.helper.probes import Probes
from collectors.ebpf import collector
from collectors.ebpf.core import open_core
collector.open_core = lambda proc, sys_: open_core(proc, sys_, path=Path(sys.argv[1]))
probes = Probes(Path("/proc"), Path("/sys"), Ebpf.CORE)
before = len(list(Path("/proc/self/fd").iterdir()))
try:
    probes.open()
except SourceError as error:
    print(error)
print(len(list(Path("/proc/self/fd").iterdir())) - before)
"""


def test_without_the_capability_to_share_nothing_stays_loaded(compiled):
    command = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", UNPRIVILEGED, str(compiled)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=OBJECT.parents[2])
    said, left = done.stdout.splitlines()
    assert said == "ebpf: no descriptor to read the map stats by: operation not permitted; it needs CAP_SYS_ADMIN"
    assert left == "0"


def test_with_bcc_it_is_the_same(clock):
    probes = Probes(PROC, SYS, Ebpf.BCC, now_ns=clock)
    handover = probes.open()
    read = RemoteProbes(lambda: (os.dup(handover.map_fd), handover.facts))
    read.open()
    assert read.backend is Ebpf.BCC
    assert read.lacking == handover.facts.lacking
    first = read.read()["probes"].switches
    until(lambda: read.read()["probes"].switches > first, "tasks are switched")
    assert read.read()["probes"].tcp_packets is None
    read.close()
    probes.close()
