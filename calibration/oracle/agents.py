# SPDX-License-Identifier: GPL-2.0-only
"""The agent's figures, by the rounds that it was played in beside EEVDF, and by the matrix of who can be chosen.

Pure. With fewer rounds than a difference of 3 % needs (`enough`) a figure is unknown.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from asa.core.errors import ModelError
from calibration.controllers.columns import AGENT, FRESH, LEARNT
from calibration.oracle import choices, rivals
from calibration.oracle.choices import OWN, Cell, Rule
from calibration.oracle.enough import Enough, enough
from calibration.oracle.rivals import Chooser
from calibration.oracle.rounds import Round

LARGE_PCT = 5.0
"""A gain of the oracle that the agent is expected to find."""

_PLAY = "is kept; run `make evaluate` (`asa lab bench matrix --step agent`)"
_LACKING = {
    FRESH: f"no run of a fresh installation {_PLAY}",
    LEARNT: "no run of an agent after three hours is kept; run `asa lab bench matrix --step small,hours,learnt`",
}

Rounds = Callable[[], Sequence[Round]]


def not_worse(rows: Rounds, who: str = AGENT) -> tuple[float, str]:
    """Of its rounds: not behind by more than rivals.WORSE_POINTS, %. The detail has how often noise alone is behind."""
    known = rows()
    one = _chooser(known, who)
    noise = next((other for other in rivals.choosers(known) if other.who == rivals.NOISE), None)
    beside = "" if noise is None else f"; EEVDF beside itself {100.0 - rivals.behind_pct(noise.leads):.1f} %"
    return 100.0 - rivals.behind_pct(one.leads), f"{_extent(one)}{beside}"


def better(rows: Rounds) -> tuple[float, str]:
    """Of its rounds in cells in which the oracle gains LARGE_PCT: those of cells that are ahead for sure, %.

    Cells with too few rounds count nowhere.
    """
    known = rows()
    one = _chooser(known, AGENT)
    found = choices.gains(known)
    oracle = choices.judged(found, found, Rule.ORACLE)
    large = {cell: each for cell, each in one.leads.items() if oracle.get(cell, 0.0) >= LARGE_PCT}
    if not large:
        raise ModelError(f"in no pair with a run of the agent the oracle gains {LARGE_PCT:g} %")
    signs, words = _signs(large, enough(known))
    hits = sum(len(large[cell]) for cell, sign in signs.items() if sign == 1)
    return 100.0 * hits / sum(len(large[cell]) for cell in signs), words


def worse(rows: Rounds) -> tuple[float, str]:
    """Of its rounds: those of cells that are behind for sure, %. Cells with too few rounds count nowhere."""
    known = rows()
    leads = _chooser(known, AGENT).leads
    signs, words = _signs(leads, enough(known))
    cells = [cell for cell, sign in signs.items() if sign == -1]
    named = "".join(f"; {label} on {machine}" for machine, label in cells)
    return 100.0 * sum(len(leads[cell]) for cell in cells) / sum(len(leads[cell]) for cell in signs), words + named


def share_of_oracle(rows: Rounds, who: str = AGENT) -> tuple[float, str]:
    """Of Static-Oracle's gain in the same cells: what it takes, %."""
    known = rows()
    found = choices.gains(known)
    oracle, ours = choices.judged(found, found, Rule.ORACLE), _means(_chooser(known, who))
    shared = ours.keys() & oracle.keys()
    whole = choices.over_scenarios({cell: oracle[cell] for cell in shared})
    part = choices.over_scenarios({cell: ours[cell] for cell in shared})
    if whole is None or part is None:
        raise ModelError("no pair of machine and scenario has both the agent and two rounds of a scheduler")
    if whole.value <= 0.0:
        raise ModelError(f"there is nothing to have: Static-Oracle gains {whole.words} %, {who} {part.words} %")
    return 100.0 * part.value / whole.value, f"{part.words} % of {whole.words} %; {len(shared)} pairs"


def over(rows: Rounds, other: str) -> tuple[float, str]:
    """The agent's gain less that of a chooser of `rivals`, points of per cent."""
    known = rows()
    ours = _means(_chooser(known, AGENT))
    theirs = next((one for one in rivals.choosers(known) if one.who == other), None)
    one = None if theirs is None else choices.over_scenarios(choices.difference(ours, _means(theirs)))
    if one is None:
        raise ModelError(f"no pair of machine and scenario has both the agent and {other}")
    return one.value, f"{one.words}; {one.count} scenarios"


def among_best(rows: Rounds, most: int) -> tuple[float, str]:
    """Of its rounds: it held one of the best `most` of the cell, the kernel's own among them, in hindsight, %.

    Cells in which a scheduler has too few rounds count nowhere: there chance says who is the best.
    """
    known = rows()
    found, judged = choices.gains(known), enough(known).cell
    ranks, played = [], 0
    for row in known:
        each = found.get((row.machine, row.label))
        if row.scheduler != AGENT or not row.held or not each:
            continue
        played += 1
        if not judged(row.label, min(map(len, each.values()))):
            continue
        means = {name: statistics.fmean(values.values()) for name, values in each.items()} | {OWN: 0.0}
        ours = means.get(row.held)
        ranks.append(None if ours is None else 1 + sum(mean > ours for mean in means.values()))
    if not played:
        raise ModelError(f"no run of the agent beside other schedulers {_PLAY}")
    if not ranks:
        raise ModelError("in no pair with a run of the agent every scheduler has rounds enough; play more")
    hits = sum(rank is not None and rank <= most for rank in ranks)
    return 100.0 * hits / len(ranks), f"{hits} of {len(ranks)} rounds; {played} were played"


def burden(rows: Rounds) -> tuple[float, str]:
    """Its lead less that of the scheduler that it held, played without it, hundredths of the score."""
    known = rows()
    leads = rivals.points(known)
    differences: dict[Cell, list[float]] = defaultdict(list)
    for row in known:
        lead = rivals.lead_points(row)
        if row.scheduler != AGENT or not row.held or lead is None:
            continue
        cell = row.machine, row.label
        held = leads.get(cell, {}).get(row.held, {})
        if row.held == OWN or held:
            differences[cell].append(lead - (statistics.fmean(held.values()) if held else 0.0))
    one = choices.over_scenarios({cell: statistics.fmean(each) for cell, each in differences.items()})
    if one is None:
        raise ModelError(f"no run of the agent {_PLAY}")
    count = sum(map(len, differences.values()))
    enough(known).check(count)
    return one.value, f"{one.words}; {count} rounds of {len(differences)} pairs"


def _chooser(rows: Sequence[Round], who: str) -> Chooser:
    one = rivals.played(rows, who)
    if not one.leads:
        raise ModelError(_LACKING.get(who, f"no run of the agent {_PLAY}"))
    enough(rows).check(_rounds(one))
    return one


def _signs(leads: rivals.Values, needed: Enough) -> tuple[dict[Cell, int], str]:
    """Of the cells that have rounds enough, and how many these are."""
    signs = rivals.signs(leads, needed.cell)
    words = f"{len(signs)} of {len(leads)} pairs of machine and scenario have rounds enough"
    if not signs:
        raise ModelError(f"{words}; play more")
    return signs, words


def _means(one: Chooser) -> Mapping[Cell, float]:
    return {cell: statistics.fmean(each) for cell, each in one.gains.items()}


def _rounds(one: Chooser) -> int:
    return sum(map(len, one.leads.values()))


def _extent(one: Chooser) -> str:
    return f"{_rounds(one)} rounds of {len(one.leads)} pairs of machine and scenario"
