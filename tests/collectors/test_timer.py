# SPDX-License-Identifier: GPL-2.0-only
"""Lateness of an ordinary task: what the child tells, against the kernel's own account; and how it comes and goes."""

import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import until

from asa.core.errors import SourceError
from asa.core.sample import RawSample
from collectors import timer_child
from collectors.ebpf.layout import LATENCY_STARTS_NS, percentile_ns
from collectors.rates import derive
from collectors.timer import TimerCollector

ROOTS = (Path("/proc"), Path("/sys"))
MS = 1_000_000
S = 1_000_000_000


@pytest.fixture
def opened():
    made = []

    def make(*clock):
        made.append(TimerCollector(*ROOTS, *clock))
        made[-1].open()
        return made[-1]

    yield make
    for collector in made:
        collector.close()


def counters(collector):
    return collector.read()["timer"]


def wakes(collector):
    return sum(counters(collector).late_hist)


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def ready(collector):
    until(lambda: wakes(collector) >= 3, "the child has told of three wakes")
    return collector


def kernel_delay_ns(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


@pytest.mark.alone
def test_an_ordinary_task_tells_of_its_wakes(opened):
    collector = ready(opened())
    before = counters(collector)
    until(lambda: wakes(collector) >= sum(before.late_hist) + 15, "15 wakes more")
    after = counters(collector)
    slots = [new - old for old, new in zip(before.late_hist, after.late_hist, strict=True)]
    least_ns = sum(count * start_ns for count, start_ns in zip(slots, LATENCY_STARTS_NS, strict=True))
    assert least_ns <= after.late_ns - before.late_ns <= 2 * least_ns  # a slot is at most so wide
    assert percentile_ns(slots, LATENCY_STARTS_NS, 0.5) < 50 * MS  # the middle one: neighbours may delay some
    samples = [RawSample(monotonic_ns=at_ns, wall_ns=0, timer=state) for at_ns, state in ((S, before), (2 * S, after))]
    rates = derive(*samples)
    assert rates.timer_late_mean_us == pytest.approx((after.late_ns - before.late_ns) / sum(slots) / 1e3)
    assert 0 < rates.timer_late_p99_us <= LATENCY_STARTS_NS[max(n for n, count in enumerate(slots) if count) + 1] / 1e3


@pytest.mark.alone
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="a real-time hog needs root: sudo make test")
def test_a_hog_makes_it_late_by_what_the_kernel_says_it_waited(opened):
    hog = f"""
import os, time
os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
end = time.monotonic_ns() + {600 * MS}
while time.monotonic_ns() < end: pass
"""
    collector = ready(opened())
    os.sched_setaffinity(collector.pid, {min(os.sched_getaffinity(0))})
    before, delay_ns = counters(collector), kernel_delay_ns(collector.pid)
    subprocess.run([sys.executable, "-I", "-c", hog], check=True)
    told = wakes(collector)
    until(lambda: wakes(collector) > told, "a wake after the hog")
    late_ns = counters(collector).late_ns - before.late_ns
    delay_ns = kernel_delay_ns(collector.pid) - delay_ns
    # 240 ms at most until it would have woken. Two sources of one fact: the timer was late, or the task was.
    assert delay_ns > 320 * MS
    assert late_ns > 320 * MS
    assert late_ns == pytest.approx(delay_ns, rel=0.3)
    grown = [new - old for old, new in zip(before.late_hist, counters(collector).late_hist, strict=True)]
    assert any(count for start_ns, count in zip(LATENCY_STARTS_NS, grown, strict=True) if start_ns >= 250 * MS)


def test_a_child_that_comes_to_no_cpu_is_overdue(opened):
    """A stopped one stands for one that is starved: neither tells anything."""
    now_ns = [0]
    collector = ready(opened(lambda: now_ns[0]))
    assert counters(collector).overdue_ns == 0
    os.kill(collector.pid, signal.SIGSTOP)
    until(lambda: Path(f"/proc/{collector.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
    old = counters(collector)
    now_ns[0] = 3 * S
    new = counters(collector)
    assert new.overdue_ns == 3 * S - timer_child.LONGEST_NS
    samples = (
        RawSample(monotonic_ns=at * S, wall_ns=0, timer=one)
        for at, one in ((1, replace(new, late_ns=old.late_ns)), (2, new))
    )
    assert derive(*samples).timer_late_p99_us == new.overdue_ns / 1e3
    os.kill(collector.pid, signal.SIGCONT)
    until(lambda: counters(collector).overdue_ns == 0, "it tells again")


def test_it_is_small_ordinary_and_has_nothing_of_ours(opened):
    held = os.open("/proc/self/stat", os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        pid = ready(opened()).pid
    finally:
        os.close(held)
    assert sorted(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()) == [0, 1, 2]
    assert os.sched_getscheduler(pid) == os.SCHED_OTHER
    assert os.getsid(pid) == pid
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    private_kib = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_"))
    assert private_kib < 4096
    ran_ns, _, slices = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    assert ran_ns / slices < 20 * MS  # its start included


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="a real-time agent needs root: sudo make test")
def test_a_real_time_agent_has_an_ordinary_child(opened):
    before, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # handed down: no SCHED_RESET_ON_FORK
    try:
        collector = opened()
    finally:
        os.sched_setscheduler(0, before, priority)
    assert os.sched_getscheduler(ready(collector).pid) == os.SCHED_OTHER


class Hand:
    def __init__(self):
        self.now_ns = 5 * S

    def __call__(self):
        return self.now_ns


def killed(collector):
    pid = collector.pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid), "the child is dead")
    with pytest.raises(SourceError) as caught:
        collector.read()
    return caught.value.reason


