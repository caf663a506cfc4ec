# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps the filters' parameters: chosen on some sessions, reported on others, each method at its best.

The rule, fixed before a model of the 40 labels was there: of the points that reach most of the two goals
(`MOST_ERROR_PCT`, `MOST_MEDIAN_S`) the one that loses least, in ticks on a wrong class (delays and errors alike) and
flaps; then the shorter P95. The best method replaces the paper's only if it loses clearly less on the sessions that
nothing was chosen on.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from asa.config import Voting
from asa.core.errors import ModelError
from asa.decide import voting
from calibration.voting import filters
from calibration.voting import score as voting_score
from calibration.voting.filters import Filter, Memory, Method
from calibration.voting.score import ALLOWED_S, Key, Score, Tally
from calibration.voting.streams import Stream, changes

MOST_ERROR_PCT = 3.0
MOST_MEDIAN_S = 3.5
"""The paper's best points (Figure 7): error rate and delay at a window of 4 to 7 s."""

_WINDOWS_S = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 16.0, 20.0)

GRID: Mapping[Method, Mapping[str, tuple[float, ...]]] = {
    Method.NONE: {},
    Method.MEAN: {"window_s": _WINDOWS_S},
    Method.MAJORITY: {"window_s": _WINDOWS_S},
    Method.SMOOTHING: {"memory_s": (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)},
    Method.TIME_WEIGHTED: {"window_s": _WINDOWS_S, "threshold": (0.1, 0.3, 0.5), "decay": (0.6, 0.8, 1.0)},
    Method.MARKOV: {
        "dwell_s": (30.0, 120.0, 600.0, 3600.0),
        "trust": (0.3, 0.6, 1.0),
        "least": (0.001, 0.01, 0.05),
        "certainty": (0.5, 0.8, 0.95),
    },
    Method.CHANGE_POINT: {
        "bound": (1.5, 3.0, 4.5, 6.0, 9.0, 12.0, 16.0),
        "drift": (0.0, 0.5, 1.0),
        "least": (0.003, 0.03),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting of one method, and what it is worth on the sessions to choose by."""

    method: Method
    parameters: Mapping[str, float]
    score: Score

    def make(self) -> Filter:
        """The filter."""
        return filters.make(self.method, **self.parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A method at its best."""

    point: Point
    reported: Score  # on the sessions that nothing was chosen on
    tick_us: float  # what it takes, mean
    against_paper_pct: tuple[float, float, float] | None  # more of its ticks lost than by the paper's; 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All of it. `best` is what the rule chose over all methods, `default` what comes of it; `shipped` is what an agent
    without settings of its own does."""

    points: tuple[Point, ...]
    chosen: Mapping[Method, Chosen]
    shipped: Chosen
    best: Method
    default: Method
    validation: int  # streams
    reported: int
    reported_changes: int


def settings(method: Method) -> Iterator[dict[str, float]]:
    """All of a method's grid."""
    grid = GRID[method]
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def sweep(
    validation: Sequence[Stream],
    others: Sequence[Stream],
    *,
    methods: Sequence[Method] = tuple(Method),
    allowed_s: float = ALLOWED_S,
    key: Key = str,
    say: Callable[[str], None] = lambda _line: None,
) -> Sweep:
    """Choose on `validation`, report on `others`. Raises ModelError when they share a group or one has no change."""
    shared = {one.group for one in validation} & {one.group for one in others}
    if shared:
        raise ModelError(f"the sessions of {sorted(shared)[0]!r} are on both sides: what chooses may not report")
    for name, streams in (("to choose by", validation), ("to report on", others)):
        if not changes(streams):
            raise ModelError(f"{len(streams)} sessions {name}, no change of the workload in them; record sequences")

    def judged(method: Method, values: Mapping[str, float]) -> Point:
        found = voting_score.judge(filters.make(method, **values), validation, allowed_s=allowed_s, key=key)
        return Point(method=method, parameters=values, score=found)

    def reported(point: Point) -> list[Tally]:
        return [voting_score.tally(point.make(), stream, allowed_s=allowed_s, key=key) for stream in others]

    points = []
    for method in methods:
        points += [judged(method, values) for values in settings(method)]
        say(f"{method}: {sum(one.method is method for one in points)} settings on {len(validation)} sessions")
    at_best = {method: choose([one for one in points if one.method is method]) for method in methods}
    tallies = {method: reported(point) for method, point in at_best.items()}
    paper = tallies.get(Method.TIME_WEIGHTED)

    def chose(point: Point, found: Sequence[Tally]) -> Chosen:
        return Chosen(
            point=point,
            reported=voting_score.score(found),
            tick_us=tick_us(point.make(), others),
            against_paper_pct=_against(found, paper),
        )

    chosen = {method: chose(point, tallies[method]) for method, point in at_best.items()}
    shipped = judged(Method(Voting().method), shipped_parameters())
    best = choose(list(at_best.values())).method
    return Sweep(
        points=tuple(points),
        chosen=chosen,
        shipped=chose(shipped, reported(shipped)),
        best=best,
        default=best if clearly_better(chosen, best) else Method.TIME_WEIGHTED,
        validation=len(validation),
        reported=len(others),
        reported_changes=chosen[best].reported.changes,
    )


def shipped_parameters() -> dict[str, float]:
    """Of the paper's voting, as an agent without settings uses it."""
    settings = Voting()
    return {"window_s": settings.window_s, "threshold": settings.threshold, "decay": voting.DECAY}


def choose(points: Sequence[Point]) -> Point:
    """By the rule above; the first of several that are alike."""

    def worth(point: Point) -> tuple[float, ...]:
        found = point.score
        missed = (_or_most(found.error_pct) > MOST_ERROR_PCT) + (_or_most(found.median_s) > MOST_MEDIAN_S)
        return (float(missed), *(_or_most(one) for one in (found.lost_pct, found.p95_s, found.median_s)))

    return min(points, key=worth)


def clearly_better(chosen: Mapping[Method, Chosen], method: Method) -> bool:
    """Whether it loses less than the paper's on sessions that nothing was chosen on, beyond chance, and is not more
    often in error, or within what is allowed."""
    paper = chosen.get(Method.TIME_WEIGHTED)
    if paper is None:
        return True
    one = chosen[method]
    between = one.against_paper_pct
    bound = max(MOST_ERROR_PCT, _or_most(paper.reported.error_pct))
    return between is not None and between[2] < 0.0 and _or_most(one.reported.error_pct) <= bound


def tick_us(rule: Filter, streams: Sequence[Stream], most: int = 500) -> float:
    """Mean time of one `push`, in microseconds, over at most so many ticks; 0 without any."""
    ticks = [tick for stream in streams for tick in stream.ticks][:most]
    memory, standing = Memory(), None
    start_ns = time.perf_counter_ns()
    for now_ns, probabilities in ticks:
        memory = rule.push(memory, now_ns, probabilities, standing)
        standing = memory.vote.workload or standing
    return (time.perf_counter_ns() - start_ns) / 1e3 / len(ticks) if ticks else 0.0


def curve(found: Sweep) -> list[Point]:
    """The paper's Figure 7: time-weighted voting by its window, its other parameters as chosen."""
    chosen = found.chosen[Method.TIME_WEIGHTED].point.parameters
    same = [name for name in chosen if name != "window_s"]
    return [
        point
        for point in found.points
        if point.method is Method.TIME_WEIGHTED and all(point.parameters[name] == chosen[name] for name in same)
    ]


def _against(tallies: Sequence[Tally], paper: Sequence[Tally] | None) -> tuple[float, float, float] | None:
    return None if paper is None or paper is tallies else voting_score.difference_pct(tallies, paper)


def _or_most(value: float | None) -> float:
    return float("inf") if value is None else value
