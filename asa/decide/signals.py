# SPDX-License-Identifier: GPL-2.0-only
"""What of a tick the guard looks at, when a difference in it is felt, and which loads compare. Pure."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Of a signal's values."""

    words: str  # for people
    unit: str
    scale: float  # from the value to the unit
    floor: float  # a growth of less than this is felt by nobody


# People begin to notice a delay of 34 to 137 ms with a mouse (Forch et al. 2017, doi 10.1007/978-3-319-58475-1_4), and
# under a finger well below 10 ms (Ng et al., UIST 2012, doi 10.1145/2380116.2380174). Between a touch and its picture
# lie some five wakeups (input, compositor, application, its renderer, compositor): 2 ms each make 10 ms. It is also an
# eighth of a frame at 60 Hz, and a fifth of the 10 ms audio buffers that the paper's audio scenario is run with here.
# The paper (section 4.2) calls what lies below the "exceeds human perception" region: no gain counts there.
_LATENCY_FLOOR_US = 2_000.0
# Of the time some task that could run was waiting. No study of perception knows it; a tenth is more than kernel threads
# and the agent itself cause on an idle machine.
_PRESSURE_FLOOR = 0.1

MEANINGS: Mapping[Signal, Meaning] = {
    Signal.RUN_QUEUE: Meaning(words="run-queue latency (p99)", unit=" ms", scale=1e-3, floor=_LATENCY_FLOOR_US),
    Signal.WAKEUP: Meaning(words="wakeup latency (p99)", unit=" ms", scale=1e-3, floor=_LATENCY_FLOOR_US),
    Signal.PRESSURE: Meaning(words="CPU pressure", unit=" %", scale=100.0, floor=_PRESSURE_FLOOR),
    Signal.TIMER: Meaning(words="timer lateness (p99)", unit=" ms", scale=1e-3, floor=_LATENCY_FLOOR_US),
}
FLOOR: Mapping[Signal, float] = {signal: meaning.floor for signal, meaning in MEANINGS.items()}
"""Growth of a median that nobody feels: microseconds, for the pressure a share of time."""
SIGNALS = tuple(Signal)
"""In the order of their values in a block."""
_BUSY, _RUNNABLE, SWITCHES = len(SIGNALS), len(SIGNALS) + 1, len(SIGNALS) + 2
PLACES = len(SIGNALS) + 3
"""Of `Values`."""

LOAD_MATCH = ((_BUSY, 0.1, 0.0), (_RUNNABLE, 0.75, 0.15))
"""Place, and how far from the trial's median a block may lie: by so much, or by such a share of it if that is more.

One task more among five or fewer is another load.
"""

# A scheduler can cause switches itself, by slices that are too short. So this is high, and not a mere share of what was
# there before: 25,000 more a second are slices of 40 us where there were none.
CHATTIER = (25_000.0, 0.5)
"""Context switches a second and CPU that a trial must have more than a block: so many, or such a share if that is more.

The share is of the block's. The block is then no reference.
"""

Values = tuple[float | None, ...]
"""Of a tick or a block: in the order of SIGNALS, then share of processor time used, tasks able to run and switches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """One tick's. None: not measured here, or not in this tick; that is no evidence."""

    run_queue_p99_us: float | None = None
    wakeup_p99_us: float | None = None
    cpu_pressure: float | None = None  # 0..1 of the time
    timer_late_us: float | None = None  # p99
    busy: float | None = None  # 0..1, the load: share of processor time that was used
    runnable: float | None = None  # tasks able to run, those on a processor included
    switches: float | None = None  # context switches a second and online CPU


FIELDS = (
    "run_queue_latency_p99_us",
    "wakeup_latency_p99_us",
    "pressure_cpu_some_share",
    "timer_late_p99_us",
    "cpu_idle_share",
    "cpu_iowait_share",
    "run_queue_length",
    "context_switches_per_s",
)
"""Of Rates: those that `of_rates` looks at."""


def of_rates(rates: Rates, cpus: int | None) -> Signals:
    """What of a tick's rates the guard looks at. `cpus` were online; None: unknown."""
    switches = rates.context_switches_per_s
    return Signals(
        run_queue_p99_us=rates.run_queue_latency_p99_us,
        wakeup_p99_us=rates.wakeup_latency_p99_us,
        cpu_pressure=rates.pressure_cpu_some_share,
        timer_late_us=rates.timer_late_p99_us,
        busy=_busy(rates),
        runnable=rates.run_queue_length,
        switches=switches / cpus if switches is not None and cpus else None,
    )


def values_of(tick: Signals) -> Values:
    """In the order of `Values`."""
    return (
        tick.run_queue_p99_us,
        tick.wakeup_p99_us,
        tick.cpu_pressure,
        tick.timer_late_us,
        tick.busy,
        tick.runnable,
        tick.switches,
    )


def middle(blocks: tuple[Values, ...], place: int) -> float | None:
    """Median of what is known at a place; None: nothing is."""
    known = [value for block in blocks if (value := block[place]) is not None]
    return median(known) if known else None


def felt(signal: Signal, now: float, before: float, worse_by: float) -> bool:
    """Is it worse now by so much that it counts?"""
    return now - before > FLOOR[signal] and now > before * (1.0 + worse_by)


def chattier(now: float | None, before: float | None) -> bool:
    """Is `now` far more switches a second and CPU than `before`? None is unknown, and far from nothing.

    More only: a scheduler that starves tasks makes fewer, and must not be excused for it.
    """
    if now is None or before is None:
        return False
    by, share = CHATTIER
    return now - before > max(by, share * before)


def _busy(rates: Rates) -> float | None:
    idle, waiting = rates.cpu_idle_share, rates.cpu_iowait_share
    return None if idle is None else 1.0 - idle - (waiting or 0.0)