def test_a_child_that_is_killed_is_started_again_and_the_counters_go_on(opened):
    clock = Hand()
    collector = ready(opened(clock))
    before, first = counters(collector), collector.pid
    assert killed(collector) == "its process ended by signal 9; started again in 2 s"
    clock.now_ns += 2 * S - 1
    with pytest.raises(SourceError, match="signal 9"):
        collector.read()
    assert collector.pid is None
    clock.now_ns += 1
    after = counters(collector)
    assert collector.pid not in (None, first)
    assert after.late_ns >= before.late_ns
    until(lambda: wakes(collector) >= sum(before.late_hist) + 3, "the new child tells, too")


def test_one_that_keeps_dying_is_started_ever_less_often(opened):
    clock = Hand()
    collector = opened(clock)
    waits = []
    for _ in range(11):
        waits.append(int(killed(collector).split()[-2]))
        clock.now_ns += waits[-1] * S
        collector.read()
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]
    clock.now_ns += 60 * S  # this one lived
    assert killed(collector).endswith("again in 2 s")


def test_an_interpreter_that_is_not_there(opened, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(SourceError, match="'/nonexistent/python' cannot be started: No such file"):
        opened()


def test_not_opened_is_a_source_error():
    with pytest.raises(SourceError, match="not opened"):
        TimerCollector(*ROOTS).read()


def test_close_ends_the_child_and_leaves_no_descriptor(opened):
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    collector = opened()
    pid = collector.pid
    collector.close()
    collector.close()
    assert not Path(f"/proc/{pid}").exists()
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before


def test_it_ends_when_the_agent_is_killed():
    agent = f"""
import sys, time
from pathlib import Path
from collectors.timer import TimerCollector
collector = TimerCollector(Path("/proc"), Path("/sys"))
collector.open()
while not sum(collector.read()["timer"].late_hist): time.sleep(0.01)
print(collector.pid, flush=True)
time.sleep({100})
"""
    with subprocess.Popen([sys.executable, "-c", agent], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        assert not gone(pid)
        process.kill()
    until(lambda: gone(pid), "nobody reads the pipe, so the child ends")


class Machine:
    """Clocks by hand: a real machine is neither suspended nor this late on demand."""

    def __init__(self, *late_ns):
        self.now_ns = 7 * S
        self.suspended_ns = 3 * S
        self.late_ns = iter(late_ns)
        self.slept_ns = []
        self.suspend_ns = 0

    def sleep(self, seconds):
        self.slept_ns.append(round(seconds * 1e9))
        self.now_ns += self.slept_ns[-1] + next(self.late_ns)
        self.suspended_ns += self.suspend_ns
        self.suspend_ns = 0

    def wakes(self, seed=1):
        return timer_child.wakes(lambda: self.now_ns, lambda: self.suspended_ns, self.sleep, seed)


def test_times_are_absolute():
    late_ns = [0, 1000, 60 * MS, 0]
    machine = Machine(*late_ns)
    told = list(itertools.islice(machine.wakes(), 4))
    assert told == late_ns
    punctual = Machine(0, 0, 0, 0)
    list(itertools.islice(punctual.wakes(), 4))
    # what one wake is late, the next sleep is shorter: lateness does not add up
    assert machine.slept_ns == [
        punctual.slept_ns[0],
        punctual.slept_ns[1],
        *(asked - late for asked, late in zip(punctual.slept_ns[2:], (1000, 60 * MS), strict=True)),
    ]


def test_a_wake_later_than_the_next_ones_stands_for_all_of_them():
    machine = Machine(0, 5 * S, 0, 0)
    assert list(itertools.islice(machine.wakes(), 4)) == [0, 5 * S, 0, 0]
    assert min(machine.slept_ns) > 0


def test_early_by_rounding_is_not_late():
    assert next(Machine(-3).wakes()) == 0


def test_a_wake_across_a_suspend_is_not_told():
    machine = Machine(0, 900 * MS, 7)
    told = machine.wakes()
    assert next(told) == 0
    machine.suspend_ns = 3600 * S
    assert next(told) == 7
    assert len(machine.slept_ns) == 3


def test_sleeps_are_drawn_over_the_whole_range():
    machine = Machine(*itertools.repeat(0, 4000))
    list(itertools.islice(machine.wakes(seed=time.monotonic_ns()), 4000))
    low, high = timer_child.SHORTEST_NS, timer_child.LONGEST_NS
    assert low <= min(machine.slept_ns) < low + 5 * MS
    assert high - 5 * MS < max(machine.slept_ns) <= high
    assert sum(machine.slept_ns) / 4000 == pytest.approx((low + high) / 2, rel=0.05)
