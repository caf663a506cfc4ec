# SPDX-License-Identifier: GPL-2.0-only
"""What the comparison of programs and stand-ins found, for people (Markdown) and programs (a JSON object a value).

Takes a `Result`, makes text; it measures nothing.
"""

import json
import time
from collections.abc import Iterator, Sequence

from calibration.goals import Host, rounded
from calibration.scenarios.stand_ins import FAR, QUANTITIES, Half, Pair, Quantity, Result, quiet
from calibration.scoring.table import APPLICATIONS


def lines(result: Result) -> Iterator[str]:
    """One JSON object for each application and quantity; what is not known is null."""
    for pair in result.pairs:
        for quantity in QUANTITIES:
            body = {
                "application": pair.name,
                "quantity": quantity.name,
                "real": rounded(pair.real.values.get(quantity.name)),
                "lab": rounded(pair.lab.values.get(quantity.name)),
                "ratio": rounded(pair.ratio(quantity)),
                "far": quantity in pair.far(),
                **{f"{key}_reason": half.reason for key, half in _halves(pair) if half.reason},
            }
            yield json.dumps(body)


def rows(result: Result) -> list[tuple[str, ...]]:
    """For people: application, quantity, program, stand-in, ratio, a word where they are far apart."""
    found: list[tuple[str, ...]] = []
    for pair in result.pairs:
        far = pair.far()
        found += [(pair.name, *_cells(pair, one), "far" if one in far else "") for one in QUANTITIES]
        found += [(pair.name, "", "", "", "", half.reason) for _, half in _halves(pair) if half.reason]
    return found


def warnings(result: Result) -> list[str]:
    """What makes the figures doubtful."""
    found = []
    if not quiet(result):
        busy = result.idle.values.get("cpu_busy_pct")
        text = "unknown" if busy is None else f"{busy:.0f} %"
        found.append(f"the host was not idle: its CPUs were {text} busy before anything played")
    found += [f"the sampler has no {source}: {reason}" for source, reason in result.missing.items()]
    found += [half.reason for pair in result.pairs for _, half in _halves(pair) if half.reason]
    return found


def document(result: Result, machine: Host) -> str:
    """The whole of docs/stand-ins.md."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.began_s))
    text = [
        "# Programs and their stand-ins",
        "",
        "Written by `asa lab bench stand-ins` itself; do not edit.",
        "",
        *_WHAT,
        "",
        f"- when: {when}, for {result.took_s / 60.0:.1f} minutes",
        f"- machine: {machine.cpu}, {machine.cpus} CPUs, Linux {machine.kernel}",
        f"- asa {machine.version}, `{machine.command}`",
        *("" if number == 0 else f"- **Doubtful**: {one}." for number, one in enumerate(["", *warnings(result)])),
        "",
        "## Where they differ",
        "",
        *_differences(result.pairs),
        "",
        "## Nothing plays",
        "",
        *("| quantity | value |", "| --- | ---: |"),
        *(f"| {one.title} | {_text(result.idle.values.get(one.name))} |" for one in QUANTITIES),
    ]
    for pair in result.pairs:
        text += ["", f"## {APPLICATIONS[pair.name].title}", "", *_table(pair)]
    return "\n".join([*text, ""])


_WHAT = (
    "Each of the eleven programs of the benchmark has a small stand-in that an emulated guest can run",
    "(`scenarios/standins`). It is to keep what a scheduler sees of the program. Both were played on the same host one",
    "after the other, three seeds each, and sampled by the agent's own collectors, the whole machine, twice a second;",
    "the figures are means. A ratio is stand-in to program.",
)


def _differences(pairs: Sequence[Pair]) -> Iterator[str]:
    yield f"More than {FAR:g} times apart, values that are as good as nothing left out:"
    yield ""
    found = [f"- {pair.name}: {', '.join(one.title for one in far)}" for pair in pairs if (far := pair.far())]
    yield from found or ["- nowhere"]


def _table(pair: Pair) -> Iterator[str]:
    for title, half in (("program", pair.real), ("stand-in", pair.lab)):
        versions = ", ".join(f"{name} {version}" for name, version in half.versions.items())
        yield f"- {title}: {half.reason or versions}"
    yield from ("", "| quantity | program | stand-in | ratio |", "| --- | ---: | ---: | ---: |")
    yield from (f"| {' | '.join(_cells(pair, one))} |" for one in QUANTITIES)


def _halves(pair: Pair) -> tuple[tuple[str, Half], ...]:
    return ("real", pair.real), ("lab", pair.lab)


def _cells(pair: Pair, quantity: Quantity) -> tuple[str, str, str, str]:
    real, lab = (half.values.get(quantity.name) for _, half in _halves(pair))
    ratio = pair.ratio(quantity)
    return quantity.title, _text(real), _text(lab), "" if ratio is None else f"{ratio:.2g}"


def _text(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"
