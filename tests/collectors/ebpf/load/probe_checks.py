# SPDX-License-Identifier: GPL-2.0-only
"""The eBPF counters against what the kernel counts elsewhere, and against loads that know what they did.

Each function of CHECKS takes a `Scene` and asserts; tests/collectors/ebpf runs them on the host, tests/guest in the
lab. The whole machine is counted, so its other work is in both sources. A second source is read before and after each
reading of the probes: what it grew by in between and around is the range for the probes, and needs no tolerance for the
time of reading. What else the two count differently is said beside each check. Times have a load's own clock as their
source: the probes must find all of it, in the slots of that length.
"""

import json
import mmap
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import second_source
from probe_scene import BLOCK_BYTES, FOUND_SHARE, HERE, LOST_SHARE, MS, Beside, near, nothing, run, unknown
from second_source import EventCount, HandlerTimes, stat

from asa.config import Ebpf
from collectors.ebpf import layout

_MEASURED = {"delivery": "deliveries_measured", "receive": "receives_measured"}


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


def check_packets(scene):
    """The load's namespace tells its own packets, this one the machine's other; GRO joins some before we see them."""
    both = Beside(scene, second_source.network, lambda: scene.talk("connections", scene.sized(200, 20)))
    joined = both.range["received_packets"][1]
    both.agree("packets_sent", "sent_packets", own=both.told["sent_packets"], below=joined)
    both.agree("packets_received", "received_packets", own=both.told["received_packets"], below=joined)


def check_protocols(scene):
    """A segment or datagram of that size is one packet, counted where it is sent and where it comes in."""
    if scene.backend is Ebpf.BCC:
        assert {"tcp_packets", "udp_packets"} <= unknown(scene)
        assert "packets by protocol" in scene.lacking
        return
    for load in (("connections", scene.sized(200, 20)), ("datagrams", 50, 100)):
        both = Beside(scene, second_source.network, lambda words=load: scene.talk(*words))
        for field, names in (
            ("tcp_packets", ("TcpInSegs", "TcpOutSegs")),
            ("udp_packets", ("UdpInDatagrams", "UdpOutDatagrams")),
        ):
            own = sum(both.told[name] for name in names)
            rest = sum(both.range[name][1] for name in names)  # segments, of which GRO and GSO make one packet
            assert own * (1 - LOST_SHARE) <= both.grown(field) <= own + rest + 2, field


def check_connections(scene):
    """ActiveOpens and PassiveOpens count what sets out to open; refused ones never reach ESTABLISHED."""
    number = scene.sized(100, 20)
    both = Beside(scene, second_source.network, lambda: scene.talk("connections", number))
    opens = both.told["TcpActiveOpens"] + both.told["TcpPassiveOpens"]
    assert opens == 2 * number
    elsewhere = both.range["TcpActiveOpens"][1] + both.range["TcpPassiveOpens"][1]
    assert opens * (1 - LOST_SHARE) <= both.grown("connections_opened") <= opens + elsewhere + 2
    before = second_source.network()["TcpCurrEstab"]  # those may close as well
    assert opens * (1 - LOST_SHARE) <= both.grown("connections_closed") <= opens + elsewhere + before + 2


def check_connections_open(scene):
    """ss(8) lists what is established: as many as were opened and not closed yet, both ends of each."""
    number, shut = scene.sized(200, 20), scene.sized(80, 8)
    before = scene.reader.read()
    begun = second_source.network()
    command = [sys.executable, "-E", "-S", str(HERE / "talk.py"), "held", str(number), str(shut)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as load:  # stdin's end lets it end
        told = json.loads(load.stdout.readline())
        after = scene.reader.read()
        ended = second_source.network()
        load.communicate(timeout=120)
    assert load.returncode == 0
    assert told["established"] == 2 * (number - shut)
    opened, closed = (
        getattr(after, name) - getattr(before, name) for name in ("connections_opened", "connections_closed")
    )
    opens = sum(ended[name] - begun[name] for name in ("TcpActiveOpens", "TcpPassiveOpens"))
    others = opens + begun["TcpCurrEstab"]  # of other namespaces nothing is known: the machine's own are here
    slack = others + max(2, 4 * number * LOST_SHARE)
    assert abs(opened - closed - told["established"]) <= slack, (opened, closed, told, others)


def check_resets(scene):
    """OutRsts counts what is sent; in a namespace of its own each of them also comes in."""
    number = scene.sized(50, 10)
    for load, opened in (("refused", 0), ("aborted", 2 * number)):
        both = Beside(scene, second_source.network, lambda name=load: scene.talk(name, number))
        assert both.told["TcpOutRsts"] == number
        elsewhere = sum(both.range[name][1] for name in ("TcpOutRsts", "TcpEstabResets", "TcpAttemptFails"))
        assert 2 * number * (1 - LOST_SHARE) <= both.grown("connections_reset") <= 2 * number + elsewhere + 2
        opens = both.range["TcpActiveOpens"][1] + both.range["TcpPassiveOpens"][1]
        assert opened * (1 - LOST_SHARE) <= both.grown("connections_opened") <= opened + opens + 2


def check_retransmits(scene):
    """Real loss between two namespaces: netem where the kernel has it, else a queue that is too slow and short."""
    loss = ["netem", "loss", "8%"] if scene.emulated else []
    both = Beside(scene, second_source.network, lambda: scene.talk("lossy", scene.sized(400_000, 150_000), *loss))
    own = both.told["TcpRetransSegs"] + both.told["retransmitted_there"]
    assert own > 0
    both.agree("retransmits", "TcpRetransSegs", own=own)


def check_receive_and_delivery(scene):
    """Each message waits 2 ms for its reader. Short datagrams are copied without skb_copy_datagram_iovec (udp.c)."""
    number, delay_ns = 50, 2 * MS
    for load, kinds in (("datagrams", ("delivery",)), ("stream", ("delivery", "receive"))):
        both = Beside(scene, nothing, lambda name=load: scene.talk(name, number, delay_ns // 1000))
        for measured, latency in ((_MEASURED[kind], f"{kind}_latency_ns") for kind in kinds):
            assert both.grown(measured) >= number * FOUND_SHARE, (load, measured)
            assert both.grown(latency) >= number * delay_ns * FOUND_SHARE, (load, latency)


def check_transmit(scene):
    """Datagrams in a token bucket: tc-tbf(8) lets each out when enough tokens have come together."""
    both = Beside(scene, nothing, lambda: scene.talk("queued", 10, 1_000_000))
    assert both.grown("transmits_measured") >= both.told["datagrams"]
    assert both.grown("transmit_latency_ns") >= both.told["ns"] * FOUND_SHARE
    assert both.grown("transmit_latency_ns") <= both.told["ns"] * scene.sized(1.5, 4)


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
    check for name, check in sorted(globals().items()) if name.startswith("check_") and check not in NEEDS_KPROBES
)
