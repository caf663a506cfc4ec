# SPDX-License-Identifier: GPL-2.0-only
"""What the model sees of one tick: numbers that mean the same on a laptop and in an emulated guest.

A pure function of `collectors.rates.Rates` and the number of online cores. Three kinds of feature: shares of time,
rates a core through log1p, and ratios between rates (events a busy core-second, a context switch), which do not change
when the whole machine is slower. Core counts, clock rates, memory sizes and latencies of one disk are left out: they
would tell the machine, not what it does. Unknown stays None.

`TABLE` is the one source of names and arithmetic; any change to it needs another `SCHEMA`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log1p

from asa.core.decision import FeatureFrame
from collectors.rates import Rates

SCHEMA = 1
_LEAST_BUSY_CORES = 0.01  # below a hundredth of a core, events a busy core-second are noise


@dataclass(frozen=True, slots=True)
class View:
    """What the features are computed from."""

    rates: Rates
    cpus: int
    busy_cores: float | None  # mean number of cores at work, at least `_LEAST_BUSY_CORES`


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: its name, what it is, and how it comes out of a tick."""

    name: str
    sentence: str
    of: Callable[[View], float | None]


def frame(rates: Rates, cpus: int) -> FeatureFrame:
    """The features of one tick, in the order of `NAMES`; `cpus` is the number of online cores, at least 1."""
    busy_share = _busy_share(rates)
    busy_cores = None if busy_share is None else max(busy_share * cpus, _LEAST_BUSY_CORES)
    view = View(rates, cpus, busy_cores)
    return FeatureFrame(schema=SCHEMA, values=tuple([feature.of(view) for feature in TABLE]))


def _sum(*parts: float | None) -> float | None:
    total = 0.0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _ratio(part: float | None, whole: float | None) -> float | None:
    # of nothing is 0, not unknown: there was no packet that could have been large
    if part is None or whole is None:
        return None
    return part / whole if whole > 0.0 else 0.0


def _log(value: float | None) -> float | None:
    return None if value is None else log1p(value)


# the quantities that rates and ratios are made of: name -> (what is counted, how to get it)
_Quantity = Callable[[Rates], float | None]


def _busy_share(r: Rates) -> float | None:
    return _sum(r.cpu_user_share, r.cpu_nice_share, r.cpu_system_share, r.cpu_irq_share, r.cpu_softirq_share)


def _user_share(r: Rates) -> float | None:
    return _sum(r.cpu_user_share, r.cpu_nice_share)


def _interrupt_share(r: Rates) -> float | None:
    return _sum(r.cpu_irq_share, r.cpu_softirq_share)


def _disk_operations(r: Rates) -> float | None:
    return _sum(r.disk_reads_per_s, r.disk_writes_per_s)


def _disk_kib(r: Rates) -> float | None:
    total = _sum(r.disk_read_bytes_per_s, r.disk_write_bytes_per_s)
    return None if total is None else total / 1024


def _packets(r: Rates) -> float | None:
    return _sum(r.network_received_packets_per_s, r.network_sent_packets_per_s)


def _network_kib(r: Rates) -> float | None:
    total = _sum(r.network_received_bytes_per_s, r.network_sent_bytes_per_s)
    return None if total is None else total / 1024


def _waiting(r: Rates) -> float | None:
    # the reader of /proc/stat is one of the runnable tasks itself
    return None if r.run_queue_length is None else max(0.0, r.run_queue_length - 1.0)


_COUNTED: dict[str, tuple[str, _Quantity]] = {
    "switches": ("context switches", lambda r: r.context_switches_per_s),
    "forks": ("new processes and threads", lambda r: r.forks_per_s),
    "interrupts": ("hardware interrupts", lambda r: r.interrupts_per_s),
    "timer_softirqs": ("timer soft interrupts", lambda r: r.softirq_timer_per_s),
    "net_rx_softirqs": ("network receive soft interrupts", lambda r: r.softirq_net_rx_per_s),
    "block_softirqs": ("block device soft interrupts", lambda r: r.softirq_block_per_s),
    "sched_softirqs": ("load balancing soft interrupts", lambda r: r.softirq_sched_per_s),
    "rcu_softirqs": ("RCU soft interrupts", lambda r: r.softirq_rcu_per_s),
    "faults": ("page faults", lambda r: r.page_faults_per_s),
    "disk_operations": ("disk reads and writes", _disk_operations),
    "disk_kib": ("KiB read from and written to disks", _disk_kib),
    "packets": ("packets received and sent", _packets),
    "network_kib": ("KiB received and sent", _network_kib),
}


