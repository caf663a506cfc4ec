# SPDX-License-Identifier: GPL-2.0-only
"""What of a tick the guard looks at, when a difference in it is felt, and when another load explains it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from collectors.rates import Rates


class Signal(StrEnum):
    """What is compared; larger is worse."""

    RUN_QUEUE = "run-queue-p99"
    WAKEUP = "wakeup-p99"
    PRESSURE = "cpu-pressure"
    TIMER = "timer-late-p99"
    FRAMES = "frames-missed"
    SOUND = "sound-underruns"
    INPUT = "input-to-flip"
    INTERVAL = "frame-interval"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Of a signal's values."""

    words: str  # for people
    unit: str
    scale: float  # from the value to the unit
    floor: float  # a growth of less than this is felt by nobody
    soft: float  # far below what anybody feels: a change by less is none
    guarded: bool = True  # False: what is done moves it as much as a scheduler does, and only turns tell them apart


# People begin to notice a delay of 34 to 137 ms with a mouse (Forch et al. 2017, doi 10.1007/978-3-319-58475-1_4), and
# under a finger well below 10 ms (Ng et al., UIST 2012, doi 10.1145/2380116.2380174). Between a touch and its picture
# lie some five wakeups (input, compositor, application, its renderer, compositor): 2 ms each make 10 ms. It is also an
# eighth of a frame at 60 Hz, and a fifth of the 10 ms audio buffers that the paper's audio scenario is run with here.
# The paper (section 4.2) calls what lies below the "exceeds human perception" region: no gain counts there.
_LATENCY_FLOOR_US = 2_000.0
# Of the time some task that could run was waiting. No study of perception knows it; a tenth is more than kernel threads
# and the agent itself cause on an idle machine.
_PRESSURE_FLOOR = 0.1

# Three pictures a second at 60 Hz: a first choice.
_FRAMES_FLOOR = 0.05
# Each one is heard. A first choice: one in five seconds, so that a block of the guard has to have one of its own.
_SOUND_FLOOR_PER_S = 0.2
# From the press to the picture: the 10 ms of above as a whole.
_INPUT_FLOOR_MS = 10.0


def _latency(words: str) -> Meaning:
    return Meaning(words=words, unit=" ms", scale=1e-3, floor=_LATENCY_FLOOR_US, soft=_LATENCY_FLOOR_US / 10)


# Of what is counted and is mostly none, a single one must not weigh as much as a wait that doubles: there the soft part
# is as large as what is felt.
MEANINGS: Mapping[Signal, Meaning] = {
    Signal.RUN_QUEUE: _latency("run-queue latency (p99)"),
    Signal.WAKEUP: _latency("wakeup latency (p99)"),
    Signal.PRESSURE: Meaning(
        words="CPU pressure", unit=" %", scale=100.0, floor=_PRESSURE_FLOOR, soft=_PRESSURE_FLOOR / 10
    ),
    Signal.TIMER: _latency("timer lateness (p99)"),
    Signal.FRAMES: Meaning(words="frames missed", unit=" %", scale=100.0, floor=_FRAMES_FLOOR, soft=_FRAMES_FLOOR),
    Signal.SOUND: Meaning(
        words="sound underruns", unit=" a second", scale=1.0, floor=_SOUND_FLOOR_PER_S, soft=_SOUND_FLOOR_PER_S
    ),
    Signal.INPUT: Meaning(
        words="input to picture", unit=" ms", scale=1.0, floor=_INPUT_FLOOR_MS, soft=_INPUT_FLOOR_MS / 10
    ),
    Signal.INTERVAL: Meaning(words="time between pictures", unit=" ms", scale=1.0, floor=2.0, soft=0.2, guarded=False),
    Signal.PROGRESS: Meaning(
        words="time for a piece of work", unit=" ms", scale=1.0, floor=0.0, soft=1e-3, guarded=False
    ),
}
FLOOR: Mapping[Signal, float] = {signal: meaning.floor for signal, meaning in MEANINGS.items()}
"""Growth of a median that nobody feels: microseconds, for the pressure a share of time."""
SIGNALS = tuple(Signal)
"""In the order of their values in a block."""
_WAITS = tuple(
    (SIGNALS.index(one), FLOOR[one])
    for one in (Signal.RUN_QUEUE, Signal.WAKEUP, Signal.PRESSURE, Signal.TIMER, Signal.FRAMES, Signal.SOUND)
)
GUARDED = tuple((place, signal) for place, signal in enumerate(SIGNALS) if MEANINGS[signal].guarded)
"""Those that the guard compares over hours, with their places."""
FEWEST_PIECES_PER_S = 20.0
"""With fewer tasks that end and requests of disks that are completed, nothing is said of progress: chance decides."""
_BUSY, _WAKEUPS, _FORKS, _COMPLETED, _PROGRAMS = range(len(SIGNALS), len(SIGNALS) + 5)
PLACES = len(SIGNALS) + 5
"""Of `Values`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A quantity of the load, and how much more of it is another load: so much, or such a share if that is more."""

    place: int
    by: float
    share: float
    movable: bool  # can a scheduler raise it, and so excuse itself?


