# SPDX-License-Identifier: GPL-2.0-only
"""Events and log records as a 6.18 kernel wrote them, and damage to them; both parts on this host.

Real schedulers, forged events and an overrun log are in tests/guest/test_watch.py.
"""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.act.watch import KernelLog, KernelTale, KernelWatch, about_sched_ext
from asa.core.decision import ExitKind

ADD = (
    b"add@/kernel/sched_ext/root\0ACTION=add\0DEVPATH=/kernel/sched_ext/root\0SUBSYSTEM=sched_ext\0"
    b"SCXOPS=simple\0SEQNUM=843\0"
)
REMOVE = (
    b"remove@/kernel/sched_ext/root\0ACTION=remove\0DEVPATH=/kernel/sched_ext/root\0SUBSYSTEM=sched_ext\0"
    b"SCXOPS=(efault)\0SEQNUM=844\0"  # its name is gone by then
)
OTHERS = (
    b"change@/devices/virtual/net/lo\0ACTION=change\0DEVPATH=/devices/virtual/net/lo\0SUBSYSTEM=net\0",
    b"add@/kernel/slab/kernel/sched_ext\0ACTION=add\0",
    b"add@/kernel/sched_extra/root\0ACTION=add\0",
    b"add@/module/x\0MODALIAS=add@/kernel/sched_ext/root\0",
    b"libudev\0\xfe\xed\xca\xfeadd@/kernel/sched_ext/root\0",
    b"add@/kernel/sched_ext/root",  # cut
    b"",
)


def test_which_events_are_about_a_scheduler():
    assert about_sched_ext(ADD)
    assert about_sched_ext(REMOVE)
    assert not any(about_sched_ext(message) for message in OTHERS)


@given(st.binary(), st.sampled_from([ADD, REMOVE, *OTHERS]), st.integers(0, 100), st.integers(0, 100))
def test_damaged_events_do_no_harm(noise, message, start, end):
    about_sched_ext(message[:start] + noise + message[end:])


def test_without_a_kernel_that_talks_it_says_why(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/uid_map").write_text("         0       1000          1\n")
    watch = KernelWatch(tmp_path)
    assert (watch.fileno(), watch.drain()) == (None, False)
    assert "user namespace" in watch.lacking
    watch.close()
    log = KernelLog(tmp_path / "kmsg")
    assert log.why("simple") is None
    assert log.lacking == f"{tmp_path}/kmsg: No such file or directory"
    log.close()


def test_where_netlink_is_forbidden(monkeypatch):
    def forbidden(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", forbidden)
    watch = KernelWatch()
    assert watch.fileno() is None
    assert watch.lacking


def test_on_this_host_nothing_is_left_open():
    before = len(list(Path("/proc/self/fd").iterdir()))
    watch, log = KernelWatch(), KernelLog()
    assert (watch.fileno() is None) == bool(watch.lacking)
    assert not watch.drain()
    assert log.why("no such scheduler") is None
    watch.close()
    log.close()
    assert (watch.fileno(), watch.drain(), log.why("x")) == (None, False, None)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


BPFLAND = b"bpfland_1.1.4_x86_64_unknown_linux_gnu"
LOG = [
    b'6,506,148471884,-;sched_ext: BPF scheduler "simple" enabled\n',
    b'6,507,149021360,-;sched_ext: BPF scheduler "simple" disabled (unregistered from user space)\n',
    b"6,509,151507901,-;sysrq: Disable sched_ext and revert all tasks to CFS\n",
    b'6,536,221560471,-;sched_ext: BPF scheduler "%s" enabled\n' % BPFLAND,
    b'3,537,229238536,-;sched_ext: BPF scheduler "%s" disabled (runnable task stall)\n' % BPFLAND,
    b"4,538,229238560,-;something: else\n SUBSYSTEM=cpu\n DEVICE=+cpu:cpu0\n",  # others write in between
    b"3,538,229238589,-;sched_ext: %s: python[244] failed to run for 6.324s\n" % BPFLAND,
    b"4,539,229238641,-;   scx_watchdog_workfn+0x16a/0x1f0\n",
]


def tale(*records):
    told = KernelTale()
    for record in records:
        told.feed(record)
    return told


def test_what_the_log_tells():
    told = tale(*LOG)
    simple = told.take("simple")
    assert (simple.kind, simple.reason) == (ExitKind.UNREGISTERED, "unregistered from user space")
    assert told.take("simple") is None
    assert told.take("land") is None
    stalled = told.take("bpfland")
    assert stalled.kind is ExitKind.STALL
    assert stalled.reason == "runnable task stall (python[244] failed to run for 6.324s)"
    assert told.take("") is None


def test_one_that_came_back_has_not_ended():
    assert tale(*LOG, LOG[0]).take("simple") is None


def test_a_message_of_another_scheduler_is_not_its_own():
    told = tale(
        b'3,1,1,-;sched_ext: BPF scheduler "a" disabled (runtime error)\n',
        b"3,2,2,-;sched_ext: ab: it was me\n",
        b"3,3,3,-;sched_ext: a: bad CPU 7\\x1b[31m \\x5c \\xc3\\xa9\n",
        b"3,4,4,-;sched_ext: a: and another word\n",
    )
    assert told.take("a").reason == "runtime error (bad CPU 7 \\ é)"


@pytest.mark.parametrize("priority", [b"11", b"14", b"8", b"-3", b"", b"x", b"3"])
def test_only_the_kernels_facility_counts(priority):
    record = b',1,1,-;sched_ext: BPF scheduler "a" disabled (runtime error)\n'
    assert (tale(priority + record).take("a") is not None) == (priority == b"3")


def test_what_nobody_asks_about_does_not_grow():
    told = tale(
        *(b'6,1,1,-;sched_ext: BPF scheduler "s%d" disabled (disabled by sysrq-S)\n' % number for number in range(1000))
    )
    assert told.take("s999").kind is ExitKind.SYSRQ
    assert told.take("s0") is None
    assert len(told._ends) < 20


@given(st.lists(st.sampled_from(LOG) | st.binary()), st.binary(), st.integers(0, 120), st.integers(0, 120))
def test_damaged_records_do_no_harm(records, noise, start, end):
    told = tale(*(record[:start] + noise + record[end:] for record in records))
    for name in ("simple", "bpfland"):
        found = told.take(name)
        assert found is None or (found.reason.isprintable() and len(found.reason) <= 300)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="writing to the kernel's log needs root: sudo make test")
def test_this_kernels_log_is_read_from_its_end():
    log = KernelLog()
    assert log.lacking == ""
    with Path("/dev/kmsg").open("wb", buffering=0) as kmsg:
        kmsg.write(b'<3>sched_ext: BPF scheduler "asa_test" disabled (runtime error)\n')
    assert log.why("asa_test") is None  # a program's words, not the kernel's
    log.close()
