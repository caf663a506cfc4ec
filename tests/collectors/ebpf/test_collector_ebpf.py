# SPDX-License-Identifier: GPL-2.0-only
"""The CO-RE backend and the collector on this machine's kernel: loaded, refused in part, refused, taken back."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from asa.config import Ebpf
from asa.core.errors import SourceError
from collectors.ebpf import build, collector, core, hooks, layout
from collectors.ebpf.collector import EbpfCollector
from collectors.ebpf.core import open_core
from collectors.ebpf.reader import StatsReader

PROC, SYS = Path("/proc"), Path("/sys")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="loading eBPF programs needs root: sudo make test"),
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    out = tmp_path_factory.mktemp("object") / "probes.bpf.o"
    build.build(out)
    return out


@pytest.fixture(autouse=True)
def shipped(compiled, monkeypatch):
    """The collector takes the object that is made of the present sources."""
    monkeypatch.setattr(collector, "open_core", lambda proc, sys: open_core(proc, sys, path=compiled))


@pytest.fixture
def opened():
    opened = EbpfCollector(PROC, SYS, Ebpf.CORE)
    opened.open()
    yield opened
    opened.close()


def descriptors():
    """How many this process has open; the listing's own is among them, each time."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_it_fills_every_field_whose_hook_is_here(opened):
    assert opened.backend is Ebpf.CORE
    subprocess.run(["true"], check=True)  # which comes to a CPU
    read = opened.read()
    read = asdict(read["probes"]) | asdict(read["felt"])
    lost = {name for program in opened.lacking for name in layout.lost_without(program)}
    for field in layout.FIELDS:
        assert (read[field.name] is None) == (field.name in lost), field.name
    assert read["switches"] > 0
    # kernels before 6.3 lack more; both of the project's are newer
    assert set(opened.lacking) <= {"input_event"} | layout.OF_MODULES


def test_counts_grow_and_histograms_follow(opened):
    before = opened.read()["probes"]
    for _ in range(20):
        subprocess.run(["true"], check=True)
    after = opened.read()["probes"]
    assert after.forks - before.forks >= 20
    assert after.execs - before.execs >= 20
    assert after.exits - before.exits >= 20
    assert after.wakeups - before.wakeups >= 20
    waits = [a - b for a, b in zip(after.wakeup_latency_hist, before.wakeup_latency_hist, strict=True)]
    assert (
        20 <= sum(waits) <= after.wakeups - before.wakeups + 2 + os.cpu_count()
    )  # those under way: a read is no snapshot
    # Between a wakeup and the switch that it causes goes the scheduler's own way: more than 256 ns on any machine.
    assert (after.wakeup_latency_ns - before.wakeup_latency_ns) / sum(waits) > layout.LATENCY_STARTS_NS[1]
    assert waits[0] < sum(waits) / 2
    slept = [a - b for a, b in zip(after.sleep_hist, before.sleep_hist, strict=True)]
    assert sum(slept) >= 20  # this process, waiting for each
    bursts = [a - b for a, b in zip(after.burst_hist, before.burst_hist, strict=True)]
    assert sum(bursts) <= after.switches - before.switches + os.cpu_count()


def test_closing_takes_programs_and_descriptors_back():
    before = descriptors()
    opened = EbpfCollector(PROC, SYS, Ebpf.CORE)
    opened.open()
    assert descriptors() > before + 20
    opened.close()
    opened.close()
    assert descriptors() == before
    assert opened.backend is Ebpf.OFF
    with pytest.raises(SourceError, match="not opened"):
        opened.read()
    opened.open()  # and once more
    assert opened.read()["probes"].switches is not None
    opened.close()


def test_off_loads_nothing():
    with pytest.raises(SourceError, match=r"switched off by the settings \(collect.ebpf\)"):
        EbpfCollector(PROC, SYS, Ebpf.OFF).open()


def test_the_networks_interrupts_are_kept_up_to_date(monkeypatch, opened):
    monkeypatch.setattr(hooks, "network_irqs", lambda proc, sys: frozenset({4000}))
    shown = Path(f"/proc/self/fd/{opened._stats.irq_kinds_fd}")
    for _ in range(collector._READS_BETWEEN_IRQS):
        opened.read()
    assert shown.exists()
    assert opened._irqs._network == {4000}


def test_an_object_of_another_layout_is_refused_before_loading(compiled, tmp_path):
    content = compiled.read_bytes()
    version = layout.VERSION.to_bytes(8, "little")
    assert content.count(version) == 1
    other = tmp_path / "probes.bpf.o"
    other.write_bytes(content.replace(version, bytes(8)))
    before = descriptors()
    with pytest.raises(SourceError, match=r"compiled for another layout than 0x[0-9a-f]{16}; run `make bpf`$"):
        open_core(PROC, SYS, path=other)
    assert descriptors() == before


