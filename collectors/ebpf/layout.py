# SPDX-License-Identifier: GPL-2.0-only
"""The one table of what the eBPF programs fill: fields, slots of histograms, settings; and the C header made of it.

A CPU's row of the map `stats` holds words that only the programs and the reader's sampling use, then the fields of
ProbeCounters in the order of `FIELDS`, then the slots of processes. All words are u64. `VERSION` is a hash of the
whole, so that a compiled object and a reader that do not fit each other are told apart. Nothing is read or loaded here.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

WORD_BYTES = 8
ROW_ALIGN_BYTES = 64  # of a cache line: two CPUs never write the same one

LATENCY_FIRST_LOG2 = 8  # slot 0 ends at 256 ns, below which a clock call of 20-40 ns blurs what is measured
LATENCY_SLOTS = 104  # four an octave: the last one begins at 12.9 s
OCTAVE_FIRST_LOG2 = 10  # slot 0 ends at 1 us
OCTAVE_SLOTS = 28  # the last one begins at 68.7 s
SOFTIRQ_KINDS = 10  # NR_SOFTIRQS, include/linux/interrupt.h
IRQ_NUMBERS = 4096  # entries of the map `irq_kinds`; a higher interrupt number is counted, but never as a network's
IRQ_NETWORK = 1  # value in `irq_kinds` for the interrupt of a network device; 0 for all others
MARKS = 1024  # starts that are remembered at a time for each of MARK_TABLES; a later one with the same hash takes over
MARK_TABLES = ("lock", "transmit", "receive", "delivery", "spin")
"""The last one has an entry for each CPU, in its order."""
DELIVERY_MOST_NS = 4_000_000_000
"""Data unread for longer is not measured: no delivery takes longer, by the counters.

A UDP socket that is closed with unread data leaves its start behind, and the next socket at that address would be
charged with the time between the two. A reader that stays away for 4 s is stopped or sleeps on purpose: its delay says
nothing about scheduling, so little is lost. A socket that comes again sooner is still charged.
"""
BLOCK_MOST_NS = 30_000_000_000
"""BCC only: a request inserted longer ago than this is another one that was at the same place.

It is the block layer's own time-out of a request: queue/io_timeout is 30,000 ms where a driver sets none.
"""
FEWEST_TASKS = 1 << 12
MOST_TASKS = 1 << 17
"""Entries of the map `tasks`, 16 bytes each: 2 MiB of kernel memory at most.

pid_max is 4,194,304 on most installations (64 MiB), but a laptop has some thousands of tasks. Two of them share an
entry when their pids are the same modulo the size: 2 % of 2,500 tasks at 2**17. Then some of their latencies are lost.
"""

WAITERS = ("ordinary", "kernel", "realtime", "humble")
"""Who waits for a CPU, of `long_waits` and `waiting_ns`.

Ordinary tasks and kernel threads are what a sched_ext scheduler serves. None serves real-time classes (FIFO, RR,
deadline). The humble wait because somebody wanted that: SCHED_IDLE, nice above 0, and members of control groups that
have a limit (cpu.max), a weight below the kernel's own (100), or cpu.idle.
"""
LONG_WAIT_NS = 125_000_000  # shorter waits are in the latency histograms alone
LONG_WAIT_SLOTS = 8  # one an octave: the last one begins at 16 s
LONG_WAIT_STARTS_NS: tuple[int, ...] = tuple(LONG_WAIT_NS << slot for slot in range(LONG_WAIT_SLOTS))
"""Where each slot of a waiter's `long_waits` begins."""

SCREENS = 8
"""Of which the last picture is remembered: a crtc each. Crtcs with the same number, or one that is four more, have two
places; a third one takes the place of the one that was used least lately."""
SAME_SCREEN_REFRESHES = 4096
"""Two devices number their crtcs alike. Counts of refreshes that lie so far apart, a minute at 60 Hz, are of two."""
FLIP_GAPS = 8  # the programs add up eight bytes in a word
DRAWN_MOST_NS = 100_000_000
"""A longer interval between two pictures: nothing was drawn for a while, so that none was missed.

It is six refreshes at 60 Hz, and more than an interval of the slowest film (24 a second). A program that stands still
for longer is not told from one that has nothing to show; other signals tell of that (`waiting_ns`).
"""
INPUT_MOST_NS = 500_000_000
"""A press that no picture follows for so long was not answered on the screen (a modifier, a key of a game's menu)."""

