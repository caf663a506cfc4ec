# SPDX-License-Identifier: GPL-2.0-only
"""The eBPF counters against what the kernel counts elsewhere, and against loads that know what they did.

Each function of CHECKS takes a `Scene` and asserts; tests/collectors/ebpf runs them on the host, tests/guest in the
lab; those of the network are in network_checks.py. The whole machine is counted, so its other work is in both sources.
A second source is read before and after each reading of the probes: what it grew by in between and around is the range
for the probes, and needs no tolerance for the time of reading. What else the two count differently is said beside each
check. Times have a load's own clock as their source: the probes must find all of it, in the slots of that length.
"""

import mmap
import os
import pty
import signal
import sys
import time
from pathlib import Path

import network_checks
import second_source
from probe_scene import BLOCK_BYTES, FOUND_SHARE, HERE, LOST_SHARE, MS, Beside, near, nothing, run, unknown
from second_source import EventCount, HandlerTimes, stat

from asa.config import Ebpf
from collectors.ebpf import layout


def check_context_switches(scene):
    """ctxt is rq->nr_switches, which grows right before sched_switch (__schedule, kernel/sched/core.c)."""
    rounds = scene.sized(20000, 2000)
    both = Beside(scene, lambda: {"switches": stat("ctxt")}, lambda: scene.load("pingpong", 0, rounds))
    both.agree("switches")
    assert both.grown("switches") >= both.told["wakeups"] * (1 - LOST_SHARE)


def check_wakeups(scene):
    """tracefs counts the same two events."""
    with EventCount("sched:sched_wakeup", "sched:sched_wakeup_new") as count:
        both = Beside(scene, lambda: {"wakeups": count()}, lambda: scene.load("pingpong", 0, scene.sized(10000, 1000)))
    both.agree("wakeups")
    assert both.grown("wakeups") >= both.told["wakeups"] * (1 - LOST_SHARE)


def check_migrations(scene):
    """tracefs counts the same event; the load's own are among them."""
    with EventCount("sched:sched_migrate_task") as count:
        both = Beside(scene, lambda: {"migrations": count()}, lambda: scene.load("migrations", 201))
    both.agree("migrations")
    assert both.grown("migrations") >= both.told["migrations"] * (1 - LOST_SHARE)


def check_forks_execs_exits(scene):
    """processes is total_forks (copy_process, right before sched_process_fork); tracefs counts the other two."""
    number = scene.sized(200, 30)
    with EventCount("sched:sched_process_exec") as execs, EventCount("sched:sched_process_exit") as exits:
        both = Beside(
            scene,
            lambda: {"forks": stat("processes"), "execs": execs(), "exits": exits()},
            lambda: scene.load("execs", number, "/bin/true"),
        )
    for field in ("forks", "execs", "exits"):
        both.agree(field)
        assert both.grown(field) >= number


def check_interrupts(scene):
    """Both count where a handler is called; a line that two devices share is one there and two here: none is here.

    Which line is a network's is for the map to say: here it says so of the line that the load makes busy, whatever
    device that is, so that its own row is the second source.
    """
    quiet = second_source.device_interrupts()
    read_disk(scene)
    read_anew()
    line = max(quiet, key=lambda irq: second_source.device_interrupts().get(irq, 0) - quiet[irq])
    scene.irqs.set_network({line})

    def second():
        rows = second_source.device_interrupts()
        return {"interrupts": sum(rows.values()), "network_interrupts": rows[line]}

    with HandlerTimes("irq:irq_handler") as handlers:
        both = Beside(scene, second, lambda: (read_disk(scene), read_anew()))
        timed = handlers.spent()
    scene.irqs.set_network(())
    both.agree("interrupts")
    both.agree("network_interrupts")
    assert both.grown("network_interrupts") > 0
    near(both.grown("interrupt_ns"), timed)
    share = both.grown("network_interrupts") / both.grown("interrupts")
    assert both.grown("network_interrupt_ns") <= both.grown("interrupt_ns")
    assert both.grown("network_interrupt_ns") >= both.grown("interrupt_ns") * share / 10


def check_softirqs(scene):
    """/proc/softirqs grows in handle_softirqs right before softirq_entry."""
    kinds = [f"softirq {number}" for number in range(len(second_source.softirqs()))]
    with HandlerTimes("irq:softirq") as handlers:
        both = Beside(
            scene,
            lambda: dict(zip(kinds, second_source.softirqs(), strict=True)),
            lambda: (read_disk(scene), scene.talk("connections", scene.sized(200, 20))),
        )
        timed = handlers.spent()
    for kind, grown in zip(kinds, both.grown("softirqs"), strict=True):
        both.agree(grown, kind)
    net_rx = 3  # NET_RX_SOFTIRQ, include/linux/interrupt.h
    assert both.grown("softirqs")[net_rx] >= scene.sized(200, 20)
    for grown, length_ns in zip(both.grown("softirqs"), both.grown("softirq_ns"), strict=True):
        assert (length_ns > 0) == (grown > 0)
    near(sum(both.grown("softirq_ns")), timed)


