# SPDX-License-Identifier: GPL-2.0-only
"""What the scale benchmark measures, and what a guest hands to the host: one JSON file of turns.

Types, the table of metrics and the records' file; nothing is measured or judged here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from asa import files, wire
from asa.core.errors import AsaError
from scenarios.conditions import Conditions

Reading = Mapping[str, int]
"""What one mode of scale.c printed: names and values, which end in their units."""


class Mode(StrEnum):
    """What scale.c can measure; its file says how."""

    THROUGHPUT = "throughput"
    WAKEUP = "wakeup"
    BURST = "burst"
    DEADLINES = "deadlines"
    PIPE = "pipe"
    FUTEX = "futex"
    LAUNCH = "launch"
    MESSAGING = "messaging"
    REQUESTS = "requests"
    NEWCOMERS = "newcomers"
    SOCKET = "socket"
    EVENTFD = "eventfd"
    SEMAPHORE = "semaphore"
    FANOUT = "fanout"
    IDLE = "idle"


FOREIGN = tuple(mode for mode in Mode if mode not in (Mode.THROUGHPUT, Mode.FUTEX))
"""What another scheduler's benchmark measures, too: `calibration.scale.foreign`."""
USUAL = tuple(Mode)[: 1 + tuple(Mode).index(Mode.REQUESTS)]
"""What docs/scale.md has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of a turn: `value` gives it in `base`, Prometheus' unit; people see it times `factor`, in `unit`."""

    name: str
    mode: Mode
    base: str
    unit: str
    factor: float
    more_is_better: bool
    what: str
    value: Callable[[Reading], float | None]
    before: str = ""  # what the same was called in the kept figures of the serial clock; "": not measured there

    @property
    def shown(self) -> str:
        """Its name with the unit that people see."""
        return f"{self.name}_{self.unit}"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Every mode once, under one scheduler."""

    scheduler: str
    round: int  # from 1: it was brought into force once a round
    play: int = 1  # within the round
    readings: dict[Mode, dict[str, int]]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one guest."""

    kernel: str
    cpus: int
    under: Conditions
    program: str  # scale.c's hash, compiled
    seconds: float  # of each mode
    versions: dict[str, str]  # by scheduler
    turns: tuple[Turn, ...] = ()
    troubles: tuple[str, ...] = ()

    @property
    def alike(self) -> bool:
        """CPUs of one kind, in one cluster, without a description."""
        return self.under.machine in {"", f"alike-{self.cpus}"}

    @property
    def label(self) -> str:
        """`8 CPUs`, `laptop-hybrid`, `8 CPUs, 250 Hz`."""
        name = f"{self.cpus} CPUs" if self.alike else self.under.machine
        return name if self.under.tick_hz == USUAL_HZ else f"{name}, {self.under.tick_hz} Hz"

    def continues(self, other: "Found") -> bool:
        """Is it the same measurement, which `other` began?"""
        return msgspec.structs.replace(self, turns=(), troubles=()) == msgspec.structs.replace(
            other, turns=(), troubles=()
        )

    def played(self, modes: Collection[Mode]) -> bool:
        """Has each turn these modes, and no other?"""
        return all(turn.readings.keys() == set(modes) for turn in self.turns)


USUAL_HZ = 1000
"""The tick that goes without saying."""


def write(found: Found, path: Path) -> None:
    """One file, whole."""
    files.replace(path, wire.json_bytes(found))


def read(path: Path) -> Found:
    """What `write` wrote. Raises AsaError."""
    try:
        return wire.from_json(path.read_bytes(), Found)
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: no samples of the scale benchmark: {error}") from error


