# SPDX-License-Identifier: GPL-2.0-only
"""What the base of programs and change points are worth and cost, on the kept sequences: docs/knowledge.md.

Each sequence is judged with a base of all others, so no seed has a part on both sides. Nothing is booted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from statistics import mean, median

from asa import paths
from asa.core.decision import EEVDF
from asa.core.errors import AsaError
from asa.core.regime import Load
from asa.decide import knowledge
from asa.decide.knowledge import Known
from calibration import kept
from calibration.goals import Named
from calibration.kept import Count
from calibration.knowledge import changes, costs, courses, light, loads, play
from calibration.knowledge.courses import Course
from calibration.knowledge.play import Way
from calibration.recognition import benchmark as recognition
from calibration.trials.recorded import journals
from calibration.voting import score
from calibration.voting.score import Score
from models.runtime import Ensemble

KEPT = Path(__file__).parents[1] / "results" / "knowledge.json"
LIES = range(1, 7)
"""Places that a kind is moved by in its half."""

_SCHEDULERS = (EEVDF, "scx_simple", "scx_bpfland", "scx_flash")  # that kept trials have of all pairs

_ALONE = Way(by_programs=False)
_RATES = Way(empties=play.by_rates)
_CLASSES = Way(empties=play.by_classes)
_SURE = Way(empties=partial(play.by_classes, bound=changes.SURE))
_FROZEN = Way(freezes=play.in_bursts)


class KnowledgeFigure(Named):
    """The figures, each with its goal."""

    KNOWN = (
        "recognise_known_program_s",
        "s",
        "to the right class for programs that were seen three times before, the median",
        "<=",
        1.2,
    )
    KNOWN_WITHOUT = "recognise_known_program_without_base_s", "s", "the same without the base"
    WRONG = (
        "known_wrong_prior_pct",
        "%",
        "ticks of programs that changed what they do, wrong for longer than 6 s",
        "<=",
        1.0,
    )
    ACCEPT = (
        "unknown_false_accept_gain_points",
        "points",
        "wrong kinds fewer, less right kinds fewer, if what was never seen were unknown",
        ">",
        0.0,
    )
    REACTION = "reaction_median_s", "s", "from a true change to the right class, with base and change points"
    ERROR = "voting_error_pct", "%", "ticks on a wrong class later than 6 s after a change, with both"
    REACTION_BASE = "reaction_median_without_change_points_s", "s", "the same with the base alone"
    ERROR_BASE = "voting_error_without_change_points_pct", "%", "the same with the base alone"
    REACTION_NONE = "reaction_median_without_base_s", "s", "the same with neither"
    ERROR_NONE = "voting_error_without_base_pct", "%", "the same with neither"
    REACTION_RATES = "reaction_median_cusum_rates_s", "s", "with both, and CUSUM on wakeups and forks"
    ERROR_RATES = "voting_error_cusum_rates_pct", "%", "the same"
    REACTION_CLASSES = "reaction_median_cusum_classes_s", "s", "with both, and CUSUM on the classes' probabilities"
    ERROR_CLASSES = "voting_error_cusum_classes_pct", "%", "the same"
    REACTION_SURE = "reaction_median_cusum_sure_s", "s", "the same, where no single tick is enough"
    ERROR_SURE = "voting_error_cusum_sure_pct", "%", "the same"
    REACTION_FROZEN = "reaction_median_frozen_s", "s", "with both, and no decision in a burst of forks"
    ERROR_FROZEN = "voting_error_frozen_pct", "%", "the same"
    LIGHT = "felt_in_light_pct", "%", "ticks of a light load in which a wait is felt: there a switch may gain something"
    HEAVY = "felt_in_heavy_pct", "%", "the same of a heavy load"
    QUIET_FRONT = "light_of_front_pct", "%", "ticks of uses without work behind in a light load without a felt wait"
    QUIET_BEHIND = "light_of_behind_pct", "%", "the same of uses with work behind"
    SWITCHES = (
        "switches_in_light",
        "switches",
        "ordered in ticks of a light load in which no wait is felt, and no evidence speaks of one",
        "<=",
        0.0,
    )
    REGIME = "regime_gain_pct", "%", "of the score, if loads were a dimension of the table", ">", 0.0
    MEMORY = "base_rss_mb", "MB", f"resident memory of {knowledge.MOST_PROGRAMS} programs", "<=", 2.0
    TICK = "tick_us_added", "us", "of a tick, mean: asking who works, learning, and speaking", "<=", 30.0


class Bench:
    """Plays what a figure needs when it is asked for, once."""

    def __init__(self, journals: Sequence[Path] = ()) -> None:
        shipped = paths.base_model().parents[1] / "recordings/sequences"
        self._journals = tuple(journals) or tuple(sorted(shipped.glob("*.journal.xz")))
        self._scores: dict[Way, Score] = {}

    def counts(self) -> Mapping[Named, Count]:
        """How each figure is measured."""
        without = Way(weight=0.0, by_programs=False)
        ways = {
            play.SHIPPED: (KnowledgeFigure.REACTION, KnowledgeFigure.ERROR),
            _ALONE: (KnowledgeFigure.REACTION_BASE, KnowledgeFigure.ERROR_BASE),
            without: (KnowledgeFigure.REACTION_NONE, KnowledgeFigure.ERROR_NONE),
            _RATES: (KnowledgeFigure.REACTION_RATES, KnowledgeFigure.ERROR_RATES),
            _CLASSES: (KnowledgeFigure.REACTION_CLASSES, KnowledgeFigure.ERROR_CLASSES),
            _SURE: (KnowledgeFigure.REACTION_SURE, KnowledgeFigure.ERROR_SURE),
            _FROZEN: (KnowledgeFigure.REACTION_FROZEN, KnowledgeFigure.ERROR_FROZEN),
        }
        made: dict[Named, Count] = {
            KnowledgeFigure.KNOWN: lambda: self._known(play.SHIPPED),
            KnowledgeFigure.KNOWN_WITHOUT: lambda: self._known(without),
            KnowledgeFigure.WRONG: self._wrong,
            KnowledgeFigure.ACCEPT: _never_seen,
            KnowledgeFigure.LIGHT: lambda: self._felt(Load.LIGHT),
            KnowledgeFigure.HEAVY: lambda: self._felt(Load.HEAVY),
            KnowledgeFigure.QUIET_FRONT: lambda: _quiet(behind=False),
            KnowledgeFigure.QUIET_BEHIND: lambda: _quiet(behind=True),
            KnowledgeFigure.SWITCHES: _in_light,
            KnowledgeFigure.REGIME: _by_loads,
            KnowledgeFigure.MEMORY: lambda: (costs.resident_mb(), "a process that reads them, grown by so much"),
            KnowledgeFigure.TICK: self._tick,
        }
        for way, (reaction, error) in ways.items():
            made |= {reaction: partial(self._reaction, way), error: partial(self._error, way)}
        return made

    @cached_property
    def _courses(self) -> list[Course]:
        found = courses.read(self._journals, Ensemble.load(paths.base_model()))
        if len(found) < 2:
            raise AsaError(f"{len(found)} sequences; two are needed: record some by `asa lab record --sequence`")
        return found

    @cached_property
    def _bases(self) -> list[Mapping[int, Known]]:
        return [play.learn([other for other in self._courses if other is not one]) for one in self._courses]

    def _known(self, way: Way) -> tuple[float, str]:
        found = [
            delay
            for course, base in zip(self._courses, self._bases, strict=True)
            for delay in play.known_delays(course, play.played(course, base, way).standing, base)
        ]
        if not found:
            raise AsaError("no use of these sequences is of programs that the others have three times")
        return median(found), f"{len(found)} changes, the mean {mean(found):.2f} s, the longest {max(found):.1f} s"

    def _wrong(self) -> tuple[float, str]:
        shares = {shift: self._wrong_pct(shift) for shift in (0, *LIES)}
        worst = max(LIES, key=lambda shift: shares[shift])
        return (
            shares[worst],
            f"the worst of {len(LIES)} bases; mean {mean(shares[one] for one in LIES):.2f}, true base {shares[0]:.2f}",
        )

    def _wrong_pct(self, shift: int) -> float:
        wrong = total = 0
        for course, base in zip(self._courses, self._bases, strict=True):
            wall_ns = course.ticks[0].sample.wall_ns
            told = {number for number, one in base.items() if knowledge.told(one, wall_ns) is not None}
            named = play.played(course, play.lied(base, shift) if shift else base).named
            more, ticks = play.wrong_for_long(course, named, told)
            wrong, total = wrong + more, total + ticks
        return 100.0 * wrong / total

    def _score(self, way: Way) -> Score:
        if way not in self._scores:
            pairs = zip(self._courses, self._bases, strict=True)
            self._scores[way] = score.score(
                play.tally(one, play.played(one, base, way).standing) for one, base in pairs
            )
        return self._scores[way]

    def _reaction(self, way: Way) -> tuple[float, str]:
        found = self._score(way)
        assert found.median_s is not None  # noqa: S101  # sequences have changes
        return found.median_s, f"{found.changes} changes, {found.missed} missed"

    def _error(self, way: Way) -> tuple[float, str]:
        found = self._score(way)
        assert found.error_pct is not None  # noqa: S101  # and more than 6 s after them
        return found.error_pct, f"lost {found.lost_pct:.1f} % of all ticks, {found.flaps_per_min:.2f} flaps a minute"

    @cached_property
    def _waits(self) -> Mapping[Load, tuple[int, int]]:
        return light.felt(journals())

    def _felt(self, load: Load) -> tuple[float, str]:
        hits, ticks = self._waits.get(load, (0, 0))
        if not ticks:
            raise AsaError(f"no tick of a {load} load in the recordings")
        return 100.0 * hits / ticks, f"{ticks} ticks of real programs under EEVDF"

    def _tick(self) -> tuple[float, str]:
        collector, looking = costs.collector_us(self._journals)
        pure = costs.pure_us(self._courses, self._bases[0])
        parts = f"{collector:.1f} of the collector, {pure:.1f} of the pure part"
        return collector + pure, f"{parts}; {looking:.1f} more where nobody asks for packages"


def _in_light() -> tuple[float, str]:
    told = []
    ordered = ticks = 0
    for measured, table in ((False, "the shipped table"), (True, "a table that was measured under more load")):
        found, ticks = light.orders(journals(), measured=measured)
        without, _ = light.orders(journals(), measured=measured, gate=False)
        ordered += found
        told.append(f"{table}: {found}, without the gate {without}")
    return float(ordered), f"in {ticks} ticks of each; {'; '.join(told)}"


def _quiet(*, behind: bool) -> tuple[float, str]:
    hits, ticks = light.quiet(journals())[behind]
    return 100.0 * hits / ticks, f"{ticks} ticks of real programs under EEVDF"


def _by_loads() -> tuple[float, str]:
    found = loads.pairs(KEPT.parent, loads.of_pairs(journals()), _SCHEDULERS)
    if not found:
        raise AsaError(f"{KEPT.parent}: no trials of the lab by {', '.join(_SCHEDULERS)}; run `asa lab bench run`")
    gain, others = loads.gain_pct(found)
    counts = Counter(one.load for one in found)
    return (
        gain,
        f"{len(found)} pairs, {counts[Load.MIXED]} mixed, {counts[Load.HEAVY]} heavy; {others} chosen otherwise",
    )


def _never_seen() -> tuple[float, str]:
    # every program that was held out is new: both its right and its wrong kinds would go
    found = kept.read(recognition.KEPT)
    values = {} if found is None else found.values
    wrong, right = values.get("wrong_kind_pct"), values.get("kind_right_voted_pct")
    if wrong is None or right is None:
        raise AsaError(f"{recognition.KEPT}: no wrong_kind_pct or kind_right_voted_pct; run `make bench-recognition`")
    return wrong - right, f"of programs held out {wrong:.1f} % are of a wrong kind and {right:.1f} % right after voting"