# First choices, but for what tests/decide/test_guard.py counts on recordings. A scheduler raises the use of processors
# by its own work and by caches that it keeps cold, and wakeups by taking the CPU from holders of locks.
OFFERS = (
    Offer(place=_BUSY, by=0.1, share=0.0, movable=True),
    Offer(place=_WAKEUPS, by=500.0, share=0.5, movable=True),
    Offer(place=_FORKS, by=50.0, share=0.5, movable=False),
    Offer(place=_COMPLETED, by=500.0, share=0.5, movable=False),
    Offer(place=_PROGRAMS, by=1.5, share=0.15, movable=False),
)
"""What programs and people ask for. Whoever starves tasks can only make less of it: docs/design.md has the table."""

Values = tuple[float | None, ...]
"""Of a tick or a block: in the order of SIGNALS, then the load's quantities in the order of OFFERS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """One tick's. None: not measured here, or not in this tick; that is no evidence."""

    run_queue_p99_us: float | None = None
    wakeup_p99_us: float | None = None
    cpu_pressure: float | None = None  # 0..1 of the time
    timer_late_us: float | None = None  # p99
    frames_missed: float | None = None  # 0..1 of the pictures that were due; known while something is drawn
    underruns: float | None = None  # of sound cards, a second; known while one is in use
    input_ms: float | None = None  # from a press to the next picture, the mean
    frame_ms: float | None = None  # from a picture to the next one while something is drawn, the mean
    piece_ms: float | None = None  # time for each task that ended and each request of a disk that was completed
    busy: float | None = None  # 0..1, share of processor time that was used
    wakeups: float | None = None  # a second and online CPU
    forks: float | None = None  # a second
    completed: float | None = None  # requests of disks and packets, a second
    programs: float | None = None  # processes that used a twentieth of a core or more
    waited_us: float | None = None  # the longest that a task waited for a CPU whom nobody told to; 0: not long
    kernel_waited_us: float | None = None  # and the longest of the kernel's own threads
    realtime_cores: float | None = None  # used by real-time threads, which no sched_ext scheduler serves
    hung_per_s: float | None = None  # tasks of which the kernel says that they have not run for two minutes
    stalls_per_s: float | None = None  # and its warnings that RCU stalls


FIELDS = (
    "run_queue_latency_p99_us",
    "wakeup_latency_p99_us",
    "pressure_cpu_some_share",
    "timer_late_p99_us",
    "cpu_idle_share",
    "cpu_iowait_share",
    "wakeups_per_s",
    "forks_per_s",
    "disk_reads_per_s",
    "disk_writes_per_s",
    "network_received_packets_per_s",
    "network_sent_packets_per_s",
    "processes_busy",
    "longest_wait_us",
    "longest_kernel_wait_us",
    "realtime_cpu_cores",
    "frames_missed_share",
    "sound_underruns_per_s",
    "input_to_flip_mean_ms",
    "frame_interval_mean_ms",
    "exits_per_s",
    "hung_tasks_per_s",
    "rcu_stalls_per_s",
)
"""Of Rates: those that `of_rates` looks at."""