PROCESS_SETS_LOG2 = 5
PROCESS_WAYS = 2
PROCESS_WORDS = ("pid", "used_ns", "kept_ns", "burst_ns", "bursts", "involuntary")
"""Of a slot: whose it is (the pid of the whole process; 0: nobody's), when it last left this CPU, its credit, and what
was counted.

Where more than PROCESS_WAYS processes of a set share a CPU, those that use the most have its slots: a process earns as
much credit as it uses, a turn of another one costs it that much, and who has less than that turn gives the slot away.
What has no slot is not counted; to give each newcomer the slot unused for longest would count hardly anything of three
that take turns.
"""
PROCESS_MOST_KEPT_NS = 100_000_000  # so that a process that was busy once is pushed out within a tick
PROCESS_IDLE_NS = 1_000_000_000  # whoever had no turn for so long has no claim at all
PROCESSES = PROCESS_WAYS << PROCESS_SETS_LOG2


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of ProbeCounters or FeltCounters: so many words, filled when all of `programs` are attached."""

    name: str
    programs: tuple[str, ...]
    words: int = 1


def _fields(programs: str, *names: str, words: int = 1) -> tuple[Field, ...]:
    return tuple(Field(name=name, programs=tuple(programs.split()), words=words) for name in names)


_WAKE = "sched_wakeup sched_wakeup_new"
_SLEEP = "sched_switch sched_wakeup"
_SOFTIRQ = "softirq_entry softirq_exit"
_IRQ = "irq_handler_entry irq_handler_exit"
_FLIP = "drm_vblank_event_delivered"

FIELDS: tuple[Field, ...] = (
    # Each switch and wakeup writes these: they share cache lines.
    *_fields("sched_switch", "switches", "involuntary_switches", "run_queue_length_sum"),
    *_fields(_WAKE, "wakeups"),
    *_fields(f"sched_switch {_WAKE}", "wakeup_latency_ns"),
    *_fields("sched_switch", "requeue_latency_ns", "burst_ns"),
    *_fields(_SLEEP, "sleep_ns", "blocked", "blocked_ns", "futex_waits", "futex_wait_ns"),
    *_fields("sched_migrate_task", "migrations"),
    *_fields("contention_begin contention_end", "lock_contentions", "lock_wait_ns", "lock_failures"),
    *_fields("sched_process_fork", "forks"),
    *_fields("sched_process_exec", "execs"),
    *_fields("sched_process_exit", "exits"),
    *_fields("block_rq_issue", "block_issued"),
    *_fields("block_rq_complete", "block_completed", "block_latency_ns"),
    *_fields(_IRQ, "interrupts", "interrupt_ns", "network_interrupts", "network_interrupt_ns"),
    *_fields("inet_sock_set_state", "connections_opened", "connections_closed"),
    *_fields("tcp_send_reset tcp_receive_reset", "connections_reset"),
    *_fields("tcp_retransmit_skb", "retransmits"),
    *_fields("net_dev_queue", "packets_sent"),
    *_fields("netif_receive_skb", "packets_received"),
    *_fields("net_dev_queue netif_receive_skb", "tcp_packets", "udp_packets"),
    *_fields("net_dev_queue net_dev_start_xmit", "transmits_measured", "transmit_latency_ns"),
    *_fields("netif_receive_skb skb_copy_datagram_iovec", "receives_measured", "receive_latency_ns"),
    *_fields("sk_data_ready sock_recv_length", "deliveries_measured", "delivery_latency_ns"),
    *_fields("input_event", "input_keys", "input_motions"),
    *_fields(f"sched_switch {_WAKE}", "long_waits", words=len(WAITERS) * LONG_WAIT_SLOTS),
    *_fields("waiting_tasks", "waiting_ns", words=len(WAITERS)),
    *_fields("waiting_tasks", "scanned_ns"),
    *_fields(_FLIP, "flips", "drawn_ns", "drawn_refreshes", "missed_frames"),
    *_fields(_FLIP, "flip_gaps", words=FLIP_GAPS),
    *_fields(f"{_FLIP} input_event", "input_flips", "input_flip_ns"),
    *_fields("__snd_pcm_xrun", "sound_underruns"),
    *_fields("sched_process_hang", "hung_tasks"),
    *_fields("rcu_stall_warning", "rcu_stalls"),
    *_fields(_SOFTIRQ, "softirqs", "softirq_ns", words=SOFTIRQ_KINDS),
    *_fields(f"sched_switch {_WAKE}", "wakeup_latency_hist", words=LATENCY_SLOTS),
    *_fields("sched_switch", "requeue_latency_hist", words=LATENCY_SLOTS),
    *_fields("block_rq_complete", "block_latency_hist", words=LATENCY_SLOTS),
    *_fields("sched_switch", "burst_hist", words=OCTAVE_SLOTS),
    *_fields(_SLEEP, "sleep_hist", words=OCTAVE_SLOTS),
)

SCRATCH: tuple[str, ...] = (
    "sample_mask",  # written by the reader: one switch or wakeup in mask + 1 is timed; 0 or 2**k - 1
    "packet_mask",  # written by the reader: the same for packets
    "random",  # state of the generator that picks them
    "on_since_ns",  # when the task on this CPU came there, 0: not timed
    "on_weight",  # for how many bursts that one counts
    "irq_since_ns",
    "softirq_since_ns",
)
"""Words before the fields in a CPU's row; they are no counters. None may hold an address: others read the map, too."""

