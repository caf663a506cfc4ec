# SPDX-License-Identifier: GPL-2.0-only
"""What a run of the scale benchmark found, as Markdown, as JSON lines and in Prometheus' text format.

Takes a `Result`, makes text. Every number comes from there; it measures nothing.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence

from asa.core.decision import EEVDF
from calibration.goals import Host, row
from calibration.scale.benchmark import Result
from calibration.scale.figures import Average, better, differs, figures, schedulers
from calibration.scale.samples import METRICS, Metric

_HOW = (
    "- One guest of the lab (docs/lab.md) for each core count, under the `parallel` clock: each CPU has 250 million",
    "  instructions of a second, and the host's load drops out. Emulated CPUs have no caches.",
    "- In each guest the schedulers take turns, in a new random order each round. A turn brings the scheduler into",
    "  force, waits a second and runs every mode of `calibration/scale/scale.c` once. A turn in which the",
    "  scheduler did not stay in force counts for nothing and is named above.",
    "- Wakeups and periods are due at absolute times, and those that were slept through count each with its own",
    "  lateness: a stall is as many late wakeups as it was long (no coordinated omission).",
    "- All but the throughput is measured beside one hog for each CPU, an ordinary task that only computes.",
    "- A value is the mean of the turns, with a 95 % confidence interval by Student's t. It holds for this guest;",
    "  another boot may differ by more. A 99th percentile of fewer than a hundred samples (launches under a scheduler",
    "  that lets them wait) is the largest one.",
    "- **Bold**: better than EEVDF on so many CPUs, _italic_: worse; both only where the intervals lie apart. With as",
    "  many comparisons as this table has, some will lie apart by chance.",
)


def as_json(figure: Average) -> str:
    """One line, in the unit that people see. There are no goals: it compares."""
    metric = figure.metric
    body: dict[str, object] = {
        "name": f"scale_{metric.shown}_{figure.scheduler}_{figure.cpus}_cpus",
        "value": _rounded(figure.value, metric),
        "unit": metric.unit,
        "goal": None,
        "ok": None,
        "error": _rounded(figure.error, metric),
        "turns": figure.turns,
        "scheduler": figure.scheduler,
        "cpus": figure.cpus,
    }
    return json.dumps(body)


def failures_as_json(result: Result) -> str:
    """One line: turns, and whole guests, that gave nothing."""
    failed = len(warnings(result))
    return json.dumps({"name": "scale_failures", "value": failed, "unit": "failures", "goal": 0, "ok": failed == 0})


def cells(figure: Average) -> tuple[str, str, str, str, str]:
    """A figure as metric, CPUs, scheduler, value and its confidence interval's half width."""
    value, error = _shown(figure)
    value = f"{value} {figure.metric.unit}" if value else "unknown"
    return figure.metric.name, str(figure.cpus), figure.scheduler, value, error


def warnings(result: Result) -> list[str]:
    """What did not go as meant."""
    turns = [f"{found.cpus} CPUs: {trouble}" for found in result.found for trouble in found.troubles]
    return turns + result.troubles


def prometheus(made: Sequence[Average]) -> str:
    """Gauges in base units, each with the half width of its interval (prometheus.io, "Exposition formats")."""
    lines: list[str] = []
    for metric in METRICS:
        same = [figure for figure in made if figure.metric is metric]
        values = [(figure, figure.value) for figure in same]
        errors = [(figure, figure.error) for figure in same]
        lines += _gauge(f"asa_scale_{metric.name}_{metric.base}", metric.what, values)
        what = f"Half width of the 95 % confidence interval of asa_scale_{metric.name}_{metric.base}"
        lines += _gauge(f"asa_scale_{metric.name}_error_{metric.base}", what, errors)
    return "".join(f"{line}\n" for line in lines)


def document(result: Result, machine: Host, *, image: str, gauges: str) -> str:
    """The whole of docs/scale.md. `image` and `gauges` are the paths of the picture and the text file beside it."""
    made = figures(result.found)
    troubles = warnings(result)
    lines = [
        "# Schedulers against core counts",
        "",
        "Written by `make bench-scale` (`asa lab bench scale`) itself; do not edit.",
        "",
        *_when(result, machine),
        *(["", *(f"**Doubtful**: {text}." for text in troubles)] if troubles else []),
        "",
        f"![Each metric against the core count]({image})",
        "",
        f"The same numbers in Prometheus' text format: [{gauges}]({gauges}).",
    ]
    for metric in METRICS:
        lines += _section(metric, [figure for figure in made if figure.metric is metric], result)
    lines += ["", "## How", "", *_HOW]
    return "\n".join([*lines, ""])


def _when(result: Result, machine: Host) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.began_s))
    options = result.options
    yield f"- when: {when}, for {result.took_s / 60.0:.1f} minutes"
    yield f"- machine: {machine.cpu}, {machine.cpus} CPUs, Linux {machine.kernel}; {result.emulator}"
    yield f"- guests: {', '.join(str(found.cpus) for found in result.found)} CPUs; Linux {result.found[0].kernel}"
    versions = {name: version for found in result.found for name, version in found.versions.items()}
    yield f"- schedulers: {', '.join(f'{name} {version}' for name, version in versions.items())}"
    yield f"- {options.repeats} turns for each scheduler in each guest, {options.seconds:g} s for each mode"
    yield f"- asa {machine.version}, `{machine.command}`"


def _section(metric: Metric, made: Sequence[Average], result: Result) -> Iterator[str]:
    counts = [found.cpus for found in result.found]
    side = "more" if metric.more_is_better else "less"
    yield from (
        "",
        f"## {metric.name}, {metric.unit}",
        "",
        f"{metric.what[0].upper()}{metric.what[1:]}; {side} is better.",
    )
    yield from ("", row("scheduler", *(f"{cpus} CPUs" for cpus in counts)), "|---|" + "---:|" * len(counts))
    places = {(figure.scheduler, figure.cpus): figure for figure in made}
    for name in schedulers(result.found):
        yield row(name, *(_cell(places.get((name, cpus)), places.get((EEVDF, cpus))) for cpus in counts))


def _cell(figure: Average | None, own: Average | None) -> str:
    """`own` is EEVDF's."""
    if figure is None or figure.value is None:
        return "unknown"
    text = " ".join(_shown(figure)).strip()
    if own is None or not differs(figure, own):
        return text
    return f"**{text}**" if better(figure, own) else f"_{text}_"


def _gauge(name: str, what: str, values: Sequence[tuple[Average, float | None]]) -> Iterator[str]:
    known = [(figure, value) for figure, value in values if value is not None]
    if not known:
        return
    yield f"# HELP {name} {what[0].upper()}{what[1:]}."
    yield f"# TYPE {name} gauge"
    for figure, value in known:
        yield f'{name}{{scheduler="{figure.scheduler}",cpus="{figure.cpus}"}} {value:.9g}'


def _rounded(value: float | None, metric: Metric) -> float | None:
    return None if value is None else round(value * metric.factor, 6)


def _shown(figure: Average) -> tuple[str, str]:
    """Value, with three digits that count, and what it may be off by, with as many decimals; "" where not known."""
    if figure.value is None:
        return "", ""
    value = figure.value * figure.metric.factor
    decimals = min(4, max(1, 2 - math.floor(math.log10(value)))) if value > 0.0 else 1
    error = "" if figure.error is None else f"± {figure.error * figure.metric.factor:.{decimals}f}"
    return f"{value:.{decimals}f}", error
