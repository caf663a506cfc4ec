# SPDX-License-Identifier: GPL-2.0-only
"""The values of one tick, as data: which rates each is made of, and what they are divided by.

Four kinds: shares of time or of events, rates a core, ratios between rates (events a busy core-second, a context
switch), which do not change when the whole machine is slower, and quantiles of durations. Rates and durations go
through log1p. Core counts, clock rates, memory sizes, latencies of a disk, and whether a scheduler of ours is attached
are left out: they would tell the machine, or our own last decision; so is niceness, which tells how a recording was
started. `suspect` marks what may still tell the machine.
Nothing is computed here (`models.features.tick` does it).
"""

from collections.abc import Iterator

from collectors.ebpf.layout import OCTAVE_FIRST_LOG2
from collectors.metrics import METRICS
from collectors.metrics.kinds import Seen
from collectors.rates.probes import BURST_ENDS_LOG2, SLEEP_ENDS_LOG2
from collectors.sources import of_part
from models.features import processes
from models.features.column import BUSY, Source, Sum, Value, Whole, logged, plain

SCHEMA = 4
"""What the columns mean: a change of one, not a new one, needs another number. Models of another are refused."""

_USER = Sum(("cpu_user_share", "cpu_nice_share"))
_INTERRUPTS = Sum(("cpu_irq_share", "cpu_softirq_share"))
_SWITCHES = Sum(("context_switches_per_s",))
_PROBED_SWITCHES = Sum(("switches_per_s",))
_KIB = 1 / 1024
_DISK = Sum(("disk_reads_per_s", "disk_writes_per_s"))
_PACKETS = Sum(("network_received_packets_per_s", "network_sent_packets_per_s"))
_NETWORK_KIB = Sum(("network_received_bytes_per_s", "network_sent_bytes_per_s"), (_KIB, _KIB))

# events: name -> (what is counted, of which rates, from where)
_Counted = dict[str, tuple[str, Sum, Source]]