SETTINGS: tuple[str, ...] = (
    "layout",  # VERSION, compiled into the object
    "task_mask",  # entries of the map `tasks` less one
    "switch_tells_state",  # sched_switch hands over the state of the task that leaves, as its fourth argument
    "futex",  # system call numbers of this machine
    "futex_waitv",
    "futex_wait",
)
"""Words of the object's .rodata, set before it is loaded."""

PROGRAMS: tuple[str, ...] = tuple(dict.fromkeys(program for field in FIELDS for program in field.programs))
"""All programs, each named as the tracepoint, or as the kernel function of BY_KPROBE, that it is attached to."""

BY_KPROBE: frozenset[str] = frozenset({"input_event", "__snd_pcm_xrun"})
"""Of them, those at a function. ALSA's tracepoint `xrun` is the first line of that function, and in few kernels
(CONFIG_SND_PCM_XRUN_DEBUG)."""

OF_MODULES: frozenset[str] = frozenset({"drm_vblank_event_delivered", "__snd_pcm_xrun"})
"""Of them, those whose hook may be in a module: the kernel's own types do not tell whether it is there."""

ITERATORS: frozenset[str] = frozenset({"waiting_tasks"})
"""Of them, those that are at no event: they go over all tasks when they are asked to (iter/task)."""


def _offsets() -> dict[str, int]:
    names = [*SCRATCH, *(field.name for field in FIELDS)]
    sizes = [1] * len(SCRATCH) + [field.words for field in FIELDS]
    return dict(zip(names, accumulate(sizes, initial=0), strict=False))


OFFSETS: dict[str, int] = _offsets()
"""Field or scratch word -> its first word in a row."""

