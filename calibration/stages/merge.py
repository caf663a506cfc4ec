# SPDX-License-Identifier: GPL-2.0-only
"""New runs of a class and what its table has of older ones, as one ranking with figures of both. Pure."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence

import msgspec
from scipy import stats

from asa.core.decision import EEVDF, SchedulerName
from asa.decide.table import Entry
from calibration.paired import LEVEL
from calibration.stages.ranking import NOISE_FIRST, SCORE_FLOOR, Cells, Expected, Ranked, fit, rounded

_SURE = 1e-3  # EEVDF is what gains are above: its own is 0
NORMAL_95 = 1.96
"""Standard errors from the middle of a 95 % interval to its end."""
_SEEN = 5e-4  # of a score, where it is written with three digits
_LATER = re.compile("; beside later runs of others [0-9.]+$")


def gains(entries: Sequence[Entry], more: float) -> dict[SchedulerName, Expected]:
    """What a ranking makes expect of its schedulers, above EEVDF; nothing of those without a score.

    `more` is the standard deviation by which a gain there may differ from the one here.
    """
    known = {entry.name: entry.score for entry in entries if entry.score is not None}
    if EEVDF not in known:
        return {}
    return {
        entry.name: Expected(gain=entry.score - known[EEVDF], error=math.hypot(_error(entry), more))
        for entry in entries
        if entry.score is not None and entry.name != EEVDF
    }


def merged(
    fresh: Sequence[Entry], own: Sequence[Ranked], old: Sequence[Entry], blocks: Cells, noise: float
) -> list[Entry]:
    """The ranking of all that either has a figure of, best first; then who has none, as they stood.

    `fresh` are the entries of `own`, which is what the new `blocks` show; `noise` is a cell's. Gains over EEVDF are
    weighed by their errors, older ones as they stand in the table. All scores are on one level, that of all runs: what
    older runs showed of schedulers that were not played again is moved there with them.
    """
    before = {entry.name: entry for entry in old if entry.score is not None}
    played = {one.name: one for one in own}
    entries = [entry for entry in fresh if entry.name in played]
    entries += [entry for entry in before.values() if entry.name not in played]
    names = tuple(entry.name for entry in entries)
    told = entries
    if EEVDF in before:  # else nothing says how far older and newer ones lie apart: new runs first
        expected = {**gains(old, 0.0), EEVDF: Expected(gain=0.0, error=_SURE)}
        found = fit(blocks, names, noise, expected)
        place = dict(zip(names, map(float, found.gains), strict=True))
        level = _level(blocks, before, place)
        errors = {name: None if name == EEVDF else found.difference(name, EEVDF)[1] for name in names}
        told = [
            _told(entry, before.get(entry.name), played.get(entry.name), level + place[entry.name], errors[entry.name])
            for entry in sorted(entries, key=lambda one: -round(place[one.name], 9))
        ]
    rest = {entry.name: entry for entry in (*old, *fresh) if entry.name not in names}  # without figures, in their order
    return [*told, *rest.values()]


def _error(entry: Entry) -> float:
    """Of what it has above EEVDF. A table of before that was kept has the interval of its score, which is wider."""
    if entry.error is not None:
        return entry.error
    half = _half(entry)
    if half is not None:
        return max(_SURE, half / NORMAL_95)
    return NOISE_FIRST / math.sqrt(entry.runs or 1)


def _level(blocks: Cells, before: Mapping[SchedulerName, Entry], place: Mapping[SchedulerName, float]) -> float:
    """What a scheduler that gains nothing has in all runs, old and new; moved where some score would leave 0 to 1."""
    values = [value - place[name] for row in blocks.values() for name, value in row.items() if name in place]
    weights = [1.0] * len(values)
    for name, entry in before.items():
        values.append((entry.score or 0.0) - place[name])
        weights.append(float(entry.runs or 1))
    level = statistics.fmean(values, weights)
    return max(min(level, 1.0 - max(place.values())), -min(place.values()))


def _told(entry: Entry, before: Entry | None, own: Ranked | None, score: float, error: float | None) -> Entry:
    """The entry with figures of both. Of one that was not played again only the level has moved."""
    moved = msgspec.structs.replace(entry, score=rounded(score), error=None if error is None else round(error, 5))
    if own is None:
        up = score - (entry.score or 0.0)
        ends = {
            name: None if end is None else rounded(end + up) for name, end in (("low", entry.low), ("high", entry.high))
        }
        why = f"{_LATER.sub('', entry.why)}; beside later runs of others {score:.3f}"
        return msgspec.structs.replace(moved, **ends, why=why)
    if before is None:
        half = None if own.low is None else own.mean - own.low
        ends = {"low": None if half is None else score - half, "high": None if half is None else score + half}
        why = entry.why if abs(score - own.mean) < _SEEN else f"{entry.why}; beside older runs of others {score:.3f}"
        return msgspec.structs.replace(moved, **{name: rounded(end) for name, end in ends.items()}, why=why)
    runs = before.runs or 1
    ends = _interval(before, runs, own.scores, score)
    why = f"{entry.why}; with the {runs} runs before these {score:.3f}"
    return msgspec.structs.replace(moved, **ends, runs=runs + own.runs, why=why)


def _half(entry: Entry) -> float | None:
    """Of its interval; the longer side, since the other one may end where scores end."""
    if entry.score is None or entry.low is None or entry.high is None:
        return None
    return max(entry.high - entry.score, entry.score - entry.low)


def _interval(before: Entry, runs: int, scores: Sequence[float], middle: float) -> dict[str, float | None]:
    """Of the mean of all runs, by their deviation around it; None where that of the older ones is not known."""
    none: dict[str, float | None] = {"low": None, "high": None}
    count = runs + len(scores)
    half = _half(before)
    if before.score is None or (runs > 1 and half is None) or count <= 2:
        return none
    older = 0.0
    if half is not None and runs > 1:
        error = half / float(stats.t.ppf(1.0 - LEVEL / 2.0, runs - 1))
        older = (runs - 1) * error**2 * runs
    mean = (runs * before.score + math.fsum(scores)) / count
    squares = older + runs * (before.score - mean) ** 2 + math.fsum((value - mean) ** 2 for value in scores)
    deviation = max(SCORE_FLOOR, math.sqrt(squares / (count - 1)))
    width = float(stats.t.ppf(1.0 - LEVEL / 2.0, count - 1)) * deviation / math.sqrt(count)
    return {"low": rounded(middle - width), "high": rounded(middle + width)}
