# SPDX-License-Identifier: GPL-2.0-only
"""Mapping tables out of the matrix: one for each shape of machine, and a default that is the safest over all. Pure.

A table's entry has the scheduler's lead over the kernel's own, in points of the score, and its interval over rounds. A
class of which no scheduler has a lead of any size keeps the kernel's own alone.
"""

import datetime
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from asa.core.decision import EEVDF, SchedulerName
from asa.decide.grounds import Evidence
from asa.decide.tablefile import Entry, Measured, TableFile
from calibration.oracle import shapes
from calibration.oracle.choices import Estimate, estimate
from calibration.oracle.enough import enough
from calibration.oracle.rounds import Round

OWN_WHY = "the kernel's own: no scheduler is better for sure"
_FEWEST = 3  # rounds
_DIGITS = 4


Leads: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Label -> scheduler -> its lead in points of the score (0 to 1), round by round."""


def leads(rows: Sequence[Round]) -> dict[str, Leads]:
    """By machine; of schedulers with as many rounds in a scenario as a difference of 3 % needs."""
    found: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if row.score is not None and row.own_score is not None and not row.against_itself and not row.decides:
            found[row.machine][row.label][row.scheduler].append(row.score - row.own_score)
    judged = enough(rows).cell
    return {
        machine: {
            label: {name: values for name, values in each.items() if judged(label, len(values))}
            for label, each in known.items()
        }
        for machine, known in found.items()
    }


def table(machine: str, known: Leads, rows: Sequence[Round], command: str) -> TableFile | None:
    """Of one machine, by the rounds of all; None where no class has enough of them. `command` made it."""
    classes = {label: ranking for label, one in sorted(known.items()) if (ranking := _ranking(one))}
    if not classes:
        return None
    ours = [row for row in rows if row.machine == machine]
    one = max(ours, key=lambda row: row.date)
    versions = {SchedulerName(row.scheduler).bare: row.version for row in ours}
    return TableFile(
        version=2,
        machine=shapes.facts(shapes.machine(machine)),
        measured=Measured(
            date=datetime.date.fromisoformat(one.date),
            command=command,
            tier="lab",
            clock=one.clock,
            tick_hz=one.tick_hz,
            kernel=one.kernel,
            schedulers=dict(sorted((versions | {str(EEVDF): one.kernel}).items())),
        ),
        provenance=(
            "Switchback runs of the lab's stand-ins in a guest of this shape. `effect` is the mean lead over eevdf in "
            "points of the score, round by round, with its 95 % interval; docs/oracle.md has all of them."
        ),
        classes=classes,
    )


def safest(found: Mapping[str, Leads]) -> dict[str, str]:
    """Label -> who serves it on every machine.

    Of those that are worse for sure on none the one whose smallest lead, over machines, is the largest; the kernel's
    own where that is not above 0.
    """
    chosen = {}
    for label in sorted({label for known in found.values() for label in known}):
        each = [known[label] for known in found.values() if label in known]
        least: dict[str, float] = {}
        for name in set.intersection(*(set(one) for one in each)):
            estimates = [estimate(one[name]) for one in each]
            if all(one is not None and one.high is not None and one.high >= 0.0 for one in estimates):
                least[name] = min(one.value for one in estimates if one is not None)
        name = max(sorted(least), key=lambda one: least[one], default=str(EEVDF))
        chosen[label] = name if least.get(name, 0.0) > 0.0 else str(EEVDF)
    return chosen


def _ranking(known: Mapping[str, Sequence[float]]) -> list[Entry]:
    """By the lead, the kernel's own where a lead is not above 0; who is worse stands behind it and is named."""
    estimates = {name: one for name, values in known.items() if len(values) >= _FEWEST and (one := estimate(values))}
    if not estimates:
        return []
    order = sorted(estimates, key=lambda name: -estimates[name].value)
    ahead = [_entry(name, estimates[name]) for name in order if estimates[name].value > 0.0]
    return [*ahead, Entry(scheduler=str(EEVDF), why=OWN_WHY if not _sure(estimates) else "the kernel's own")]


def _sure(estimates: Mapping[str, Estimate]) -> bool:
    return any(one.low is not None and one.low > 0.0 for one in estimates.values())


def _entry(name: str, one: Estimate) -> Entry:
    scheduler = SchedulerName(name)
    low, high = (None if end is None else round(end, _DIGITS) for end in (one.low, one.high))
    evidence = Evidence(ground="measured", effect=round(one.value, _DIGITS), low=low, high=high, runs=one.count)
    why = f"{100.0 * one.value:+.1f} points of the score beside eevdf in {one.count} rounds"
    return Entry(scheduler=scheduler.bare, mode=scheduler.mode, why=why, evidence=evidence)


def default_classes(found: Mapping[str, Leads]) -> dict[str, tuple[str, float]]:
    """Label -> the safest and its smallest lead over machines, for a page."""
    chosen = safest(found)
    return {label: (name, 0.0 if name == EEVDF else min(_means(found, label, name))) for label, name in chosen.items()}


def _means(found: Mapping[str, Leads], label: str, name: str) -> list[float]:
    return [statistics.fmean(known[label][name]) for known in found.values() if label in known]
