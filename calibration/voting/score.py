# SPDX-License-Identifier: GPL-2.0-only
"""What a filter is worth on streams of known truth: how soon it answers a change, and how often it is wrong. Pure.

A change is answered when the right class stands and goes on to for `HOLD_S`, or until the span ends; the time counts
from when all of the new scenario works, and is 0 when it was recognised while it still came up. One never answered
counts with the whole span. An error is a tick on a wrong class later than `allowed_s` after the change. While
applications come and go nothing is judged.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from asa.core.decision import Workload
from calibration.voting import filters
from calibration.voting.filters import Filter
from calibration.voting.streams import Span, Stream

HOLD_S = 3.0
ALLOWED_S = 6.0
"""The window of the paper's best point: what comes later is no delay any more."""

FLAP_TICKS = 1.0
"""What a change to a wrong class costs beside the ticks that it lasts: the shortest cooldown after a switch."""

Key = Callable[[Workload], str]
"""What a class is judged by: itself, or the scheduler that serves it."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was counted on one stream."""

    delays_s: list[float] = field(default_factory=list)  # of each change, until it is answered for good
    firsts_s: list[float] = field(default_factory=list)  # until the right class stands for the first time
    signs_s: list[float] = field(default_factory=list)  # as `delays_s`, from the first sign of the change
    missed: int = 0
    ticks: int = 0  # in a span
    wrong: int = 0  # of them
    late_ticks: int = 0  # in a span, later than what is allowed
    late_wrong: int = 0
    flaps: int = 0  # changes of the standing class, to a wrong one

    @property
    def lost(self) -> float:
        """Ticks on a wrong class, and what its flaps cost."""
        return self.wrong + self.flaps * FLAP_TICKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Over several streams. None: nothing to tell it by."""

    changes: int
    missed: int
    ticks: int
    median_s: float | None
    p95_s: float | None
    first_median_s: float | None  # until the right class stands for the first time
    sign_median_s: float | None  # from the first sign of the change, while applications still come and go
    error_pct: float | None  # of the ticks later than allowed: those on a wrong class
    wrong_pct: float | None  # of all ticks: delays and errors in one figure
    lost_pct: float | None  # the same with what flaps cost
    flaps_per_min: float | None


def tally(rule: Filter, stream: Stream, *, allowed_s: float = ALLOWED_S, key: Key = str) -> Tally:
    """Run a filter over a stream from a fresh start."""
    stood = filters.run(rule, stream.ticks)
    times = [now_ns for now_ns, _ in stream.ticks]
    found = Tally()
    last: Span | None = None
    for span in stream.spans:
        first, start, end = (bisect_left(times, at_ns) for at_ns in (span.changes_ns, span.start_ns, span.end_ns))
        changed = last is None or key(last.workload) != key(span.workload)
        seen = [
            (now_ns, _right(one, span, key)) for now_ns, one in zip(times[first:end], stood[first:end], strict=True)
        ]
        judged = seen[start - first :]
        _count(found, span, judged, allowed_s if changed else 0.0)
        found.flaps += _flaps(stood[max(0, start - 1) : end], [right for _, right in judged], key)
        if judged and last is not None and changed:
            _time(found, span, seen)
        last = span
    return found


def _right(standing: Workload | None, span: Span, key: Key) -> bool:
    return standing is not None and key(standing) == key(span.workload)


def _flaps(stood: Sequence[Workload | None], right: Sequence[bool], key: Key) -> int:
    # `stood` has one tick more, before the first; from nothing to a class is a start
    pairs = list(pairwise(stood))[-len(right) :] if right else []
    return sum(
        not fits and None not in pair and key(pair[0] or Workload("")) != key(pair[1] or Workload(""))
        for pair, fits in zip(pairs, right[-len(pairs) :] if pairs else [], strict=True)
    )


def _count(found: Tally, span: Span, seen: Sequence[tuple[int, bool]], allowed_s: float) -> None:
    for now_ns, right in seen:
        late = now_ns > span.start_ns + allowed_s * 1e9
        found.ticks += 1
        found.wrong += not right
        found.late_ticks += late
        found.late_wrong += late and not right


def _time(found: Tally, span: Span, seen: Sequence[tuple[int, bool]]) -> None:
    # `seen` begins with the first sign of the change: what was right by then, and stayed so, has no delay
    first_ns = next((now_ns for now_ns, right in seen if right and now_ns >= span.start_ns), span.end_ns)
    began_ns: int | None = None
    for now_ns, right in seen:
        began_ns = (now_ns if began_ns is None else began_ns) if right else None
        if began_ns is not None and now_ns >= span.start_ns and now_ns - began_ns >= HOLD_S * 1e9:
            break
    found.missed += began_ns is None
    answered_ns = span.end_ns if began_ns is None else began_ns
    found.delays_s.append(max(0, answered_ns - span.start_ns) / 1e9)
    found.firsts_s.append(max(0, min(first_ns, answered_ns) - span.start_ns) / 1e9)
    found.signs_s.append((answered_ns - span.changes_ns) / 1e9)


def score(tallies: Iterable[Tally], interval_s: float = 1.0) -> Score:
    """Over all of these."""
    every = list(tallies)
    delays = [value for one in every for value in one.delays_s]
    signs = [value for one in every for value in one.signs_s]
    firsts = [value for one in every for value in one.firsts_s]
    ticks = sum(one.ticks for one in every)
    late = sum(one.late_ticks for one in every)
    flaps = sum(one.flaps for one in every)
    return Score(
        changes=len(delays),
        missed=sum(one.missed for one in every),
        ticks=ticks,
        median_s=float(np.median(delays)) if delays else None,
        p95_s=float(np.percentile(delays, 95)) if delays else None,
        first_median_s=float(np.median(firsts)) if firsts else None,
        sign_median_s=float(np.median(signs)) if signs else None,
        error_pct=100.0 * sum(one.late_wrong for one in every) / late if late else None,
        wrong_pct=100.0 * sum(one.wrong for one in every) / ticks if ticks else None,
        lost_pct=100.0 * sum(one.lost for one in every) / ticks if ticks else None,
        flaps_per_min=flaps / (ticks * interval_s / 60.0) if ticks else None,
    )


def judge(rule: Filter, streams: Sequence[Stream], *, allowed_s: float = ALLOWED_S, key: Key = str) -> Score:
    """`tally` and `score` of all streams."""
    return score(tally(rule, stream, allowed_s=allowed_s, key=key) for stream in streams)


def difference_pct(
    one: Sequence[Tally], other: Sequence[Tally], *, seed: int = 1, draws: int = 2000
) -> tuple[float, float, float] | None:
    """How much more `one` loses than `other`, in per cent of the ticks, with its 95 % interval: a bootstrap over whole
    streams, the same for both. None with fewer than two streams."""
    if len(one) != len(other) or len(one) < 2:
        return None
    lost = np.array([first.lost - second.lost for first, second in zip(one, other, strict=True)], dtype=np.float64)
    ticks = np.array([first.ticks for first in one], dtype=np.float64)
    if not ticks.sum():
        return None
    picks = np.random.default_rng(seed).integers(len(lost), size=(draws, len(lost)))
    shares = 100.0 * lost[picks].sum(axis=1) / np.maximum(1.0, ticks[picks].sum(axis=1))
    low, high = np.percentile(shares, (2.5, 97.5))
    return float(100.0 * lost.sum() / ticks.sum()), float(low), float(high)
