# SPDX-License-Identifier: GPL-2.0-only
"""What was read in one tick: raw kernel counters, before any arithmetic.

A field is `None` when this host does not offer it. Counters only grow (until a reboot or a wrap); states are levels
at the moment of reading. Rates come from two samples, in `collectors.rates`. Samples are journalled as they are, so
that every later derivation can be computed again.
"""

from dataclasses import dataclass
from typing import NamedTuple

# user, nice, system, idle, iowait, irq, softirq, steal in USER_HZ ticks: proc_stat(5), columns 1 to 8 of a cpu line.
CpuTicks = tuple[int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCounters:
    """/proc/stat: time by mode, and events since boot."""

    total: CpuTicks
    cores: tuple[tuple[int, CpuTicks], ...]  # (cpu number, ticks), the online ones only
    interrupts: int
    context_switches: int
    forks: int
    softirqs: tuple[int, ...]  # HI TIMER NET_TX NET_RX BLOCK IRQ_POLL TASKLET SCHED HRTIMER RCU (kernel/softirq.c)
    runnable: int  # procs_running, a level
    blocked: int  # procs_blocked, a level


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """How many there are now: proc_loadavg(5) for threads, /proc's own link count or listing for processes."""

    processes: int | None
    threads: int
    runnable_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """/proc/meminfo, levels in bytes."""

    total_bytes: int
    free_bytes: int
    available_bytes: int | None
    buffers_bytes: int
    cached_bytes: int
    swap_total_bytes: int
    swap_free_bytes: int
    dirty_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingCounters:
    """/proc/vmstat: events since boot."""

    faults: int
    major_faults: int
    paged_in_kib: int
    paged_out_kib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """/proc/diskstats, summed over whole physical devices (no partitions, loop, ram, zram, dm or md)."""

    reads: int
    read_sectors: int  # of 512 bytes, whatever the device's own sector is
    read_ms: int
    writes: int
    write_sectors: int
    write_ms: int
    in_flight: int  # a level
    busy_ms: int
    weighted_ms: int  # its growth per millisecond is the mean queue length


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCounters:
    """/proc/net/dev (hardware's interfaces and loopback; in the first recordings all) and /proc/net/snmp."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int
    tcp_in_segments: int | None
    tcp_out_segments: int | None
    tcp_retransmitted_segments: int | None
    tcp_active_opens: int | None
    tcp_passive_opens: int | None
    tcp_resets: int | None  # EstabResets + AttemptFails
    udp_in_datagrams: int | None
    udp_out_datagrams: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """How many TCP connections are in each state now; UDP sockets in use. Levels."""

    established: int | None  # /proc/net/snmp CurrEstab
    time_wait: int | None  # /proc/net/sockstat
    orphaned: int | None
    listening: int | None  # counted from /proc/net/tcp and tcp6 while the tables are small, else None
    other: int | None
    udp_sockets: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureCounters:
    """/proc/pressure/*: stalled time since boot in microseconds (Documentation/accounting/psi.rst)."""

    cpu_some_us: int | None
    io_some_us: int | None
    io_full_us: int | None
    memory_some_us: int | None
    memory_full_us: int | None
    irq_full_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedExtState:
    """/sys/kernel/sched_ext: who decides now (kernel/sched/ext.c)."""

    state: str  # disabled, enabling, enabled, disabling
    ops: str  # name of the attached scheduler, "" when none is
    enable_seq: int  # grows by one with each scheduler that was enabled since boot


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCounters:
    """What the eBPF programs counted since they were loaded, summed over CPUs. None: its hook is not in this kernel.

    Histograms hold counts by slot; `collectors.ebpf.layout` says where a slot begins. Times are nanoseconds of
    CLOCK_MONOTONIC. Above the switch rate from which the programs sample, what is timed (sleeps, waits, bursts) is an
    estimate: a timed one counts for as many as were passed over, also in `blocked` and `futex_waits`. All other counts
    of events are whole.
    """

    switches: int | None = None  # sched_switch
    involuntary_switches: int | None = None  # of them, those that left a task able to run
    wakeups: int | None = None
    migrations: int | None = None
    run_queue_length_sum: int | None = None  # rq->nr_running added up at each switch
    wakeup_latency_ns: int | None = None  # woken -> on the CPU
    wakeup_latency_hist: tuple[int, ...] | None = None  # LATENCY slots
    requeue_latency_ns: int | None = None  # taken off the CPU while able to run -> on a CPU again
    requeue_latency_hist: tuple[int, ...] | None = None  # LATENCY slots; with the one above: run-queue latency
    burst_ns: int | None = None  # on the CPU without a switch, idle left out
    burst_hist: tuple[int, ...] | None = None  # OCTAVE slots
    sleep_ns: int | None = None  # interruptible sleep
    sleep_hist: tuple[int, ...] | None = None  # OCTAVE slots
    blocked: int | None = None  # uninterruptible sleeps
    blocked_ns: int | None = None
    futex_waits: int | None = None  # sleeps inside futex(2)
    futex_wait_ns: int | None = None
    lock_contentions: int | None = None  # a task had to wait for a lock of the kernel (lock:contention_begin)
    lock_wait_ns: int | None = None  # for how long the lock's holder kept it waiting
    lock_failures: int | None = None  # waits that ended without the lock (contention_end, ret != 0)
    forks: int | None = None
    execs: int | None = None
    exits: int | None = None
    block_issued: int | None = None
    block_completed: int | None = None
    block_latency_ns: int | None = None  # request made -> completed
    block_latency_hist: tuple[int, ...] | None = None  # LATENCY slots
    interrupts: int | None = None
    interrupt_ns: int | None = None  # in their handlers
    network_interrupts: int | None = None  # of them, those of network devices
    network_interrupt_ns: int | None = None
    softirqs: tuple[int, ...] | None = None  # by kind, as CpuCounters.softirqs
    softirq_ns: tuple[int, ...] | None = None
    connections_opened: int | None = None  # TCP, came to ESTABLISHED
    connections_closed: int | None = None  # TCP, from ESTABLISHED or later to CLOSE
    connections_reset: int | None = None  # RST sent or received
    retransmits: int | None = None
    packets_sent: int | None = None  # net_dev_queue
    packets_received: int | None = None  # netif_receive_skb
    tcp_packets: int | None = None  # both ways
    udp_packets: int | None = None
    transmits_measured: int | None = None  # how many packets the next field is the sum of
    transmit_latency_ns: int | None = None  # queued on the device -> handed to its driver
    receives_measured: int | None = None
    receive_latency_ns: int | None = None  # came up from the driver -> copied to the reader
    deliveries_measured: int | None = None
    delivery_latency_ns: int | None = None  # data ready on the socket -> recv of the reader returns
    long_waits: tuple[int, ...] | None = None  # ended waits for a CPU: LONG_WAIT slots for each of layout.WAITERS
    waiting_ns: tuple[int, ...] | None = None  # levels: the longest that WAITERS waited at `scanned_ns`; 0: none
    scanned_ns: int | None = None  # when that was looked for last; 0: never
    input_keys: int | None = None  # keys and buttons pressed; which ones is not looked at
    input_motions: int | None = None  # events of relative and absolute axes


@dataclass(frozen=True, slots=True, kw_only=True)
class FeltCounters:
    """What of a person's screen and sound the eBPF programs counted, and what the kernel complained of. Counters since
    they were loaded, summed over CPUs; None: the hook is not in this kernel."""

    flips: int | None = None  # pictures that came to a screen, the first of each refresh
    drawn_ns: int | None = None  # time between pictures that came one after the other: while something is drawn
    drawn_refreshes: int | None = None  # refreshes of the screen in that time
    missed_frames: int | None = None  # of them, those that showed an old picture though the usual interval was over
    flip_gaps: tuple[int, ...] | None = None  # those intervals by refreshes: 1, 2, and so on; the last slot: or more
    input_flips: int | None = None  # pictures that were the first after a press of a key or button
    input_flip_ns: int | None = None  # from the press to them
    sound_underruns: int | None = None  # of sound cards: a buffer ran empty, or over while recording (xrun)
    hung_tasks: int | None = None  # the kernel says that a task has not run for two minutes (khungtaskd)
    rcu_stalls: int | None = None  # and that a CPU, or its own thread, does not come to RCU's work


class BurstCounters(NamedTuple):
    """The turns on the CPU of one process, all its threads together; estimates while the programs sample."""

    pid: int
    burst_ns: int
    bursts: int
    involuntary: int  # of them, those that ended though the task could have gone on


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessBursts:
    """What the eBPF programs counted for those processes that had a turn lately, each since it is followed."""

    processes: tuple[BurstCounters, ...]  # by pid; the kernel's threads too, the idle ones not


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusCounters:
    """The processes behind the focused window: a control group, or a process with its descendants."""

    group: str  # cgroup path below its root, or "pid:PID@STARTTIME" of the tree's root: an identity, not a name to show
    processes: int
    cpu_ns: int  # of each since it began, with its ended children it waited for; falls when one ends unwaited for
    memory_bytes: int  # resident, shared pages counted once a process (or memory.current of the group)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopState:
    """What the person at the screen has in front of them. No titles, no keys: only classes and counts."""

    source: str  # gnome, kwin, sway, hyprland, gamescope, x11
    app: str  # desktop id or sandboxed application id, "" when unknown
    window_class: str
    title_class: str  # browser, document, terminal, other, "" for no title
    fullscreen: bool | None
    overview: bool | None
    idle_ms: int | None  # since the last input
    input_events: int | None  # a counter since the source began
    focus: FocusCounters | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCounters:
    """Use of GPUs through DRM: Documentation/gpu/drm-usage-stats.rst."""

    processes: int | None  # that hold a render node or a card open; None: one holds a GPU whose driver tells nothing
    engine_ns: int | None  # busy time of all engines for all clients; None where no driver tells it
    memory_bytes: int | None  # resident
    cpu_ns: int | None = None  # their processor time, counted since the source began


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUsage:
    """CPU time by control group (cgroup v2 cpu.stat usage_usec), the outermost applications and services only."""

    cpu_us: tuple[tuple[str, int], ...]  # (path below the root, microseconds)


class ProcessUsage(NamedTuple):
    """One process as /proc/PID/stat has it, proc_pid_stat(5). With `started_ticks` a number stands for one process.

    A tuple, that a journal may hold dozens of them a second without their fields' names.
    """

    pid: int
    started_ticks: int  # USER_HZ ticks of CLOCK_BOOTTIME
    user_ticks: int  # USER_HZ, as the next one: of all its threads, also the ended ones, without its children
    system_ticks: int
    minor_faults: int
    major_faults: int  # that had to read a disk
    threads: int  # a level, as the next one
    resident_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BusiestProcesses:
    """Those processes that used the CPU the most lately, without the kernel's threads and the reader itself."""

    processes: tuple[ProcessUsage, ...]  # the busiest first


class ProgramUse(NamedTuple):
    """All processes of one program, of those that are followed."""

    program: int  # 64 bits by which nobody knows it who has not this user's key (`collectors.programs`)
    cores: float  # of CPU time since the last sample


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsAtWork:
    """Programs that have worked since they are followed, whether they do now or not."""

    programs: tuple[ProgramUse, ...]  # by number


class Advice(NamedTuple):
    """What an adviser says that a program at work is for (docs/adviser.md)."""

    program: int  # as in `ProgramUse`
    kind: str  # a Kind of `asa.core.kinds`
    sure: float  # 0..1, with what the adviser's word counts


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeCounters:
    """Threads of real-time classes (FIFO, RR, deadline), without the kernel's own."""

    threads: int
    cpu_ns: int  # of each since it was found; a counter that begins with the source


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerCounters:
    """How late an ordinary task woke from sleeps to absolute times, since the source began."""

    late_ns: int
    late_hist: tuple[int, ...]  # LATENCY slots of `collectors.ebpf.layout`; their sum is the number of wakes
    overdue_ns: int | None = None  # a level: at least so long it has not come to a wake that is due; 0: it is not late


class DesktopEntry(NamedTuple):
    """What a desktop entry says of an application (Desktop Entry Specification)."""

    name: str  # its id, without ".desktop"
    categories: tuple[str, ...]  # as it has them


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageUse:
    """Programs at work of which the distribution says the same."""

    facets: tuple[str, ...]  # `about::racing`, `section::games`, `use::gameplaying`, sorted
    cores: float  # of CPU time since the last sample


@dataclass(frozen=True, slots=True, kw_only=True)
class HintState:
    """What the desktop knows by itself of what is done. States, some seconds old at most."""

    front: str  # id of the entry of the window in front, "" when none is known
    entries: tuple[DesktopEntry, ...]  # by id: of the window in front, of running groups, of players that play
    playing: tuple[str, ...] | None  # media players that play (MPRIS): ids of their entries, "" for one that tells none
    game_clients: int | None  # of GameMode
    idle_inhibited: bool | None  # somebody keeps the session from being idle
    sound_played: bool | None  # a sound card plays, or a stream of PipeWire
    sound_recorded: bool | None  # and records; a camera's or the screen's pictures, too, that PipeWire hands on
    packages: tuple[PackageUse, ...] | None = None  # None: no package manager tells
    power_profile: str | None = None  # power-saver, balanced, performance: what was chosen in the desktop
    power_held: bool | None = None  # a program, such as a game, holds a power profile for as long as it runs
    lid_closed: bool | None = None
    external_display: bool | None = None  # a screen that is not the machine's own is connected
    sound_latency_ms: float | None = None  # the shortest that a running stream of PipeWire asks for
    sound_xruns: int | None = None  # cycles that PipeWire's nodes missed in some 20 s, while something sounds
    front_by_groups: bool | None = None  # True: no desktop tells what is in front: control groups do


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSample:
    """One tick of one machine. `monotonic_ns` is CLOCK_MONOTONIC at the start of reading, `wall_ns` CLOCK_REALTIME."""

    monotonic_ns: int
    wall_ns: int
    suspended_ns: int | None = None  # CLOCK_BOOTTIME less CLOCK_MONOTONIC: grows by the time the machine was suspended
    cpu: CpuCounters | None = None
    process: ProcessState | None = None
    memory: MemoryState | None = None
    paging: PagingCounters | None = None
    disk: DiskCounters | None = None
    network: NetworkCounters | None = None
    connections: ConnectionState | None = None
    pressure: PressureCounters | None = None
    sched_ext: SchedExtState | None = None
    probes: ProbeCounters | None = None
    process_bursts: ProcessBursts | None = None
    felt: FeltCounters | None = None
    desktop: DesktopState | None = None
    hints: HintState | None = None
    gpu: GpuCounters | None = None
    groups: GroupUsage | None = None
    timer: TimerCounters | None = None
    busiest: BusiestProcesses | None = None
    programs: ProgramsAtWork | None = None
    advice: tuple[Advice, ...] | None = None
    realtime: RealtimeCounters | None = None
    battery_saver: bool | None = None  # the user, or the system for them, wants energy saved; None: no telling here
    on_battery: bool | None = None  # nothing feeds the machine but its battery; None: no telling here