# in all three forms: a core, a busy core and a context switch
_COUNTED: _Counted = {
    "switches": ("context switches", _SWITCHES, Source.CPU),
    "forks": ("new processes and threads", Sum(("forks_per_s",)), Source.CPU),
    "interrupts": ("hardware interrupts", Sum(("interrupts_per_s",)), Source.CPU),
    "timer_softirqs": ("timer soft interrupts", Sum(("softirq_timer_per_s",)), Source.CPU),
    "net_rx_softirqs": ("network receive soft interrupts", Sum(("softirq_net_rx_per_s",)), Source.CPU),
    "block_softirqs": ("block device soft interrupts", Sum(("softirq_block_per_s",)), Source.CPU),
    "sched_softirqs": ("load balancing soft interrupts", Sum(("softirq_sched_per_s",)), Source.CPU),
    "rcu_softirqs": ("RCU soft interrupts", Sum(("softirq_rcu_per_s",)), Source.CPU),
    "faults": ("page faults", Sum(("page_faults_per_s",)), Source.MEMORY),
    "disk_operations": ("disk reads and writes", _DISK, Source.DISK),
    "disk_kib": (
        "KiB read from and written to disks",
        Sum(("disk_read_bytes_per_s", "disk_write_bytes_per_s"), (_KIB, _KIB)),
        Source.DISK,
    ),
    "packets": ("packets received and sent", _PACKETS, Source.NETWORK),
    "network_kib": ("KiB received and sent", _NETWORK_KIB, Source.NETWORK),
}
# a core alone: how memory moves
_MOVED: _Counted = {
    "available_grown_kib": (
        "KiB by which the available memory grew",
        Sum(("memory_available_grown_bytes_per_s",), (_KIB,)),
        Source.MEMORY,
    ),
    "available_shrunk_kib": (
        "KiB by which the available memory shrank",
        Sum(("memory_available_shrunk_bytes_per_s",), (_KIB,)),
        Source.MEMORY,
    ),
    "cached_grown_kib": (
        "KiB by which the cache of files grew",
        Sum(("memory_cached_grown_bytes_per_s",), (_KIB,)),
        Source.MEMORY,
    ),
    "cached_shrunk_kib": (
        "KiB by which the cache of files shrank",
        Sum(("memory_cached_shrunk_bytes_per_s",), (_KIB,)),
        Source.MEMORY,
    ),
    "dirty_grown_kib": (
        "KiB by which what is to be written grew",
        Sum(("memory_dirty_grown_bytes_per_s",), (_KIB,)),
        Source.MEMORY,
    ),
    "dirty_shrunk_kib": (
        "KiB by which what is to be written shrank",
        Sum(("memory_dirty_shrunk_bytes_per_s",), (_KIB,)),
        Source.MEMORY,
    ),
    "paged_in_kib": ("KiB paged in from disks", Sum(("paged_in_bytes_per_s",), (_KIB,)), Source.MEMORY),
    "paged_out_kib": ("KiB paged out to disks", Sum(("paged_out_bytes_per_s",), (_KIB,)), Source.MEMORY),
}
# a core alone: rare, or a second source of what is above
_RARE: _Counted = {
    "hrtimer_softirqs": ("high resolution timer soft interrupts", Sum(("softirq_hrtimer_per_s",)), Source.CPU),
    "tasklets": ("tasklet soft interrupts", Sum(("softirq_tasklet_per_s",)), Source.CPU),
    "major_faults": ("page faults that read a disk", Sum(("major_page_faults_per_s",)), Source.MEMORY),
    "connections_opened": ("TCP connections opened", Sum(("connections_opened_per_s",)), Source.NETWORK),
    "task_forks": ("processes and threads made", Sum(("task_forks_per_s",)), Source.PROBES),
    "execs": ("programs started", Sum(("execs_per_s",)), Source.PROBES),
    "exits": ("processes and threads that ended", Sum(("exits_per_s",)), Source.PROBES),
    "input_keys": ("keys and buttons pressed", Sum(("input_keys_per_s",)), Source.PROBES),
    "input_motions": ("events of pointers, wheels and pads", Sum(("input_motions_per_s",)), Source.PROBES),
    "sleep_s": ("seconds of sleeps that ended", Sum(("sleep_s_per_s",)), Source.PROBES),
    "blocked_s": ("seconds of waits in state D that ended", Sum(("blocked_s_per_s",)), Source.PROBES),
    "futex_wait_s": ("seconds of waits on futexes that ended", Sum(("futex_wait_s_per_s",)), Source.PROBES),
    "lock_wait_s": ("seconds of waits for locks of the kernel", Sum(("lock_wait_s_per_s",)), Source.PROBES),
}
# seen by eBPF: a busy core and a context switch
_PROBED: _Counted = {
    "wakeups": ("tasks woken", Sum(("wakeups_per_s",)), Source.PROBES),
    "migrations": ("tasks moved to another core", Sum(("migrations_per_s",)), Source.PROBES),
    "futex_waits": ("waits on futexes", Sum(("futex_waits_per_s",)), Source.PROBES),
    "lock_contentions": ("waits for a lock of the kernel", Sum(("lock_contentions_per_s",)), Source.PROBES),
    "blocked_waits": ("waits in state D", Sum(("blocked_per_s",)), Source.PROBES),
    "block_requests": ("requests that block devices completed", Sum(("block_completed_per_s",)), Source.PROBES),
    "softirqs": ("soft interrupts", Sum(("softirqs_per_s",)), Source.PROBES),
    "device_interrupts": ("interrupts of devices", Sum(("hardirqs_per_s",)), Source.PROBES),
    "network_interrupts": ("interrupts of network devices", Sum(("network_interrupts_per_s",)), Source.PROBES),
    "tcp_packets": ("TCP packets", Sum(("tcp_packets_per_s",)), Source.PROBES),
    "udp_packets": ("UDP packets", Sum(("udp_packets_per_s",)), Source.PROBES),
}
# as many as the kernel's CONFIG_HZ makes of them: they may tell the machine
_TICKING = frozenset({"timer_softirqs", "sched_softirqs", "rcu_softirqs", "hrtimer_softirqs"})
# name -> (what it is, field, whether it may tell the machine)
_DURATIONS = {
    "burst_mean": ("a turn on the CPU, the mean", "burst_mean_us", False),
    "burst_p50": ("a turn on the CPU, the median", "burst_p50_us", False),
    "burst_p95": ("a turn on the CPU, 95 % stay below", "burst_p95_us", False),
    "sleep_mean": ("a sleep, the mean", "sleep_mean_us", False),
    "sleep_p50": ("a sleep, the median", "sleep_p50_us", False),
    "sleep_p95": ("a sleep, 95 % stay below", "sleep_p95_us", False),
    "futex_wait_mean": ("a wait on a futex, the mean", "futex_wait_mean_us", False),
    "blocked_mean": ("a wait in state D, the mean", "blocked_mean_us", True),
    "wakeup_p50": ("from woken to on the CPU, the median", "wakeup_latency_p50_us", True),
    "wakeup_p95": ("from woken to on the CPU, 95 % stay below", "wakeup_latency_p95_us", True),
    "wakeup_p99": ("from woken to on the CPU, 99 % stay below", "wakeup_latency_p99_us", True),
    "requeue_mean": ("from taken off the CPU to on it again, the mean", "requeue_latency_mean_us", True),
    "queued_p50": ("able to run to on the CPU, the median", "run_queue_latency_p50_us", True),
    "queued_p95": ("able to run to on the CPU, 95 % stay below", "run_queue_latency_p95_us", True),
}