def _plain(name: str, sentence: str, of: _Quantity) -> Feature:
    return Feature(name, sentence, lambda view: of(view.rates))


def _a_core(name: str) -> Feature:
    what, of = _COUNTED[name]
    return Feature(f"{name}_a_core", f"log1p of {what} a second and core", lambda v: _log(_ratio(of(v.rates), v.cpus)))


def _a_busy_core(name: str) -> Feature:
    what, of = _COUNTED[name]
    sentence = f"log1p of {what} a second of busy core time"
    return Feature(f"{name}_a_busy_core", sentence, lambda v: _log(_ratio(of(v.rates), v.busy_cores)))


def _a_switch(name: str) -> Feature:
    # log1p of the ratio in thousandths: its bend lies at one in a thousand, so that rare events stay apart too
    what, of = _COUNTED[name]

    def value(view: View) -> float | None:
        ratio = _ratio(of(view.rates), view.rates.context_switches_per_s)
        return None if ratio is None else log1p(1000.0 * ratio)

    return Feature(f"{name}_a_switch", f"log1p of {what} a thousand context switches", value)


TABLE: tuple[Feature, ...] = (
    _plain("user_share", "time in user mode, nice or not", _user_share),
    _plain("system_share", "time in the kernel", lambda r: r.cpu_system_share),
    _plain("interrupt_share", "time in hardware and soft interrupts", _interrupt_share),
    _plain("idle_share", "time with nothing to do", lambda r: r.cpu_idle_share),
    _plain("iowait_share", "idle time while a task waited for a disk", lambda r: r.cpu_iowait_share),
    _plain("busy_share", "time at work, of all cores", _busy_share),
    _plain("user_of_busy", "user mode's part of the time at work", lambda r: _ratio(_user_share(r), _busy_share(r))),
    _plain(
        "interrupt_of_busy",
        "interrupts' part of the time at work",
        lambda r: _ratio(_interrupt_share(r), _busy_share(r)),
    ),
    _plain("hot_core_share", "cores that were busy over 90 % of the time", lambda r: r.hot_core_share),
    _plain("core_busy_max", "busy time of the busiest core", lambda r: r.core_busy_max),
    _plain("core_busy_min", "busy time of the least busy core", lambda r: r.core_busy_min),
    _plain("core_busy_spread", "standard deviation of busy time over cores", lambda r: r.core_busy_spread),
    Feature("waiting_a_core", "log1p of runnable tasks a core", lambda v: _log(_ratio(_waiting(v.rates), v.cpus))),
    Feature(
        "blocked_a_core",
        "log1p of tasks that wait for a disk, a core",
        lambda v: _log(_ratio(v.rates.blocked_tasks, v.cpus)),
    ),
    *map(_a_core, _COUNTED),
    *map(_a_busy_core, _COUNTED),
    *(_a_switch(name) for name in _COUNTED if name != "switches"),
    _plain(
        "faults_a_fork",
        "log1p of page faults a new process",
        lambda r: _log(_ratio(r.page_faults_per_s, r.forks_per_s)),
    ),
    _plain("packet_kib", "log1p of a packet's mean size in KiB", lambda r: _log(_ratio(_network_kib(r), _packets(r)))),
    _plain("disk_busy_share", "time with a disk request under way", lambda r: r.disk_busy_share),
    _plain("disk_queue", "log1p of disk requests under way", lambda r: _log(r.disk_queue_length)),
    _plain("cpu_pressure", "time in which some task waited for a CPU", lambda r: r.pressure_cpu_some_share),
    _plain("io_pressure", "time in which some task waited for I/O", lambda r: r.pressure_io_some_share),
    _plain("io_full_pressure", "time in which all tasks waited for I/O", lambda r: r.pressure_io_full_share),
)
"""All features, in order."""

NAMES: tuple[str, ...] = tuple(feature.name for feature in TABLE)
"""Their names, as the artefact records them."""
