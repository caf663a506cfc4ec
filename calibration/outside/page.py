# SPDX-License-Identifier: GPL-2.0-only
"""The comparison with published figures, as figures with goals, as rows of a table and as docs/outside.md."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calibration.goals import Figure, Named, row
from calibration.outside.agreement import AGREES, ENOUGH, Agreement, whole
from calibration.outside.evidence import At, Evidence, Row
from calibration.scale.samples import Found

HEAD = ("row", "published", "lab", "schedulers", "tau", "95 %", "p", "likelier wrong")

_HOW = (
    "- Kendall's tau b is 1 where both put the schedulers in the same order and -1 where the orders are opposite.",
    "- The interval is of the lab alone: each scheduler's mean drawn again from Student's t of its plays. What a",
    "  published figure may be off by is not known; nearly all are of one run.",
    "- p: how often orders drawn by chance agree or disagree as much. With three schedulers it is never below 0.33.",
    f"- `outside_tau` is the mean of the rows in which {ENOUGH} schedulers or more compare, those of one row averaged",
    "  first. Of two schedulers tau is 1 or -1, and says which of them is better.",
    "- A published figure of N CPUs is beside the lab's guest of N CPUs alike, else beside the largest that has fewer.",
    "- The lab has no caches and no frequencies that change. Its loads are like the published ones, and not the same.",
)


class OutsideFigure(Named):
    """By name."""

    TAU = (
        "outside_tau",
        "tau",
        "agreement of the lab's order of schedulers with published ones",
        ">=",
        AGREES,
        "one source of figures is not enough for tables",
    )
    ROWS = "outside_rows", "rows", "published figures that the lab can play and three schedulers or more have"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How a page came about, and the path of its picture beside it."""

    command: str
    version: str
    when_s: float
    image: str


def figures(agreements: Sequence[Agreement]) -> list[Figure]:
    """With their goals."""
    all_of_them = whole(agreements)
    reason = "" if all_of_them.rows else f"no published figure and the lab have {ENOUGH} schedulers in common"
    return [
        Figure(
            name=OutsideFigure.TAU,
            value=all_of_them.tau,
            low=all_of_them.low,
            high=all_of_them.high,
            detail=f"mean of {all_of_them.rows} rows",
            reason=reason,
        ),
        Figure(name=OutsideFigure.ROWS, value=float(all_of_them.rows)),
    ]


def cells(one: Agreement) -> tuple[str, ...]:
    """As HEAD."""
    between = "" if one.low is None or one.high is None else f"{one.low:+.2f} to {one.high:+.2f}"
    return (
        one.row.id,
        f"{one.at.cpus} CPUs",
        f"{one.row.lab}, {one.lab_cpus} CPUs",
        str(len(one.schedulers)),
        "no order" if one.tau is None else f"{one.tau:+.2f}",
        between,
        "" if one.p is None else f"{one.p:.2f}",
        one.suspect.partition(":")[0],
    )


def document(evidence: Evidence, found: Sequence[Found], agreements: Sequence[Agreement], made: Made) -> str:
    """The whole of docs/outside.md."""
    lines = [
        "# The lab beside published figures",
        "",
        f"Written by `{made.command}`; do not edit.",
        "",
        f"- when: {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(made.when_s))}; asa {made.version}",
        f"- lab: clock {found[0].under.clock}; guests {'; '.join(one.label for one in found)}",
        "- published: [mapping_tables/evidence.yaml](../mapping_tables/evidence.yaml)",
        "",
        *_summary(agreements),
        "",
        f"![Agreement of each published figure with the lab]({made.image})",
        "",
        row(*HEAD),
        "|---|---|---|---:|---:|---:|---:|---|",
        *(row(*cells(one)[:-1], one.suspect) for one in agreements),
    ]
    for one in agreements:
        if one.counts:
            lines += _section(one)
    lines += ["", "## Published effects", "", *_effects(evidence), "", "## How", "", *_HOW]
    return "\n".join([*lines, ""])


def _summary(agreements: Sequence[Agreement]) -> Iterator[str]:
    for figure in figures(agreements):
        value = "unknown" if figure.value is None else f"{figure.value:.2f}"
        between = "" if figure.low is None or figure.high is None else f" ({figure.low:.2f} to {figure.high:.2f})"
        goal = f"; goal {figure.goal}" if str(figure.goal) else ""
        yield f"- `{figure.name}`: {value}{between}{goal}. {figure.reason or figure.detail}".rstrip(". ")


def _section(one: Agreement) -> Iterator[str]:
    yield from ("", f"## {one.row.id}, {one.at.cpus} CPUs: {one.row.what}", "")
    yield f"{one.row.machine.cpu}; {one.row.source}; runs: {one.row.runs}; trust: {one.row.trust}."
    yield f"Why it may be wrong: {one.row.doubt}."
    yield from ("", row("scheduler", f"published, {one.row.metric.unit}", f"lab, {one.row.lab}"), "|---|---:|---:|")
    for name, outside, lab in zip(one.schedulers, one.outside, one.lab, strict=True):
        yield row(name, f"{outside:.4g}", f"{lab:.4g}")


def _effects(evidence: Evidence) -> Iterator[str]:
    yield "By how much a scheduler is better than EEVDF, in per cent; all that is published, also what no lab can play."
    yield ""
    yield row("row", "class", "CPUs", "what", "effects")
    yield "|---|---|---:|---|---|"
    for one in evidence.rows:
        for at in one.at:
            if effects := _said(one, at):
                yield row(one.id, one.workload, str(at.cpus), one.what, effects)


def _said(one: Row, at: At) -> str:
    return ", ".join(f"{name} {effect:+.0f}" for name, effect in one.effects_pct(at).items())
