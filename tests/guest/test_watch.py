# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel says about real schedulers: events that wake, and why each ended. Runs as root inside the lab."""

import os
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asa import paths
from asa.act.exits import read_exit
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.process import SchedulerProcess
from asa.act.watch import KernelLog, KernelWatch
from asa.core.decision import ExitKind, SchedulerName
from calibration.switch import external_change

SYS = Path("/sys")
LIMIT_S = 90.0  # emulated, on a shared host
OWNER = paths.default().cache.stat().st_uid  # who ran the tests on the host built the schedulers
SECOND_CPU = Path("/sys/devices/system/cpu/cpu1/online")
RT_LIMIT = Path("/proc/sys/kernel/sched_rt_runtime_us")
BUSY = (sys.executable, "-c", "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass")
EVENT = b"add@/kernel/sched_ext/root\0ACTION=add\0DEVPATH=/kernel/sched_ext/root\0SUBSYSTEM=sched_ext\0"


@pytest.fixture
def watch():
    watch = KernelWatch()
    assert watch.lacking == ""
    yield watch
    watch.close()


@pytest.fixture
def log():
    log = KernelLog()
    assert log.lacking == ""
    yield log
    log.close()


@pytest.fixture
def start(tmp_path):
    """Starts a scheduler and waits until it is attached."""
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers, owners=[OWNER])
    processes = []

    def start(name):
        processes.append(SchedulerProcess(portfolio.open(SchedulerName(name)), tmp_path / f"{name}.log"))
        assert eventually(lambda: state() == "enabled"), processes[-1].last_words()
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait(LIMIT_S)
        process.forget()
    assert eventually(lambda: state() == "disabled")


def state():
    return sched_ext_state(SYS).state


def eventually(what, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if what():
            return True
        select.select([], [], [], 0.02)
    return False


def readable(source, limit_s=LIMIT_S):
    return bool(select.select([source.fileno()], [], [], limit_s)[0])


def interrupt(process):
    process.interrupt()
    assert process.wait(LIMIT_S)


def evict(_process):
    Path("/proc/sysrq-trigger").write_text("S")


def kill(process):
    process.kill()
    assert process.wait(LIMIT_S)


def stall(_process):
    """A real-time task takes a processor whole; an ordinary one that may run only there waits."""
    before = RT_LIMIT.read_text()
    RT_LIMIT.write_text("-1")
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(60))  # or we wait behind it
    busy = [
        subprocess.Popen(["taskset", "-c", "1", "chrt", "-f", "50", *BUSY]),
        subprocess.Popen(["taskset", "-c", "1", *BUSY]),
    ]
    try:
        assert eventually(lambda: state() != "enabled")
    finally:
        for process in busy:
            process.kill()
            process.wait()
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        RT_LIMIT.write_text(before)


@pytest.mark.parametrize(
    ("name", "end", "by_kernel", "altogether"),
    [
        ("scx_simple", interrupt, ExitKind.UNREGISTERED, ExitKind.UNREGISTERED),
        ("scx_simple", evict, ExitKind.SYSRQ, ExitKind.SYSRQ),
        ("scx_simple", kill, ExitKind.UNREGISTERED, ExitKind.KILLED),
        ("scx_bpfland", evict, ExitKind.SYSRQ, ExitKind.SYSRQ),
        ("scx_flash", stall, ExitKind.STALL, ExitKind.STALL),
    ],
)
def test_a_scheduler_comes_and_goes(watch, log, start, name, end, by_kernel, altogether):
    process = start(name)
    assert readable(watch)
    assert watch.drain()
    assert not watch.drain()
    ops = sched_ext_state(SYS).ops
    assert log.why(ops) is None  # it runs
    end(process)
    assert readable(watch)
    assert watch.drain()
    assert eventually(lambda: state() == "disabled")
    kernel = log.why(ops)
    assert kernel.kind is by_kernel
    assert log.why(ops) is None  # once
    if altogether is not ExitKind.KILLED:
        assert process.wait(LIMIT_S)
        # the kernel's word and its own agree
        assert read_exit(process.last_words(), None, process.exit_code()).kind is altogether, process.last_words()
    found = read_exit(process.last_words(), kernel, process.exit_code())
    assert found.kind is altogether
    if altogether is ExitKind.STALL:
        assert "failed to run for" in found.reason
        assert "failed to run for" in kernel.reason


def test_a_processor_that_goes_is_told_from_a_fault(watch, log, start):
    process = start("scx_simple")
    try:
        SECOND_CPU.write_text("0")
        said = []
        assert eventually(lambda: "EXIT:" in process.last_words() and not said.append(process.last_words()))
        assert "going offline" in said[0]
        assert read_exit(said[0], None, None).kind is ExitKind.HOTPLUG
        assert watch.drain()
        assert eventually(lambda: state() == "enabled")  # it has loaded itself anew
        assert log.why("simple") is None
        kill(process)
        assert eventually(lambda: state() == "disabled")
        # its last words are of the exit it outlived
        assert read_exit(process.last_words(), log.why("simple"), process.exit_code()).kind is ExitKind.KILLED
    finally:
        SECOND_CPU.write_text("1")


@pytest.fixture
def program():
    """Another program's socket to where events come from; root may send to it."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 15) as program:
        program.bind((0, 1))
        yield program


def heard(listener):
    assert readable(listener)
    return listener.recv(8192)


def test_only_the_kernel_is_believed_and_only_about_schedulers(watch, program):
    Path("/sys/class/net/lo/uevent").write_text("change")
    assert heard(program).startswith(b"change@")
    assert not readable(watch, 0)  # did not even wake it
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as forger:
        forger.sendto(EVENT, (0, 1))
        assert heard(program) == EVENT
        assert readable(watch)
        assert not watch.drain()
        forger.sendto(struct.pack("IHHII", 16 + len(EVENT), 16, 1, 1, 0) + EVENT, (0, 0))
        assert heard(program).startswith(EVENT)  # repeated by the kernel, its own number behind it
        assert readable(watch)
        assert not watch.drain()


def test_lost_events_count_as_events(watch):
    with socket.socket(fileno=os.dup(watch.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as forger:
        for _ in range(50):
            forger.sendto(EVENT, (0, 1))  # would count for nothing
    assert watch.drain()
    while readable(watch, 0):
        watch.drain()
    assert not watch.drain()


def test_a_program_cannot_speak_for_the_kernel(log):
    line = 'sched_ext: BPF scheduler "simple" disabled (runnable task stall)\n'
    for priority in ("", "<3>", "<11>"):
        Path("/dev/kmsg").write_text(priority + line)
    assert log.why("simple") is None


def test_a_log_that_was_overrun_is_read_on(log, start):
    process = start("scx_simple")
    unlimited = Path("/proc/sys/kernel/printk_devkmsg")
    before = unlimited.read_text()
    unlimited.write_text("on\n")
    with Path("/dev/kmsg").open("rb", buffering=0) as other, Path("/dev/kmsg").open("wb", buffering=0) as kmsg:
        os.lseek(other.fileno(), 0, os.SEEK_END)
        for _ in range(20_000):
            kmsg.write(b"<15>" + b"x" * 200 + b"\n")
        with pytest.raises(BrokenPipeError):
            other.read(16384)
    unlimited.write_text(before)
    evict(process)
    assert eventually(lambda: state() == "disabled")
    assert log.why("simple").kind is ExitKind.SYSRQ


def test_the_probe_of_the_bench():
    seen = external_change.measure(1)
    assert [one.change for one in seen] == ["attached", "evicted", "attached", "killed"]
    assert all(one.event_ms > 0 for one in seen)
    assert external_change.cost().event_s < 3600