FIRST_COUNTER: int = len(SCRATCH)
ROW_WORDS: int = FIRST_COUNTER + sum(field.words for field in FIELDS)
"""Words of a row that are added up over CPUs; the slots of processes follow."""
SLOT_WORDS: int = PROCESSES * len(PROCESS_WORDS)
ROW_BYTES: int = -(-(ROW_WORDS + SLOT_WORDS) * WORD_BYTES // ROW_ALIGN_BYTES) * ROW_ALIGN_BYTES
"""Size of a CPU's row: the value size of the map `stats`."""


def fields_of(programs: Collection[str]) -> frozenset[str]:
    """Names of the fields that are filled when just these programs are attached."""
    return frozenset(field.name for field in FIELDS if set(field.programs) <= set(programs))


def lost_without(program: str) -> tuple[str, ...]:
    """Names of the fields that need this program."""
    return tuple(field.name for field in FIELDS if program in field.programs)


def _latency_starts_ns() -> tuple[int, ...]:
    edges = [0]
    for log2 in range(LATENCY_FIRST_LOG2, 64):
        edges.extend((4 + quarter) << (log2 - 2) for quarter in range(4))
    return tuple(edges[:LATENCY_SLOTS])


LATENCY_STARTS_NS: tuple[int, ...] = _latency_starts_ns()
"""Where each LATENCY slot begins, in ns; it ends where the next one begins, the last one never."""

OCTAVE_STARTS_NS: tuple[int, ...] = (0, *(1 << (OCTAVE_FIRST_LOG2 + slot) for slot in range(OCTAVE_SLOTS - 1)))
"""Where each OCTAVE slot begins, in ns."""


def percentile_ns(counts: Sequence[int], starts: Sequence[int], share: float) -> float | None:
    """The time in ns below which `share` (0 to 1) of a histogram's entries lie, linear within a slot.

    `counts` are entries by slot (the growth between two samples), `starts` where each slot begins. In the last slot,
    which has no end, it is that slot's beginning. None when there is no entry.
    """
    below = list(accumulate(counts))
    return percentiles_ns(below, starts, (share,))[0] if below and below[-1] else None


def percentiles_ns(below: Sequence[int], starts: Sequence[int], shares: Iterable[float]) -> list[float]:
    """As `percentile_ns`, of a histogram with at least one entry and the running sums `below`; `shares` rise."""
    whole, last, slot, found = below[-1], len(below) - 1, 0, []
    for share in shares:
        target = share * whole
        # not beyond the last one, where the product is rounded up
        slot = bisect_left(below, target, slot, last) if target > 0 else bisect_right(below, 0, 0, last)
        start = starts[slot]
        if slot + 1 == len(starts):
            found.append(float(start))
            continue
        before = below[slot - 1] if slot else 0
        found.append(start + (starts[slot + 1] - start) * (target - before) / (below[slot] - before))
    return found


def _constants() -> dict[str, int]:
    tables = {f"ASA_MARK_{table.upper()}": number for number, table in enumerate(MARK_TABLES)}
    return tables | {
        "ASA_LATENCY_FIRST_LOG2": LATENCY_FIRST_LOG2,
        "ASA_LATENCY_SLOTS": LATENCY_SLOTS,
        "ASA_OCTAVE_FIRST_LOG2": OCTAVE_FIRST_LOG2,
        "ASA_OCTAVE_SLOTS": OCTAVE_SLOTS,
        "ASA_SOFTIRQ_KINDS": SOFTIRQ_KINDS,
        "ASA_IRQ_NUMBERS": IRQ_NUMBERS,
        "ASA_IRQ_NETWORK": IRQ_NETWORK,
        "ASA_MARKS": MARKS,
        "ASA_DELIVERY_MOST_NS": DELIVERY_MOST_NS,
        "ASA_BLOCK_MOST_NS": BLOCK_MOST_NS,
        "ASA_MARK_TABLES": len(MARK_TABLES),
        "ASA_FEWEST_TASKS": FEWEST_TASKS,
        **{f"ASA_WAITS_{name.upper()}": number for number, name in enumerate(WAITERS)},
        "ASA_WAITERS": len(WAITERS),
        "ASA_LONG_WAIT_NS": LONG_WAIT_NS,
        "ASA_LONG_WAIT_SLOTS": LONG_WAIT_SLOTS,
        "ASA_SCREENS": SCREENS,
        "ASA_SAME_SCREEN_REFRESHES": SAME_SCREEN_REFRESHES,
        "ASA_FLIP_GAPS": FLIP_GAPS,
        "ASA_DRAWN_MOST_NS": DRAWN_MOST_NS,
        "ASA_INPUT_MOST_NS": INPUT_MOST_NS,
        "ASA_PROCESS_SETS_LOG2": PROCESS_SETS_LOG2,
        "ASA_PROCESS_WAYS": PROCESS_WAYS,
        "ASA_PROCESSES": PROCESSES,
        "ASA_PROCESS_MOST_KEPT_NS": PROCESS_MOST_KEPT_NS,
        "ASA_PROCESS_IDLE_NS": PROCESS_IDLE_NS,
    }


def _body() -> str:
    lines = [f"#define {name} {value}" for name, value in _constants().items()]
    words = [f"\tu64 {name};" for name in SCRATCH]
    words += [f"\tu64 {field.name}{f'[{field.words}]' if field.words > 1 else ''};" for field in FIELDS]
    words += [f"\tstruct asa_process processes[{PROCESSES}];"]
    padding = ROW_BYTES // WORD_BYTES - ROW_WORDS - SLOT_WORDS
    words += [f"\tu64 padding[{padding}];"] if padding else []
    slot = [f"\tu64 {name};" for name in PROCESS_WORDS]
    settings = [f"\tu64 {name};" for name in SETTINGS]
    structs = {"asa_process": slot, "asa_stats": words, "asa_settings": settings}
    lines += [line for name, members in structs.items() for line in (f"struct {name} {{", *members, "};")]
    return "\n".join([*lines, ""])


VERSION: int = int.from_bytes(hashlib.sha256(_body().encode()).digest()[:8], "big")
"""Changes with every field, constant and word: object and reader must agree on it."""


def render() -> str:
    """The C header: constants, `struct asa_stats` (a CPU's row) with its slots, `struct asa_settings`. It needs u64."""
    guard = "ASA_STATS_H"
    opening = ["/* SPDX-License-Identifier: GPL-2.0-only */", "/* Made by collectors/ebpf/layout.py. */"]
    opening += [f"#ifndef {guard}", f"#define {guard}", f"#define ASA_LAYOUT 0x{VERSION:016x}ULL"]
    return "\n".join([*opening, f"{_body()}#endif", ""])