def _a_core(counted: _Counted) -> Iterator[Value]:
    for name, (what, of, source) in counted.items():
        sentence = f"log1p of {what} a second and core"
        ticking = name in _TICKING
        yield Value(name=f"{name}_a_core", sentence=sentence, source=source, suspect=ticking, of=of, per=Whole.CORE)


def _a_busy_core(counted: _Counted) -> Iterator[Value]:
    for name, (what, of, source) in counted.items():
        sentence = f"log1p of {what} a second of busy core time"
        yield Value(
            name=f"{name}_a_busy_core",
            sentence=sentence,
            source=source,
            suspect=name in _TICKING,
            of=of,
            per=Whole.BUSY_CORE,
        )


def _a_switch(counted: _Counted, per: Sum) -> Iterator[Value]:
    # log1p of the ratio in thousandths: its bend lies at one in a thousand, so that rare events stay apart too
    for name, (what, of, source) in counted.items():
        if of != per:
            sentence = f"log1p of {what} a thousand context switches"
            yield Value(
                name=f"{name}_a_switch",
                sentence=sentence,
                source=source,
                suspect=name in _TICKING,
                of=of,
                per=per,
                factor=1000.0,
            )


def _durations() -> Iterator[Value]:
    for name, (what, field, suspect) in _DURATIONS.items():
        yield logged(name, f"{what}, in µs", Source.PROBES, field, suspect=suspect)


def _bins(kind: str, what: str, ends_log2: dict[str, int]) -> Iterator[Value]:
    # parts of all events, and of the time in them by the middle of each bin (its geometric mean, in µs)
    parts = [*ends_log2, "longer"]
    log2 = [OCTAVE_FIRST_LOG2, *ends_log2.values()]
    middles = [2 ** ((low + high) / 2) / 1e3 for low, high in zip(log2, [*log2[1:], log2[-1] + 2], strict=True)]
    fields = [f"{kind}_{part}_share" for part in parts]
    everything = Sum(tuple(fields), tuple(middles))
    for part, field, middle in zip(parts, fields, middles, strict=True):
        words = part.replace("to_", "up to ")
        yield plain(f"{kind}_{part}", f"part of {what} of this length: {words}", Source.PROBES, field)
        if ends_log2.get(part, 64) > _SHORT_LOG2:
            sentence = f"part of the time of {what} by length: {words}"
            yield plain(f"{kind}_time_{part}", sentence, Source.PROBES, Sum((field,), (middle,)), everything)