def read_disk(scene):
    """Reads past the page cache: a request each, and an interrupt where the disk is a real one."""
    count = scene.sized(500, 50)
    descriptor = os.open(scene.blocks, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, BLOCK_BYTES) as page:  # aligned, as O_DIRECT wants it
            for number in range(count):
                assert os.preadv(descriptor, [page], number * BLOCK_BYTES) == BLOCK_BYTES
    finally:
        os.close(descriptor)
    return {"requests": count}


def read_anew():
    """Reads a file of the root file system past the page cache: in the lab that is the host's, behind a device."""
    with (HERE / "loads.c").open("rb") as file:
        for _ in range(50):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert os.pread(file.fileno(), BLOCK_BYTES, 0)


def check_block(scene):
    """diskstats counts what block_rq_complete tells once, and flushes by those who wanted one: one serves several.

    Its times begin with the request's making, ours there or with its issue (io_start_time_ns, start_time_ns).
    """
    both = Beside(scene, second_source.disk, lambda: read_disk(scene))
    flushes = both.range["flushes"][1]
    both.agree("block_completed", "requests", below=flushes, above=flushes)
    both.agree("block_issued", "requests", below=flushes, above=flushes + os.cpu_count())
    assert both.grown("block_completed") >= both.told["requests"]
    assert sum(both.grown("block_latency_hist")) >= both.told["requests"] * FOUND_SHARE
    _, most_ms = both.range["request_ms"]
    assert 0 < both.grown("block_latency_ns") <= (most_ms + 2) * MS


def check_run_queue_latency(scene):
    """Two busy real-time tasks share a CPU in slices: each waits for exactly one slice, again and again."""
    both = Beside(scene, nothing, lambda: scene.load("slices", 0, 2, 620))
    slice_ns = both.told["slice_ns"]
    low, high = (0.8, 1.6) if scene.emulated else (0.92, 1.08)  # a slice ends with a timer tick, 4 ms at 250 Hz
    found = both.in_slots("requeue_latency_hist", layout.LATENCY_STARTS_NS, low * slice_ns, high * slice_ns)
    whole = 620 * MS // slice_ns
    assert whole - 2 <= found <= whole + 1
    assert both.grown("requeue_latency_ns") >= found * low * slice_ns
    assert both.grown("involuntary_switches") >= both.told["preempted"] * (1 - LOST_SHARE)


def check_run_queue_length(scene):
    """Six busy tasks on one CPU: at each of their switches six are able to run, those of other CPUs apart."""
    if scene.backend is Ebpf.BCC:
        assert "run_queue_length_sum" in unknown(scene)
        assert "run queue length" in scene.lacking
        return
    tasks = 6
    both = Beside(scene, nothing, lambda: scene.load("spins", 0, tasks, 500))
    assert both.grown("run_queue_length_sum") >= tasks * both.told["preempted"] * FOUND_SHARE
    assert both.grown("run_queue_length_sum") <= both.grown("switches") * (tasks + 20)


def check_wakeup_latency(scene):
    """A task wakes one of lower priority and keeps the CPU for 9 ms: so long is the other's way to the CPU."""
    rounds = 20
    both = Beside(scene, nothing, lambda: scene.load("waits", 0, rounds, 9 * MS))
    found = both.in_slots("wakeup_latency_hist", layout.LATENCY_STARTS_NS, 8.9 * MS, scene.sized(10, 30) * MS)
    assert rounds * FOUND_SHARE <= found <= 3 * rounds  # others may be woken on that CPU at the same time
    assert both.grown("wakeup_latency_ns") >= both.told["ns"] * FOUND_SHARE


def check_futexes(scene):
    """Each wait sleeps once, no call twice; tracefs counts all calls, waits and wakes."""
    rounds, length_ns = scene.sized(400, 60), scene.sized(0.3, 3) * MS
    calls = ["syscalls:sys_enter_futex", "syscalls:sys_enter_futex_waitv"]
    for load in ("futexes", "futexes_v"):
        with EventCount(*calls) as count:
            both = Beside(scene, lambda: {"calls": count()}, lambda name=load: scene.load(name, rounds, int(length_ns)))
        assert rounds * (1 - LOST_SHARE) <= both.grown("futex_waits") <= both.range["calls"][1] + 2
        assert both.grown("futex_wait_ns") >= rounds * length_ns * (1 - LOST_SHARE)


def check_sleeps(scene):
    """Sleeps of 1.5 ms (emulated 18) by real-time tasks belong to the octave from 1.05 (16.8) ms."""
    length_ns = int(scene.sized(1.5, 18) * MS)
    both = Beside(scene, nothing, lambda: scene.load("sleeps", 4, scene.sized(100, 10), length_ns))
    found = both.in_slots("sleep_hist", layout.OCTAVE_STARTS_NS, length_ns, length_ns)
    assert both.told["sleeps"] * FOUND_SHARE <= found <= 3 * both.told["sleeps"]  # others sleep as well
    assert both.grown("sleep_ns") >= both.told["ns"] * FOUND_SHARE


