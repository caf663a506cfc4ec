# SPDX-License-Identifier: GPL-2.0-only
"""Penalties of schedulers on this machine: which are barred, for which class, until when and why.

A **mark** is made by the guard's verdict (for one class: the bar doubles with each revert and a revert is forgotten
for each `FADE_S` after its end) or by failures (for all classes, until the user lifts it). A new version of the
scheduler's file clears either. Marks are kept over restarts, so their times are CLOCK_REALTIME. The functions are
pure but `load` and `save`. Nothing is decided here: `asa.decide.policy` asks `barred`.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import kept_file

FIRST_S = 600.0
"""The bar after the first revert of a scheduler in a class; doubles with each one. A first choice."""
MOST_S = 604_800.0
"""The longest bar: a week. A first choice."""
FADE_S = 604_800.0
"""One revert is forgotten each time so much has passed since the bar ended. A first choice."""
MOST_MARKS = 512
"""The one that ends first goes when there are more: some forty classes times as many schedulers never come near."""
MOST_REVERTS = 64
"""Counted no further: long before, the bar is `MOST_S`."""


class Cause(StrEnum):
    """Why a scheduler is barred."""

    REVERTED = "reverted"  # the guard found it worse, for one class
    FAILED = "failed"  # it ended by itself too often


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scheduler's, with its mode. `count` reverts (or failures) led to it."""

    scheduler: str
    cause: Cause
    version: str  # of the scheduler's file (a hash) that earned it; "" for unknown: then every version is barred
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_REVERTS)]
    at_ns: int
    until_ns: int | None  # None: until lifted, or another version
    why: str
    workload: str | None = None  # None: all classes


class Bars(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All marks of this machine, at most one for each (class, scheduler, cause)."""

    version: Literal[1] = 1  # of the file's format
    marks: tuple[Mark, ...] = ()


def lower(
    bars: Bars,
    *,
    workload: Workload,
    scheduler: SchedulerName,
    version: str,
    wall_ns: int,
    why: str,
) -> Bars:
    """After a revert: bar `scheduler` for `workload`, twice as long as the last time. EEVDF is never barred."""
    if scheduler == EEVDF:
        return bars
    earlier = _find(bars, scheduler, workload, Cause.REVERTED)
    count = 1
    if earlier is not None and _of(earlier, version):
        count += _reverts_left(earlier, wall_ns)
    count = min(count, MOST_REVERTS)
    penalty_s = min(FIRST_S * 2 ** (count - 1), MOST_S)
    mark = Mark(
        scheduler=scheduler,
        cause=Cause.REVERTED,
        version=version,
        count=count,
        at_ns=wall_ns,
        until_ns=wall_ns + int(penalty_s * 1e9),
        why=why,
        workload=workload,
    )
    return _with(bars, mark, instead_of=earlier)


def put_off(bars: Bars, *, scheduler: SchedulerName, version: str, wall_ns: int, why: str, count: int = 1) -> Bars:
    """After `count` failures: bar `scheduler` for all classes, until `lift` or another version. Never EEVDF."""
    if scheduler == EEVDF:
        return bars
    mark = Mark(
        scheduler=scheduler,
        cause=Cause.FAILED,
        version=version,
        count=min(max(1, count), MOST_REVERTS),
        at_ns=wall_ns,
        until_ns=None,
        why=why,
    )
    return _with(bars, mark, instead_of=_find(bars, scheduler, None, Cause.FAILED))


def lift(bars: Bars, scheduler: SchedulerName | None = None) -> Bars:
    """The user trusts a scheduler (None: all) again: its marks are gone, in all its modes if no mode is named."""
    if scheduler is None:
        return Bars()
    kept = tuple(mark for mark in bars.marks if not SchedulerName(mark.scheduler).answers_to(scheduler))
    return Bars(marks=kept)


def barring(bars: Bars, workload: Workload | None, wall_ns: int, versions: Mapping[str, str]) -> tuple[Mark, ...]:
    """Marks in force for a class (None: for any or all of them), to explain them.

    `versions`: the manifest's name, without a mode, -> the version that is installed now. A scheduler that is not in it
    keeps its marks.
    """
    return tuple(
        mark
        for mark in bars.marks
        if (workload is None or mark.workload is None or mark.workload == workload)
        and (mark.until_ns is None or wall_ns < mark.until_ns)
        and _still_installed(mark, versions)
    )


def barred(bars: Bars, workload: Workload, wall_ns: int, versions: Mapping[str, str]) -> frozenset[SchedulerName]:
    """Schedulers, with their mode, that may not serve a class now. `versions` as in `barring`."""
    if not bars.marks:  # nearly always, and this is asked every tick
        return frozenset()
    return frozenset(SchedulerName(mark.scheduler) for mark in barring(bars, workload, wall_ns, versions))


def refresh(bars: Bars, *, wall_ns: int, versions: Mapping[str, str]) -> Bars:
    """Without the marks that are faded or belong to another version; to be done at start and now and then.

    A mark from the future was made while the clock was wrong: it is taken as made now.
    """
    kept = []
    for mark in bars.marks:
        if not _still_installed(mark, versions):
            continue
        left = mark
        if mark.at_ns > wall_ns:
            until_ns = None if mark.until_ns is None else wall_ns + mark.until_ns - mark.at_ns
            left = msgspec.structs.replace(mark, at_ns=wall_ns, until_ns=until_ns)
        if left.until_ns is None or _reverts_left(left, wall_ns):
            kept.append(left)
    return Bars(marks=tuple(kept))


def load(path: Path) -> Bars:
    """What `save` wrote; a missing file is an empty bars. Raises InputError for a damaged or unreadable one."""
    return kept_file.load(path, Bars, "a bars")


def save(path: Path, bars: Bars) -> None:
    """Replace the file as a whole, on the disk when this returns. Raises AsaError; the old file is then untouched."""
    kept_file.save(path, bars, "the bars of schedulers")


def _find(bars: Bars, scheduler: str, workload: str | None, cause: Cause) -> Mark | None:
    key = (scheduler, workload, cause)
    return next((mark for mark in bars.marks if (mark.scheduler, mark.workload, mark.cause) == key), None)


def _with(bars: Bars, mark: Mark, *, instead_of: Mark | None) -> Bars:
    others = [other for other in bars.marks if other is not instead_of]
    if len(others) >= MOST_MARKS:
        timed = [other for other in others if other.until_ns is not None] or others
        others.remove(min(timed, key=lambda other: other.until_ns or 0))
    return Bars(marks=(*others, mark))


def _reverts_left(mark: Mark, wall_ns: int) -> int:
    """How many of a mark's reverts are not forgotten yet."""
    if mark.until_ns is None:
        return mark.count
    since_ns = max(0, wall_ns - mark.until_ns)
    return max(0, mark.count - int(since_ns / 1e9 / FADE_S))


def _of(mark: Mark, version: str) -> bool:
    return not mark.version or not version or mark.version == version


def _still_installed(mark: Mark, versions: Mapping[str, str]) -> bool:
    return _of(mark, versions.get(SchedulerName(mark.scheduler).bare, ""))
