# SPDX-License-Identifier: GPL-2.0-only
"""Measures of another scheduler's benchmark, PANDEMONIUM's (`prism`), taken by ours, and its figures beside them.

What it measures: a wakeup beside hogs and beside a storm of forks, the same of tasks that the scheduler does not know
yet, a round trip by each primitive, what an idle machine draws, and the energy of an operation. Ours have no meter:
energy is that of the machine's description by the time that each CPU was busy (`scenarios.energy`), so an idle machine
draws more by what a scheduler's own tasks run, and by nothing else. Takes what guests recorded; it measures nothing.
"""

from collections.abc import Iterator, Sequence

import msgspec

from calibration.goals import Host, row
from calibration.outside.evidence import Evidence, Row
from calibration.scale.benchmark import Result
from calibration.scale.figures import Average, figures
from calibration.scale.report import section, warnings, when
from calibration.scale.samples import ENERGY, FOREIGN_METRICS, Found, Metric, Reading
from scenarios import energy, guests
from scenarios.lab import machines

_BUSY = "busy_ns_"
_AUTHOR = "pandemonium"  # in the source of a published row
_IN_MS = 1e-3  # published times are in us
_HOW = (
    "- One guest of the lab (docs/lab.md) for each column, under the `parallel` clock. Emulated CPUs have no caches",
    "  and no sleep states. So orders of schedulers compare with the published ones, and values do not.",
    "- Schedulers take turns, in a random order. What is **bold** is better than EEVDF in that guest, _italic_ worse;",
    "  both only where the 95 % intervals of the plays lie apart.",
    "- `newcomers` is the burst with classification. In a burst PANDEMONIUM 5.3.1 takes a task for interactive after",
    "  four wakeups at the earliest. So here each task ends after its fourth, and `burst` has one that goes on.",
    "- Primitives are measured as PANDEMONIUM does: one pair, or one process for each CPU in the fan-out, beside a hog",
    "  for each CPU. Its hogs are pinned and its pairs are Python's.",
    "- An operation's energy is that of the whole machine over the operations that ended. So beside busy CPUs it falls",
    "  as they get more done, and by nothing else.",
    "- In the lab a round trip under EEVDF often takes a tick (1 ms). The published medians are of some microseconds.",
    "  So for primitives the lab does not agree with what was published of EEVDF. The cause is not known.",
    "- scx_pandemonium is not in the portfolio: its columns are the published ones alone.",
)


def with_energy(found: Found) -> Found:
    """With what each mode took by the description of the guest's machine, where it told how busy its CPUs were."""
    machine = machines.alike(found.cpus) if found.alike else machines.load(found.under.machine)
    power = guests.power(machine)
    turns = tuple(
        msgspec.structs.replace(turn, readings={mode: _taken(one, power) for mode, one in turn.readings.items()})
        for turn in found.turns
    )
    return msgspec.structs.replace(found, turns=turns)


def averages(found: Sequence[Found]) -> list[Average]:
    """Figures of all these measures."""
    return figures([with_energy(one) for one in found], FOREIGN_METRICS)


def document(result: Result, machine: Host, published: Evidence) -> str:
    """The whole of docs/foreign.md."""
    made = averages(result.found)
    lines = [
        "# Another benchmark's measures",
        "",
        "Written by `make bench-foreign` (`asa lab bench scale --foreign`) itself; do not edit.",
        "",
        "What PANDEMONIUM's benchmark measures, measured by ours, and its published figures beside them.",
        "",
        *when(result, machine),
        "- published: [mapping_tables/evidence.yaml](../mapping_tables/evidence.yaml)",
        *(["", *(f"**Doubtful**: {text}." for text in warnings(result))] if warnings(result) else []),
    ]
    for metric in FOREIGN_METRICS:
        lines += section(metric, [figure for figure in made if figure.metric is metric], result)
        for one in published.rows:
            if one.lab == metric.name and _AUTHOR in one.source:
                lines += _published(one, metric)
    return "\n".join([*lines, "", "## How", "", *_HOW, ""])


def _taken(reading: Reading, power: energy.Power) -> dict[str, int]:
    busy = {int(name.removeprefix(_BUSY)): value for name, value in reading.items() if name.startswith(_BUSY)}
    took_ns = reading.get("took_ns", 0)
    if not busy or not took_ns:
        return dict(reading)
    busy_s = [busy.get(cpu, 0) / 1e9 for cpu in range(max(busy) + 1)]
    watts = energy.drawn_w(busy_s, took_ns / 1e9, power)
    return {**reading, ENERGY: round(watts * took_ns)}


def _published(one: Row, metric: Metric) -> Iterator[str]:
    # a table of it, in the unit that the metric's own has
    factor = _IN_MS if (one.metric.unit, metric.unit) == ("us", "ms") else 1.0
    unit = metric.unit if factor != 1.0 else one.metric.unit
    names = dict.fromkeys(name for at in one.at for name in at.figures)
    yield from ("", f"Published ({one.id}): {one.what}, {unit}. {one.machine.cpu}, Linux {one.machine.kernel}.")
    yield from ("", row("scheduler", *(f"{at.cpus} CPUs" for at in one.at)), "|---|" + "---:|" * len(one.at))
    for name in names:
        yield row(name, *(_value(at.figures.get(name), factor) for at in one.at))


def _value(value: float | None, factor: float) -> str:
    return "unknown" if value is None else f"{value * factor:.3g}"