_SHORT_LOG2 = 16  # events below 65 µs hardly fill any time

_SHARES = (
    plain("user_share", "time in user mode, nice or not", Source.CPU, _USER),
    plain("system_share", "time in the kernel", Source.CPU, "cpu_system_share"),
    plain("interrupt_share", "time in hardware and soft interrupts", Source.CPU, _INTERRUPTS),
    plain("idle_share", "time with nothing to do", Source.CPU, "cpu_idle_share"),
    plain("iowait_share", "idle time while a task waited for a disk", Source.CPU, "cpu_iowait_share"),
    plain("busy_share", "time at work, of all cores", Source.CPU, BUSY),
    plain("user_of_busy", "user mode's part of the time at work", Source.CPU, _USER, BUSY),
    plain("interrupt_of_busy", "interrupts' part of the time at work", Source.CPU, _INTERRUPTS, BUSY),
    plain("hot_core_share", "cores that were busy over 90 % of the time", Source.CPU, "hot_core_share"),
    plain("core_busy_max", "busy time of the busiest core", Source.CPU, "core_busy_max"),
    plain("core_busy_min", "busy time of the least busy core", Source.CPU, "core_busy_min"),
    plain("core_busy_spread", "standard deviation of busy time over cores", Source.CPU, "core_busy_spread"),
    plain("disk_busy_share", "time with a disk request under way", Source.DISK, "disk_busy_share"),
    plain("disk_read_part", "reads among disk reads and writes", Source.DISK, "disk_reads_per_s", _DISK),
    plain("tcp_share", "TCP among TCP segments and UDP datagrams", Source.NETWORK, "tcp_share"),
    plain("received_part", "received among all packets", Source.NETWORK, "network_received_packets_per_s", _PACKETS),
    plain("cpu_pressure", "time in which some task waited for a CPU", Source.PSI, "pressure_cpu_some_share"),
    plain("io_pressure", "time in which some task waited for I/O", Source.PSI, "pressure_io_some_share"),
    plain("io_full_pressure", "time in which all tasks waited for I/O", Source.PSI, "pressure_io_full_share"),
    plain("irq_pressure", "time that interrupts took from tasks", Source.PSI, "pressure_irq_full_share"),
    plain("involuntary_share", "switches from a task able to go on", Source.PROBES, "involuntary_switch_share"),
    plain("tcp_packet_share", "TCP among TCP and UDP packets", Source.PROBES, "tcp_packet_share"),
    *_bins("burst", "turns on the CPU", BURST_ENDS_LOG2),
    *_bins("sleep", "sleeps", SLEEP_ENDS_LOG2),
    plain("focus_share", "CPU time of the focused window's processes, of all", Source.DESKTOP, "focus_cpu_share"),
    plain("focus_of_busy", "their part of the time at work", Source.DESKTOP, "focus_cpu_share", BUSY),
    plain("fullscreen", "whether the focused window fills the screen", Source.DESKTOP, "focus_fullscreen"),
    plain("overview", "whether the overview is shown", Source.DESKTOP, "desktop_overview"),
    plain("gpu_user_share", "CPU time of processes that hold a GPU", Source.GPU, "gpu_process_cpu_share"),
    plain("gpu_user_of_busy", "their part of the time at work", Source.GPU, "gpu_process_cpu_share", BUSY),
)
_LOGS = (
    # the reader of /proc/stat is one of the runnable tasks itself
    logged("waiting_a_core", "runnable tasks a core", Source.CPU, Sum(("run_queue_length",), less=1.0), Whole.CORE),
    logged("blocked_a_core", "tasks that wait for a disk, a core", Source.CPU, "blocked_tasks", Whole.CORE),
    *_a_core(_COUNTED),
    *_a_busy_core(_COUNTED),
    *_a_switch(_COUNTED, _SWITCHES),
    *_a_core(_MOVED),
    *_a_core(_RARE),
    *_a_busy_core(_PROBED),
    *_a_switch(_PROBED, _PROBED_SWITCHES),
    logged("faults_a_fork", "page faults a new process", Source.MEMORY, "page_faults_per_s", Sum(("forks_per_s",))),
    logged("packet_kib", "a packet's mean size in KiB", Source.NETWORK, _NETWORK_KIB, _PACKETS),
    logged("disk_queue", "disk requests under way", Source.DISK, "disk_queue_length", suspect=True),
    logged("disk_io_kib", "KiB a disk request", Source.DISK, Sum(("disk_io_size_bytes",), (_KIB,))),
    *_durations(),
    logged("burst_reach", "the 95 % turn over the median one", Source.PROBES, "burst_p95_us", Sum(("burst_p50_us",))),
    logged("sleep_reach", "the 95 % sleep over the median one", Source.PROBES, "sleep_p95_us", Sum(("sleep_p50_us",))),
    logged("queue_length", "tasks able to run on a CPU at a switch", Source.PROBES, "run_queue_length_mean"),
    logged("focus_processes", "processes of the focused window", Source.DESKTOP, "focus_processes"),
    logged("input_events", "input events a second", Source.DESKTOP, "input_events_per_s"),
    logged("input_idle", "seconds since the last input", Source.DESKTOP, "input_idle_s"),
    logged("gpu_engines", "GPU engines at work", Source.GPU, "gpu_busy_engines"),
    logged("gpu_processes", "processes that hold a GPU", Source.GPU, "gpu_processes", suspect=True),
    logged(
        "group_top_share",
        "the busiest control group's part of their time",
        Source.GROUPS,
        "group_top_share",
        suspect=True,
    ),
    logged("groups_busy", "control groups at work", Source.GROUPS, "groups_busy", suspect=True),
    logged("timer_late", "µs by which a task's timers were late", Source.TIMER, "timer_late_mean_us", suspect=True),
)