def of_rates(rates: Rates, cpus: int | None) -> Signals:
    """What of a tick's rates the guard looks at. `cpus` were online; None: unknown."""
    wakeups = rates.wakeups_per_s
    return Signals(
        run_queue_p99_us=rates.run_queue_latency_p99_us,
        wakeup_p99_us=rates.wakeup_latency_p99_us,
        cpu_pressure=rates.pressure_cpu_some_share,
        timer_late_us=rates.timer_late_p99_us,
        frames_missed=rates.frames_missed_share,
        underruns=rates.sound_underruns_per_s,
        input_ms=rates.input_to_flip_mean_ms,
        frame_ms=rates.frame_interval_mean_ms,
        piece_ms=_piece_ms(rates),
        busy=_busy(rates),
        wakeups=wakeups / cpus if wakeups is not None and cpus else None,
        forks=rates.forks_per_s,
        completed=_completed(rates),
        programs=rates.processes_busy,
        waited_us=rates.longest_wait_us,
        kernel_waited_us=rates.longest_kernel_wait_us,
        realtime_cores=rates.realtime_cpu_cores,
        hung_per_s=rates.hung_tasks_per_s,
        stalls_per_s=rates.rcu_stalls_per_s,
    )


def values_of(tick: Signals) -> Values:
    """In the order of `Values`."""
    return (
        tick.run_queue_p99_us,
        tick.wakeup_p99_us,
        tick.cpu_pressure,
        tick.timer_late_us,
        tick.frames_missed,
        tick.underruns,
        tick.input_ms,
        tick.frame_ms,
        tick.piece_ms,
        tick.busy,
        tick.wakeups,
        tick.forks,
        tick.completed,
        tick.programs,
    )


def waited(tick: Signals) -> bool:
    """Does anybody feel in this tick that something waits, by itself and not beside another tick?"""
    values = values_of(tick)
    return any((value := values[place]) is not None and value >= floor for place, floor in _WAITS)


def middle(blocks: tuple[Values, ...], place: int) -> float | None:
    """Median of what is known at a place; None: nothing is."""
    known = [value for block in blocks if (value := block[place]) is not None]
    return median(known) if known else None


def felt(signal: Signal, now: float, before: float, worse_by: float) -> bool:
    """Is it worse now by so much that it counts?"""
    return now - before > FLOOR[signal] and now > before * (1.0 + worse_by)


def offered_more(now: Values, before: Values, *, movable: bool = True) -> bool:
    """Was far more asked for `now` than `before`? None is unknown, and far from nothing.

    More only: a scheduler that starves tasks makes less of all this, and must not be excused for it. `movable`: also by
    what a scheduler can raise.
    """
    return any(_more(offer, now[offer.place], before[offer.place]) for offer in OFFERS if movable or not offer.movable)


def _more(offer: Offer, now: float | None, before: float | None) -> bool:
    return now is not None and before is not None and now - before > max(offer.by, offer.share * before)


def _completed(rates: Rates) -> float | None:
    parts = (
        rates.disk_reads_per_s,
        rates.disk_writes_per_s,
        rates.network_received_packets_per_s,
        rates.network_sent_packets_per_s,
    )
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _piece_ms(rates: Rates) -> float | None:
    # what came to its end; packets are left out: they tell of the other side's pace
    parts = (rates.exits_per_s, rates.disk_reads_per_s, rates.disk_writes_per_s)
    pieces = sum(part for part in parts if part is not None)
    return 1e3 / pieces if pieces >= FEWEST_PIECES_PER_S else None


def _busy(rates: Rates) -> float | None:
    idle, waiting = rates.cpu_idle_share, rates.cpu_iowait_share
    return None if idle is None else 1.0 - idle - (waiting or 0.0)
