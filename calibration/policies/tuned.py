# SPDX-License-Identifier: GPL-2.0-only
"""What searches of flags came to, by the outcomes that are kept in `calibration/results/tuning`. Plays nothing.

`asa lab tune` writes an outcome; a copy there counts. The names of the files say nothing.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path

from asa.core.errors import AsaError
from calibration.tuning import outcome
from calibration.tuning.outcome import Outcome
from calibration.tuning.tune import Method

KEPT = Path(__file__).parents[1] / "results/tuning"
_STUDYS = "messages"  # like the study's hackbench


def confirmed(kept: Sequence[Outcome]) -> tuple[float, str]:
    """How many became policies that another machine than the search's confirmed. Raises AsaError without a search."""
    races = [f"{_name(one)} {_said(one)}" for one in _raced(kept)]
    sure = wanted(kept)
    return float(len(sure)), f"of {len(kept)} searches: {'; '.join(races) or 'none was raced'}"


def gain_median_pct(kept: Sequence[Outcome]) -> tuple[float, str]:
    """Of those, over their scheduler without flags. Raises AsaError where none was confirmed."""
    sure = wanted(kept)
    gains = [one.race.gain_pct for one in sure if one.race is not None]
    if not gains:
        raise AsaError(f"of {len(kept)} searches none was confirmed on another machine")
    fell = [one.race.regression_pct for one in _raced(kept) if one.race is not None]
    return statistics.median(gains), (
        f"{min(gains):.1f} to {max(gains):.1f} %; searches had it {statistics.median(fell):.1f} points too good, "
        f"by the median of {len(fell)} races"
    )


def trials(kept: Sequence[Outcome], method: Method) -> tuple[float, str]:
    """How many executions a method took to find its best, in the study's own experiment. Raises AsaError."""
    (mine,) = _of_study(kept, method)
    told = [gain for gain in mine.gains_pct if gain is not None]
    words = f"{mine.scheduler}: best {max(told):+.2f} % of {len(told)} executions"
    other = Method.PSO if method is Method.GOLDEN else Method.GOLDEN
    for one in _matching(kept, other, mine):
        best = max(gain for gain in one.gains_pct if gain is not None)
        soon = [place for place, gain in enumerate(mine.gains_pct, 1) if gain is not None and gain >= best]
        words += f"; {other}'s best, {best:+.2f} %, " + (f"was reached after {soon[0]}" if soon else "was not reached")
    if mine.race is not None:
        words += f"; on fresh seeds {mine.race.gain_pct:+.2f} %, {mine.race.verdict}"
    return float(mine.best_after), words


def screen_agreement(kept: Sequence[Outcome]) -> tuple[float, str]:
    """Flags that a screening found to matter, and that a search set: on the same side of their range? In per cent.

    Raises AsaError where no flag was judged by both.
    """
    agreed, judged = [], []
    for screening in kept:
        for search in kept:
            if not screening.effects or search.effects or _subject(screening) != _subject(search):
                continue
            for effect in screening.effects:
                side = search.upper.get(effect.flag)
                if effect.matters and side is not None:
                    judged.append(f"{search.scheduler} {effect.flag}")
                    agreed.append(side == (effect.effect > 0.0))
    if not judged:
        raise AsaError(f"of {len(kept)} searches no flag was judged by a screening and by a search of one use")
    return 100.0 * sum(agreed) / len(agreed), f"of {', '.join(judged)}"


def _of_study(kept: Sequence[Outcome], method: Method) -> list[Outcome]:
    found = [one for one in kept if (one.workload, one.method) == (_STUDYS, method) and any(one.gains_pct)]
    if not found:
        raise AsaError(
            f"no {method} by {_STUDYS} is kept; run `asa lab tune --policy scx_bpfland --class {_STUDYS} "
            f"--method {method} --rounds 2 --out DIR`, and copy DIR/{outcome.FILE} into {KEPT.name}"
        )
    return found[:1]


def _matching(kept: Sequence[Outcome], method: Method, like: Outcome) -> list[Outcome]:
    return [one for one in kept if one.method is method and _subject(one) == _subject(like) and any(one.gains_pct)]


def _subject(one: Outcome) -> tuple[str, str, str]:
    return one.scheduler, one.workload, one.machine


def _raced(kept: Sequence[Outcome]) -> list[Outcome]:
    return [one for one in kept if one.race is not None]


def wanted(kept: Sequence[Outcome]) -> list[Outcome]:
    """Those that became policies, and that another machine than the search's confirmed. Of one policy the surer."""
    found: dict[str, Outcome] = {}
    for one in kept:
        if one.policy is not None and one.elsewhere:
            other = found.setdefault(one.policy, one)
            found[one.policy] = max(one, other, key=_surely)
    return list(found.values())


def _surely(one: Outcome) -> float:
    return one.race.interval_pct[0] if one.race is not None else 0.0


def _name(one: Outcome) -> str:
    return f"{one.scheduler} {one.workload} by {one.method}"


def _said(one: Outcome) -> str:
    if one.race is None:
        return "not raced"
    low, high = one.race.interval_pct
    return f"{one.race.gain_pct:+.1f} % ({low:+.1f} to {high:+.1f}, {one.race.verdict})"