def test_no_object_and_no_types_say_what_to_do(tmp_path, compiled):
    with pytest.raises(SourceError, match=r"^ebpf: .*/probes.bpf.o: no such file; run `make bpf`$"):
        open_core(PROC, SYS, path=tmp_path / "probes.bpf.o")
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    shutil.copy("/sys/devices/system/cpu/possible", tmp_path / "devices/system/cpu/possible")
    with pytest.raises(SourceError, match="the kernel has no type information"):
        open_core(PROC, tmp_path, path=compiled)


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Compiles the programs with one piece of their text replaced."""

    def changed(old, new):
        folder = tmp_path / "changed"
        folder.mkdir()
        for source in build.SOURCES:
            shutil.copy(source, folder / source.name)
        text = (folder / "probes.bpf.c").read_text()
        assert text.count(old) == 1
        (folder / "probes.bpf.c").write_text(text.replace(old, new))
        monkeypatch.setattr(build, "_HERE", folder)
        build.build(folder / "probes.bpf.o")
        return folder / "probes.bpf.o"

    return changed


def test_a_program_that_the_verifier_refuses_is_left_out_and_named(changed, capfd):
    path = changed("	on_irq_exit(ctx[0]);", "	on_irq_exit(ctx[90]);")
    before = descriptors()
    stats = open_core(PROC, SYS, path=path)
    why = "cannot be loaded: permission denied: invalid bpf_context access off=720 size=8"
    assert stats.lacking["irq_handler_exit"] == why
    assert "interrupts" not in stats.fields
    assert "softirqs" in stats.fields
    reader = StatsReader(stats)
    assert reader.read().interrupts is None
    reader.close()
    stats.close()
    assert descriptors() == before
    assert capfd.readouterr() == ("", "")


def test_a_kernel_without_some_hooks_gives_the_others(monkeypatch, compiled):
    asked = core.KernelTypes.tracepoint_arguments
    absent = {"sk_data_ready", "contention_begin"}
    arguments = lambda self, name: None if name in absent else asked(self, name)  # noqa: E731
    monkeypatch.setattr(core.KernelTypes, "tracepoint_arguments", arguments)
    monkeypatch.setattr(core.KernelTypes, "has_value", lambda *_: False)
    monkeypatch.setattr(core.KernelTypes, "has_member", lambda *_: False)
    stats = open_core(PROC, SYS, path=compiled)
    assert stats.lacking["sk_data_ready"] == "this kernel has no such tracepoint"
    assert {"run queue length", "futex waits", "contention_begin"} <= set(stats.lacking)
    gone = {"run_queue_length_sum", "futex_waits", "futex_wait_ns", "lock_wait_ns", "delivery_latency_ns"}
    assert not gone & stats.fields
    assert {"switches", "wakeup_latency_hist", "sleep_hist"} <= stats.fields
    stats.close()


def test_a_kernel_without_any_hook_is_an_error(monkeypatch, compiled):
    monkeypatch.setattr(core.KernelTypes, "tracepoint_arguments", lambda *_: None)
    monkeypatch.setattr(core, "_KPROBES", "no/such/folder")
    monkeypatch.setattr(layout, "OF_MODULES", frozenset())
    before = descriptors()
    with pytest.raises(SourceError, match=r"no program could be attached: .*: this kernel has no "):
        open_core(PROC, SYS, path=compiled)
    assert descriptors() == before


UNPRIVILEGED = """
import sys
from pathlib import Path
from asa.core.errors import SourceError
from collectors.ebpf.core import open_core
try:
    open_core(Path(sys.argv[1]), Path(sys.argv[2]), path=Path(sys.argv[3]))
except SourceError as error:
    print(error)
"""


def without_capabilities(*arguments):
    """What `open_core` says as root without the capabilities it needs (as in a container)."""
    drop = ["setpriv", "--bounding-set=-sys_admin,-bpf,-perfmon"]
    command = [*drop, sys.executable, "-c", UNPRIVILEGED, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=core.OBJECT.parents[2])
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    return done.stdout.strip()


def test_without_permission_it_says_what_is_needed(compiled):
    assert without_capabilities(PROC, SYS, compiled) == "ebpf: needs root (CAP_BPF and CAP_PERFMON)"


@pytest.fixture
def trusting(tmp_path):
    """A /proc that says this process may do everything, whatever the kernel thinks."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("CapEff:\t000001ffffffffff\n")
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/pid_max").write_text("32768\n")
    return tmp_path / "proc"


def test_the_kernels_own_refusal_is_explained(trusting, compiled):
    said = without_capabilities(trusting, SYS, compiled)
    assert re.match(r"ebpf: .*/probes.bpf.o: cannot be loaded: operation not permitted.*; needs CAP_BPF and ", said)


def test_lockdown_is_named(trusting, compiled, tmp_path):
    for path in ("devices/system/cpu/possible", "kernel/btf/vmlinux"):
        (tmp_path / "sys" / path).parent.mkdir(parents=True)
        (tmp_path / "sys" / path).symlink_to(SYS / path)
    (tmp_path / "sys/kernel/security").mkdir()
    (tmp_path / "sys/kernel/security/lockdown").write_text("none integrity [confidentiality]\n")
    said = without_capabilities(trusting, tmp_path / "sys", compiled)
    assert said.startswith("ebpf: kernel lockdown ('confidentiality') forbids it: ")


def fail(backend):
    def opening(*_):
        raise SourceError(source="ebpf", reason=f"no {backend} today")

    return opening