def kept(folder: Path) -> list[Found]:
    """All records in a folder: the usual tick first, then CPUs alike before other machines. Raises AsaError."""
    found = [read(path) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise AsaError(f"{folder}: no records of the scale benchmark; run `asa lab bench scale`, or name a folder")
    return sorted(found, key=lambda one: (one.under.tick_hz != USUAL_HZ, not one.alike, one.cpus))


def _seconds(key: str) -> Callable[[Reading], float | None]:
    return lambda reading: None if key not in reading else reading[key] / 1e9


def share(part: str, whole: str) -> Callable[[Reading], float | None]:
    """Gives one value of a reading in terms of another one; None where either is unknown."""
    return lambda reading: reading[part] / reading[whole] if reading.get(whole) and part in reading else None


def latency(name: str, mode: Mode, key: str, what: str, before: str = "") -> Metric:
    """A metric of times, of which `key` names the one that counts, in ns."""
    return Metric(
        name=name,
        mode=mode,
        base="seconds",
        unit="ms",
        factor=1e3,
        more_is_better=False,
        what=what,
        value=_seconds(key),
        before=before,
    )


def per_second(what: str) -> Callable[[Reading], float | None]:
    """Gives how often something came in a second."""

    def value(reading: Reading) -> float | None:
        per_ns = share(what, "elapsed_ns")(reading)
        return None if per_ns is None else per_ns * 1e9

    return value


_WAKEUP = "time from a timer to the running of the task that it wakes up, beside one hog for each CPU"
_LATE = "lateness of periods of 2.3 ms, each that a task slept through by its own due time, beside the hogs"
_REQUEST = "two workers for each CPU, of a request with a pause of 0.1 ms and some computing"
_TRIP = "round trip of a byte through pipes between two processes, beside the hogs"
_TURN = "round trip of a turn by futex between two threads, beside the hogs"
_LAUNCH = "time of fork, exec, exit and wait of a small static program, beside the hogs"
METRICS = (
    Metric(
        name="throughput",
        mode=Mode.THROUGHPUT,
        base="jobs_per_second",
        unit="jobs_per_s",
        factor=1.0,
        more_is_better=True,
        what="small jobs that end, two at a time for each CPU, as in a build",
        value=per_second("jobs"),
        before="throughput",
    ),
    latency("wakeup_p50", Mode.WAKEUP, "p50_ns", f"median {_WAKEUP}"),
    latency("wakeup_p99", Mode.WAKEUP, "p99_ns", f"99th percentile of the {_WAKEUP}"),
    latency("late_p50", Mode.WAKEUP, "late_p50_ns", f"median {_LATE}", "wakeup_p50"),
    latency("late_p99", Mode.WAKEUP, "late_p99_ns", f"99th percentile of the {_LATE}", "wakeup_p99"),
    latency("burst_p99", Mode.BURST, "p99_ns", f"99th percentile of the {_WAKEUP} and storms of fork and exec"),
    latency(
        "burst_late_p99",
        Mode.BURST,
        "late_p99_ns",
        f"99th percentile of the {_LATE} and storms of fork and exec",
        "burst_p99",
    ),
    Metric(
        name="deadlines_missed",
        mode=Mode.DEADLINES,
        base="ratio",
        unit="pct",
        factor=100.0,
        more_is_better=False,
        what="periods of 16.7 ms that ended before their work, of four threads beside the hogs",
        value=share("missed", "periods"),
        before="deadlines_missed",
    ),
    Metric(
        name="deadlines_jittered",
        mode=Mode.DEADLINES,
        base="ratio",
        unit="pct",
        factor=100.0,
        more_is_better=False,
        what="periods of 16.7 ms whose task ran more than 0.5 ms after it was due, of four threads beside the hogs",
        value=share("jittered", "periods"),
    ),
    latency("pipe_p50", Mode.PIPE, "p50_ns", f"median {_TRIP}", "pipe_p50"),
    latency("pipe_p99", Mode.PIPE, "p99_ns", f"99th percentile of the {_TRIP}", "pipe_p99"),
    latency("futex_p50", Mode.FUTEX, "p50_ns", f"median {_TURN}", "futex_p50"),
    latency("futex_p99", Mode.FUTEX, "p99_ns", f"99th percentile of the {_TURN}", "futex_p99"),
    latency("launch_p50", Mode.LAUNCH, "p50_ns", f"median {_LAUNCH}", "launch_p50"),
    latency("launch_p99", Mode.LAUNCH, "p99_ns", f"99th percentile of the {_LAUNCH}", "launch_p99"),
    Metric(
        name="messages",
        mode=Mode.MESSAGING,
        base="messages_per_second",
        unit="messages_per_s",
        factor=1.0,
        more_is_better=True,
        what="messages through sockets, in groups of five senders that each send to five receivers, five threads a CPU",
        value=per_second("messages"),
    ),
    Metric(
        name="requests",
        mode=Mode.REQUESTS,
        base="requests_per_second",
        unit="requests_per_s",
        factor=1.0,
        more_is_better=True,
        what=f"requests served by {_REQUEST}",
        value=per_second("served"),
    ),
    latency("request_p99", Mode.REQUESTS, "p99_ns", f"99th percentile of the time of {_REQUEST}"),
    latency(
        "request_wakeup_p99",
        Mode.REQUESTS,
        "wakeup_p99_ns",
        "99th percentile of the time from a message thread's wakeup to its worker's running",
    ),
)

_BACK = "round trip of {} and back between two processes, beside the hogs"
_USUAL = {metric.name: metric for metric in METRICS}
ENERGY = "energy_nj"
"""In a reading, by `calibration.scale.foreign`: what the machine took meanwhile."""


def _energy(name: str, mode: Mode, operations: str, what: str) -> Metric:
    def value(reading: Reading) -> float | None:
        each_nj = share(ENERGY, operations)(reading)
        return None if each_nj is None else each_nj / 1e9

    return Metric(
        name=name, mode=mode, base="joules", unit="uJ", factor=1e6, more_is_better=False, what=what, value=value
    )


FOREIGN_METRICS = (
    _USUAL["wakeup_p99"],
    _USUAL["burst_p99"],
    latency(
        "newcomers_p99",
        Mode.NEWCOMERS,
        "p99_ns",
        "99th percentile of the same of tasks that begin in the storm, their first four wakeups",
    ),
    _USUAL["deadlines_missed"],
    _USUAL["launch_p99"],
    *(
        latency(f"{mode}_{short}", mode, f"{short}_ns", f"{words} {_BACK.format(by)}")
        for mode, by in (
            (Mode.PIPE, "a byte through pipes"),
            (Mode.SOCKET, "a byte through a pair of sockets"),
            (Mode.EVENTFD, "a count through eventfds"),
            (Mode.SEMAPHORE, "a turn by semaphores"),
        )
        for short, words in (("p50", "median"), ("p99", "99th percentile of the"))
    ),
    *(
        latency(
            f"fanout_{short}",
            Mode.FANOUT,
            f"{short}_ns",
            f"{words} time until one process for each CPU has answered a byte through a pipe, beside the hogs",
        )
        for short, words in (("p50", "median"), ("p99", "99th percentile of the"))
    ),
    _USUAL["messages"],
    Metric(
        name="idle_power",
        mode=Mode.IDLE,
        base="watts",
        unit="W",
        factor=1.0,
        more_is_better=False,
        what="power of the machine while nothing is asked of it, by its description",
        value=share(ENERGY, "took_ns"),
    ),
    Metric(
        name="idle_switches",
        mode=Mode.IDLE,
        base="switches_per_second",
        unit="switches_per_s",
        factor=1.0,
        more_is_better=False,
        what="context switches of the whole machine while nothing is asked of it",
        value=per_second("switches"),
    ),
    _energy("message_energy", Mode.MESSAGING, "messages", "energy of the machine for each message of `messages`"),
    _energy("request_energy", Mode.REQUESTS, "served", f"energy of the machine for each request of {_REQUEST}"),
    _energy("pipe_energy", Mode.PIPE, "samples", f"energy of the machine for each {_BACK.format('a byte by pipes')}"),
)
"""What PANDEMONIUM's benchmark measures, too."""