def _declared() -> Iterator[Value]:
    # metrics that say themselves how they are seen
    for metric in METRICS:
        if metric.seen is not None:
            what, source = metric.sentence.rstrip("."), Source(of_part(metric.part).feature)
            what = what[:1].lower() + what[1:]
            match metric.seen:
                case Seen.PLAIN:
                    yield plain(metric.field, what, source, metric.field)
                case Seen.LOG:
                    yield logged(metric.field, what, source, metric.field)
                case Seen.LOG_A_CORE:
                    yield logged(f"{metric.field}_a_core", f"{what}, a core", source, metric.field, Whole.CORE)


_DECLARED = tuple(_declared())

VALUES: tuple[Value, ...] = (
    *_SHARES,
    *processes.SHARES,
    *(value for value in _DECLARED if not value.log),
    *_LOGS,
    *processes.LOGS,
    *(value for value in _DECLARED if value.log),
)
"""All values of one tick; those through log1p stand at the end."""

FOLLOWED: tuple[str, ...] = (
    "user_share",
    "system_share",
    "iowait_share",
    "busy_share",
    "user_of_busy",
    "hot_core_share",
    "core_busy_max",
    "core_busy_min",
    "core_busy_spread",
    "waiting_a_core",
    "switches_a_core",
    "switches_a_busy_core",
    "forks_a_core",
    "interrupts_a_core",
    "sched_softirqs_a_core",
    "rcu_softirqs_a_busy_core",
    "faults_a_core",
    "faults_a_busy_core",
    "available_grown_kib_a_core",
    "available_shrunk_kib_a_core",
    "cached_grown_kib_a_core",
    "cached_shrunk_kib_a_core",
    "dirty_grown_kib_a_core",
    "disk_operations_a_core",
    "disk_kib_a_core",
    "packets_a_core",
    "network_kib_a_core",
    "cpu_pressure",
    "io_pressure",
    "involuntary_share",
    "burst_p50",
    "burst_p95",
    "burst_time_to_4ms",
    "burst_time_longer",
    "sleep_p50",
    "wakeups_a_switch",
    "migrations_a_switch",
    "futex_waits_a_switch",
    "execs_a_core",
    "focus_share",
    "input_events",
    *processes.FOLLOWED,
)
"""Values of which the last seconds matter too."""
