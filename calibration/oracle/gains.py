# SPDX-License-Identifier: GPL-2.0-only
"""The figures of what there is to gain, and of what the agent takes of it, each of kept data or with why it is unknown.

With fewer rounds than a difference of 3 % needs (`enough`) a figure is unknown.

Of the agent those runs of a fleet count alone that were played under the parallel clock. Measures nothing itself.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from asa.core.errors import ModelError
from calibration.fleet.figures import named, read
from calibration.kept import Count
from calibration.oracle import choices
from calibration.oracle.choices import OWN, Gains, Measure, Rule
from calibration.oracle.enough import enough, rounds_of
from calibration.oracle.rounds import Round
from scenarios.conditions import SERIAL

WORSE_PCT = 1.0
"""A score that falls by more is not worth the energy. Our choice."""

_NEVER_PCT = -200.0  # who has it is not chosen
_PLAY = "no round is kept; run `make bench-evaluation`"
_AGENT = "no run of the agent is kept under the parallel clock; run `make evaluate-fleet`"

Rounds = Callable[[], Sequence[Round]]


def oracle_gain(rows: Rounds) -> tuple[float, str]:
    """Static-Oracle's score over the kernel's own, %."""
    found = choices.gains(_judged(rows))
    by_rule = {rule: choices.over_scenarios(choices.judged(found, found, rule)) for rule in Rule}
    told = ", ".join(f"{rule} {one.words}" for rule, one in by_rule.items() if one is not None)
    one = by_rule[Rule.ORACLE]
    if one is None:
        raise ModelError(_PLAY)
    return one.value, f"{_extent(found)}; {told}"


def over_best_static(rows: Rounds) -> tuple[float, str]:
    """Static-Oracle's score over that of the best single scheduler, points of per cent."""
    found = choices.gains(_judged(rows))
    oracle, static = (choices.judged(found, found, rule) for rule in (Rule.ORACLE, Rule.STATIC))
    one = choices.over_scenarios(choices.difference(oracle, static))
    if one is None:
        raise ModelError(_PLAY)
    return one.value, f"{_extent(found)}; {one.words}"


def table_share(rows: Rounds) -> tuple[float, str]:
    """What a table by class, for all machines, takes of Static-Oracle's gain, %."""
    found = choices.gains(_judged(rows))
    oracle, table = (choices.over_scenarios(choices.judged(found, found, rule)) for rule in (Rule.ORACLE, Rule.CLASS))
    if oracle is None or table is None:
        raise ModelError(_PLAY)
    if oracle.value <= 0.0:
        raise ModelError(f"there is nothing to have: Static-Oracle gains {oracle.words} %")
    return 100.0 * table.value / oracle.value, f"{table.words} % of {oracle.words} %; {_extent(found)}"


def energy(rows: Rounds) -> tuple[float, str]:
    """What the most frugal scheduler of each cell saves whose score is not worse by WORSE_PCT, %."""
    known = _judged(rows)
    score, power = choices.gains(known), choices.gains(known, Measure.POWER)
    frugal: dict[choices.Cell, dict[str, Mapping[tuple[int, int], float]]] = {}
    for cell, each in power.items():
        frugal[cell] = {}
        for name, values in each.items():
            marks = score.get(cell, {}).get(name, {})
            well = bool(marks) and statistics.fmean(marks.values()) >= -WORSE_PCT
            frugal[cell][name] = values if well else dict.fromkeys(values, _NEVER_PCT)
    one = choices.over_scenarios(choices.judged(frugal, power, Rule.ORACLE))
    if one is None:
        raise ModelError(_PLAY)
    return one.value, f"{one.words}; by the machine's description, of who is chosen by power and not worse by 1 %"


def of_agent(name: str, fleet: Path) -> Count:
    """A figure of `asa lab evaluate fleet`, of runs under the parallel clock."""

    def count() -> tuple[float, str]:
        machines = read.read(fleet) if fleet.is_dir() else []
        if not machines or machines[0].under.clock == SERIAL:  # all are of one clock
            raise ModelError(_AGENT)
        (figure,) = [one for one in named.figures(machines) if str(one.name) == name]
        if figure.value is None:
            raise ModelError(figure.reason or _AGENT)
        between = "" if figure.low is None else f"{figure.low:.3g} to {figure.high:.3g}; "
        return figure.value, between + figure.detail

    return count


def _judged(rows: Rounds) -> Sequence[Round]:
    known = rows()
    if not rounds_of(known):
        raise ModelError(_PLAY)
    enough(known).check(rounds_of(known))
    return known


def _extent(found: Gains) -> str:
    machines = {machine for machine, _ in found}
    names = {name for known in found.values() for name in known} | {OWN}
    return f"{len(found)} pairs of machine and scenario, {len(machines)} machines, {len(names)} schedulers"