def test_auto_takes_bcc_when_core_fails_and_says_why(monkeypatch, compiled):
    monkeypatch.setattr(collector, "open_core", fail("core"))
    stats = open_core(PROC, SYS, path=compiled)
    stats.backend = Ebpf.BCC
    monkeypatch.setattr(EbpfCollector, "_load_bcc", lambda self: stats)
    opened = EbpfCollector(PROC, SYS, Ebpf.AUTO)
    opened.open()
    assert opened.backend is Ebpf.BCC
    assert opened.lacking == {collector.CORE_UNUSED: "CO-RE not used: no core today; BCC serves"} | stats.lacking
    assert opened.read()["probes"].switches is not None
    opened.close()


def test_auto_tells_both_reasons_when_neither_serves(monkeypatch):
    monkeypatch.setattr(collector, "open_core", fail("core"))
    monkeypatch.setattr(EbpfCollector, "_load_bcc", fail("bcc"))
    with pytest.raises(SourceError, match=r"^ebpf: core: no core today; bcc: no bcc today$"):
        EbpfCollector(PROC, SYS, Ebpf.AUTO).open()
    with pytest.raises(SourceError, match=r"^ebpf: no core today$"):
        EbpfCollector(PROC, SYS, Ebpf.CORE).open()


HOG = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.setpriority(os.PRIO_PROCESS, 0, 0)
os.sched_setscheduler(0, int(sys.argv[2]), os.sched_param(int(sys.argv[3])))
until = time.monotonic() + 12
while time.monotonic() < until:
    pass
"""
SLACK_S = 6.0
"""This host has other work, which waits for a CPU too."""


@contextmanager
def hogs(*settings):
    """Tasks that would run for 12 s, on one CPU: (policy, priority) each."""
    cpu = max(os.sched_getaffinity(0))
    command = [sys.executable, "-S", "-c", HOG]
    running = [subprocess.Popen([*command, str(cpu), *map(str, one)]) for one in settings]
    try:
        yield running
    finally:
        for one in running:
            one.kill()
            one.wait()


def waited_s(opened, number, enough_s, limit_s):
    """The longest that one of WAITERS waits at a look, until it is enough."""
    until, longest = time.monotonic() + limit_s, 0.0
    while longest < enough_s and time.monotonic() < until:
        time.sleep(0.1)
        opened.stats._next_scan_ns = 0
        read = opened.read()["probes"]
        assert time.monotonic_ns() - read.scanned_ns < 10**9
        longest = max(longest, read.waiting_ns[number] / 1e9)
    return longest


ORDINARY, KERNEL, REALTIME, HUMBLE = range(len(layout.WAITERS))


def test_one_that_still_waits_behind_a_real_time_hog_is_seen(opened):
    """The kernel leaves 5 % of a second to others (sched_rt_runtime_us, or its fair server)."""
    with hogs((os.SCHED_OTHER, 0), (os.SCHED_FIFO, 1)):
        assert waited_s(opened, ORDINARY, 0.5, 8) >= 0.5
    slots = opened.read()["probes"].long_waits[: layout.LONG_WAIT_SLOTS]
    assert sum(slots[2:]) > 0  # and when it came to the CPU: 500 ms or more


def test_what_is_idle_by_its_own_wish_is_told_apart(opened):
    with hogs((os.SCHED_OTHER, 0), (os.SCHED_IDLE, 0), (os.SCHED_IDLE, 0)):
        assert waited_s(opened, HUMBLE, 0.5, 8) >= 0.5


def test_a_stopped_task_waits_for_no_cpu(opened):
    with hogs((os.SCHED_OTHER, 0)) as (only,):
        time.sleep(0.3)
        only.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert waited_s(opened, ORDINARY, SLACK_S, SLACK_S + 1) < SLACK_S < time.monotonic() - began


@pytest.mark.parametrize(("took_ms", "rests_s"), [(2, 1.0), (14, 1.5)])  # 0.2 % of a core; 7 s would miss a starver
def test_many_tasks_are_looked_at_less_often(opened, monkeypatch, took_ms, rests_s):
    stats, looked = opened.stats, []
    monkeypatch.setattr(stats._object, "iterate", looked.append)
    monkeypatch.setattr(core.time, "thread_time_ns", iter(range(0, 10**12, took_ms * 1_000_000)).__next__)
    monkeypatch.setattr(core.time, "monotonic_ns", lambda: 10**12)
    stats._next_scan_ns = 0
    for _ in range(3):
        stats.scan()
    assert looked == ["waiting_tasks"]
    assert stats._next_scan_ns == 10**12 + rests_s * 1e9


def test_an_iterator_that_fails_is_asked_no_more(opened, monkeypatch):
    def fail(name):
        raise SourceError(source="ebpf", reason=f"{name}: cannot be read: no")

    monkeypatch.setattr(opened.stats._object, "iterate", fail)
    opened.stats._next_scan_ns = 0
    opened.read()
    assert opened.stats.lacking["waiting_tasks"] == "waiting_tasks: cannot be read: no"
    assert opened.read()["probes"].switches is not None
