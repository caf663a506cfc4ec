# SPDX-License-Identifier: GPL-2.0-only
"""What the scale benchmark measures, and what a guest hands to the host: one JSON file of turns.

Types, the table of metrics and the records' file; nothing is measured or judged here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from asa import wire
from asa.core.errors import AsaError

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

    @property
    def shown(self) -> str:
        """Its name with the unit that people see."""
        return f"{self.name}_{self.unit}"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler's turn: every mode once."""

    scheduler: str
    round: int  # from 1
    readings: dict[Mode, dict[str, int]]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one guest."""

    kernel: str
    cpus: int
    versions: dict[str, str]  # by scheduler
    turns: tuple[Turn, ...]
    troubles: tuple[str, ...]


def write(found: Found, path: Path) -> None:
    """One file, whole."""
    path.write_bytes(wire.json_bytes(found))


def read(path: Path) -> Found:
    """What `write` wrote. Raises AsaError."""
    try:
        return wire.from_json(path.read_bytes(), Found)
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: no samples of the scale benchmark: {error}") from error


def _seconds(key: str) -> Callable[[Reading], float | None]:
    return lambda reading: None if key not in reading else reading[key] / 1e9


def _share(part: str, whole: str) -> Callable[[Reading], float | None]:
    return lambda reading: reading[part] / reading[whole] if reading.get(whole) and part in reading else None


def _jobs_per_second(reading: Reading) -> float | None:
    per_ns = _share("jobs", "elapsed_ns")(reading)
    return None if per_ns is None else per_ns * 1e9


def _latency(name: str, mode: Mode, key: str, what: str) -> Metric:
    return Metric(
        name=name,
        mode=mode,
        base="seconds",
        unit="ms",
        factor=1e3,
        more_is_better=False,
        what=what,
        value=_seconds(key),
    )


_WAKEUP = "lateness of a wakeup that is due each 2.3 ms, beside one hog for each CPU"
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
        what="small jobs that end, one more at a time than CPUs, as in a build",
        value=_jobs_per_second,
    ),
    _latency("wakeup_p50", Mode.WAKEUP, "p50_ns", f"median {_WAKEUP}"),
    _latency("wakeup_p99", Mode.WAKEUP, "p99_ns", f"99th percentile of the {_WAKEUP}"),
    _latency("burst_p99", Mode.BURST, "p99_ns", f"99th percentile of the {_WAKEUP} and storms of fork and exec"),
    Metric(
        name="deadlines_missed",
        mode=Mode.DEADLINES,
        base="ratio",
        unit="pct",
        factor=100.0,
        more_is_better=False,
        what="periods of 16.7 ms that ended before their work, of four threads beside the hogs",
        value=_share("missed", "periods"),
    ),
    _latency("pipe_p50", Mode.PIPE, "p50_ns", f"median {_TRIP}"),
    _latency("pipe_p99", Mode.PIPE, "p99_ns", f"99th percentile of the {_TRIP}"),
    _latency("futex_p50", Mode.FUTEX, "p50_ns", f"median {_TURN}"),
    _latency("futex_p99", Mode.FUTEX, "p99_ns", f"99th percentile of the {_TURN}"),
    _latency("launch_p50", Mode.LAUNCH, "p50_ns", f"median {_LAUNCH}"),
    _latency("launch_p99", Mode.LAUNCH, "p99_ns", f"99th percentile of the {_LAUNCH}"),
)
