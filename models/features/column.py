# SPDX-License-Identifier: GPL-2.0-only
"""What a column is: its name, where it comes from, and of which rates it is made."""

from dataclasses import dataclass
from enum import StrEnum

from collectors.rates.procfs import AT_WORK


class Source(StrEnum):
    """What a column is read from, so that a report can leave it out."""

    CPU = "cpu"  # /proc/stat
    MEMORY = "memory"  # page faults, paging, and how fast parts of the memory grow and shrink
    DISK = "disk"
    NETWORK = "network"
    PSI = "psi"
    PROBES = "probes"  # eBPF
    DESKTOP = "desktop"  # GNOME's extension, or X11
    GPU = "gpu"
    GROUPS = "groups"  # control groups
    TIMER = "timer"
    PROCESSES = "processes"  # /proc/PID/stat of the busiest


class Whole(StrEnum):
    """What a value may be divided by beside other rates."""

    ONE = "one"
    CORE = "core"  # online cores
    BUSY_CORE = "busy core"  # the mean number of cores at work


@dataclass(frozen=True, slots=True)
class Sum:
    """Fields of Rates added up with their weights, less a constant but never below 0."""

    fields: tuple[str, ...]
    weights: tuple[float, ...] = ()  # of the fields; () is 1 for all
    less: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One number that the model sees: its name, what it is, where it comes from, whether it may tell the machine."""

    name: str
    sentence: str
    source: Source
    suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(Column):
    """A column of one tick: `factor * of / per`, 0 of nothing, then log1p if `log`."""

    of: Sum
    per: Sum | Whole = Whole.ONE
    factor: float = 1.0
    log: bool = True

    @property
    def sums(self) -> tuple[Sum, ...]:
        """Of which it is made."""
        per = BUSY if self.per is Whole.BUSY_CORE else self.per
        return tuple(one for one in (self.of, per) if isinstance(one, Sum))


BUSY = Sum(AT_WORK)
"""Share of the time at work."""


def plain(
    name: str, sentence: str, source: Source, of: str | Sum, per: Sum | Whole = Whole.ONE, *, suspect: bool = False
) -> Value:
    """A value as it is; `of` may be a field's name."""
    one = Sum((of,)) if isinstance(of, str) else of
    return Value(name=name, sentence=sentence, source=source, of=one, per=per, log=False, suspect=suspect)


def logged(
    name: str, what: str, source: Source, of: str | Sum, per: Sum | Whole = Whole.ONE, *, suspect: bool = False
) -> Value:
    """Its log1p; the sentence says so."""
    one = Sum((of,)) if isinstance(of, str) else of
    return Value(name=name, sentence=f"log1p of {what}", source=source, of=one, per=per, suspect=suspect)