def check_bursts(scene):
    """A real-time task is busy for 1.3 ms (emulated 18), then sleeps: nobody else has that CPU meanwhile."""
    length_ns = int(scene.sized(1.3, 18) * MS)
    both = Beside(scene, nothing, lambda: scene.load("bursts", 0, scene.sized(60, 15), length_ns))
    found = both.in_slots("burst_hist", layout.OCTAVE_STARTS_NS, length_ns, length_ns)
    # no bound above: neighbours on the other CPUs have bursts of this length, too
    assert found >= both.told["bursts"] * FOUND_SHARE, (found, both.grown("burst_hist"))
    slack_ns = 100 * MS  # a burst that began before the load is counted when it ends
    assert both.told["ns"] * FOUND_SHARE <= both.grown("burst_ns") <= both.length_ns * os.cpu_count() + slack_ns


def check_process_bursts(scene):
    """The same task's turns, found by its pid; its last one ends with it, and has no sleep after it."""
    length_ns, rounds = int(scene.sized(1.3, 18) * MS), scene.sized(60, 15)
    before = {one.pid for one in scene.reader.processes().processes}
    told = scene.load("bursts", 0, rounds, length_ns)
    assert told["pid"] not in before
    found = {one.pid: one for one in scene.reader.processes().processes}[told["pid"]]
    assert told["ns"] * FOUND_SHARE <= found.burst_ns <= told["ns"] * scene.sized(1.5, 4)  # its start and end, too
    assert rounds * FOUND_SHARE <= found.bursts - found.involuntary <= rounds + scene.sized(40, 80)
    # the first of three that share a CPU: the kernel's own account of its time, and of how often it was taken off
    spins = scene.load("spins", 0, 3, scene.sized(300, 1200))
    found = {one.pid: one for one in scene.reader.processes().processes}[spins["parent"]]
    taken = spins["parent_preempted"]
    assert 0 < taken * (1 - LOST_SHARE) - 1 <= found.involuntary <= taken * 1.1 + 5  # it has to say so, and to end
    assert spins["parent_ns"] * FOUND_SHARE <= found.burst_ns <= spins["parent_ns"] * 1.1 + scene.sized(10, 100) * MS


def check_blocked(scene):
    """The parent of a vfork sleeps uninterruptibly until its child ends; emulated, it may come too late for that."""
    both = Beside(scene, nothing, lambda: scene.load("vforks", 20, scene.sized(9, 30) * MS))
    assert both.grown("blocked") >= both.told["vforks"] * scene.sized(1, FOUND_SHARE)
    assert both.grown("blocked_ns") >= both.told["ns"] * FOUND_SHARE


def check_lock_contention(scene):
    """tracefs counts the same event; nested waits (a spinlock inside a mutex) and those under way differ."""
    threads = 4
    with EventCount("lock:contention_begin") as count:
        both = Beside(
            scene, lambda: {"lock_contentions": count()}, lambda: scene.load("contend", threads, scene.sized(300, 600))
        )
    assert both.grown("lock_contentions") > 0
    both.agree("lock_contentions", below=both.range["lock_contentions"][0] * 0.02, above=threads)
    assert 0 < both.grown("lock_wait_ns") <= both.length_ns * threads * 2


def check_lock_failures(scene):
    """Writers to a terminal wait for another one, and are killed; tracefs counts the same event with an error."""
    number = scene.sized(20, 5)
    with EventCount("lock:contention_end", only="ret != 0") as count:
        both = Beside(scene, lambda: {"lock_failures": count()}, lambda: write_in_vain(number))
    both.agree("lock_failures")
    assert both.grown("lock_failures") >= number


def write_in_vain(number):
    """Kills `number` writers that wait in mutex_lock_interruptible (tty_write_lock, drivers/tty/tty_io.c)."""
    ours, theirs = pty.openpty()
    first = writer(theirs)  # fills the terminal, which nobody reads, and stays inside
    try:
        for _ in range(number):
            end(writer(theirs))
    finally:
        end(first)
        os.close(ours)
        os.close(theirs)


def writer(terminal):
    """The pid of a child that writes without end, once it sleeps in doing so."""
    pid = os.fork()
    if not pid:
        while True:
            os.write(terminal, bytes(1 << 16))
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline, f"pid {pid} does not wait"
        os.sched_yield()
    return pid


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def check_input(scene):
    """A device of our own types keys and moves a pointer; the kernel adds nothing to it but SYN events."""
    keys, motions = 30, 20
    both = Beside(scene, nothing, lambda: run([sys.executable, "-E", "-S", HERE / "type_keys.py", keys, motions]))
    assert both.told == {"keys": keys, "motions": motions}
    assert keys <= both.grown("input_keys") <= keys + 2
    assert motions <= both.grown("input_motions") <= motions + 2


OF_THE_SCHEDULER = (
    check_context_switches,
    check_wakeups,
    check_run_queue_latency,
    check_wakeup_latency,
    check_sleeps,
    check_bursts,
    check_blocked,
)
NEEDS_KPROBES = (check_input,)
CHECKS = tuple(
    check
    for name, check in sorted((globals() | vars(network_checks)).items())
    if name.startswith("check_") and check not in NEEDS_KPROBES
)
