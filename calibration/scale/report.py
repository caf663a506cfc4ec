# SPDX-License-Identifier: GPL-2.0-only
"""What a run of the scale benchmark found, as Markdown, as JSON lines and in Prometheus' text format.

Takes a `Result`, makes text. Every number comes from there; it measures nothing.
"""

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from asa.core.decision import EEVDF
from asa.core.errors import AsaError
from calibration.goals import Host, row
from calibration.scale.benchmark import Result
from calibration.scale.figures import Average, better, differs, figures, schedulers
from calibration.scale.samples import METRICS, Metric
from scenarios.conditions import time_of_all

Before = Mapping[tuple[str, str, int], float]
"""Kept gauges, by name, scheduler and number of CPUs."""

_GAUGE = re.compile(r'(\w+)\{scheduler="([^"]+)",cpus="(\d+)"\} (\S+)')
_HOW = (
    "- One guest of the lab (docs/lab.md) for each column, under the `parallel` clock: an instruction of a CPU of",
    "  full speed takes 4 ns of its time, whatever the host does, and all CPUs run at the same time. Emulated CPUs",
    "  have no caches: a scheduler that moves tasks pays nothing for it here.",
    "- A column without a tick is of a kernel that ticks at 1000 Hz.",
    "- In each guest the schedulers take turns, in a new random order each round. In a round a scheduler is brought",
    "  into force, a second passes, and it plays every mode of `calibration/scale/scale.c` some times. A round in",
    "  which it did not stay in force counts for nothing and is named above.",
    "- **Service latency** (`wakeup`, `burst`) is the time from a timer to the running of the task that it wakes up,",
    "  one sample each wakeup. **Lateness** (`late`, `burst_late`) has a sample for each period, also for one that",
    "  the task slept through: a stall is as many late periods as it was long. Before, lateness alone was measured.",
    "- A frame that is late delays those after it, which have their whole period still. Before, they were due as if",
    "  nothing had been late, so that one stall missed many.",
    "- All but throughput, messages and requests is measured beside one hog for each CPU, an ordinary task that",
    "  computes.",
    "- A value is the mean of the plays, with a 95 % confidence interval by Student's t. Plays of one round are not",
    "  independent, and it holds for this guest; another boot may differ by more. A 99th percentile of fewer than a",
    "  hundred samples is the largest one.",
    "- **Bold**: better than EEVDF in that guest, _italic_: worse; both only where the intervals lie apart. Of so",
    "  many comparisons some will lie apart by chance.",
    "- **Before**: kept figures of the serial clock at 250 Hz (2026-11-25), where all CPUs of a guest shared 250",
    "  million instructions a second. They are in [scale-serial.prom](scale-serial.prom).",
)


def as_json(figure: Average) -> str:
    """One line, in the unit that people see. There are no goals: it compares."""
    metric = figure.metric
    body: dict[str, object] = {
        "name": f"scale_{metric.shown}_{figure.scheduler}_{_word(figure.guest)}",
        "value": _rounded(figure.value, metric),
        "unit": metric.unit,
        "goal": None,
        "ok": None,
        "error": _rounded(figure.error, metric),
        "turns": figure.turns,
        "scheduler": figure.scheduler,
        "cpus": figure.cpus,
        "guest": figure.guest,
    }
    return json.dumps(body)


def _word(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.lower())


def failures_as_json(result: Result) -> str:
    """One line: turns, and whole guests, that gave nothing."""
    failed = len(warnings(result))
    return json.dumps({"name": "scale_failures", "value": failed, "unit": "failures", "goal": 0, "ok": failed == 0})


def cells(figure: Average) -> tuple[str, str, str, str, str]:
    """A figure as metric, guest, scheduler, value and its confidence interval's half width."""
    value, error = _shown(figure)
    value = f"{value} {figure.metric.unit}" if value else "unknown"
    return figure.metric.name, figure.guest, figure.scheduler, value, error


def warnings(result: Result) -> list[str]:
    """What did not go as meant."""
    turns = [f"{found.label}: {trouble}" for found in result.found for trouble in found.troubles]
    return turns + result.troubles


def kept_before(path: Path) -> Before:
    """Gauges of an earlier run, in Prometheus' text format as `prometheus` made it then. Raises AsaError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        found = [_GAUGE.fullmatch(line) for line in lines if line and not line.startswith("#")]
        return {(one[1], one[2], int(one[3])): float(one[4]) for one in found if one is not None}
    except (OSError, ValueError) as error:
        raise AsaError(
            f"{path}: no gauges of an earlier run: {error}; restore the file, or name one by --before"
        ) from error


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


def document(result: Result, machine: Host, *, image: str, gauges: str, before: Before) -> str:
    """The whole of docs/scale.md. `image` and `gauges` are the paths of the picture and the text file beside it.

    `before` holds kept figures of the serial clock.
    """
    time_of_all((found.label, msgspec.structs.replace(found.under, tick_hz=None)) for found in result.found)
    made = figures(result.found)
    troubles = warnings(result)
    lines = [
        "# Schedulers against core counts",
        "",
        "Written by `make bench-scale` (`asa lab bench scale`) itself; do not edit.",
        "",
        *when(result, machine),
        *(["", *(f"**Doubtful**: {text}." for text in troubles)] if troubles else []),
        "",
        f"![Each metric in each guest]({image})",
        "",
        f"The same numbers in Prometheus' text format: [{gauges}]({gauges}).",
    ]
    for metric in METRICS:
        lines += section(metric, [figure for figure in made if figure.metric is metric], result)
        lines += _before(metric, before)
    lines += ["", "## How", "", *_HOW]
    return "\n".join([*lines, ""])


def when(result: Result, machine: Host) -> Iterator[str]:
    """What, when and how often was measured, as a list."""
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.began_s))
    options = result.options
    took = "" if result.took_s is None else f", for {result.took_s / 60.0:.1f} minutes"
    yield f"- when: {began}{took}"
    yield f"- machine: {machine.cpu}, {machine.cpus} CPUs, Linux {machine.kernel}; {result.emulator}"
    yield f"- guests: {'; '.join(found.label for found in result.found)}"
    yield f"- Linux {', '.join(sorted({found.kernel for found in result.found}))}; clock {result.found[0].under.clock}"
    versions = {name: version for found in result.found for name, version in found.versions.items()}
    yield f"- schedulers: {', '.join(f'{name} {version}' for name, version in versions.items())}"
    yield (
        f"- for each scheduler in each guest: rounds {options.repeats}, plays in each {options.plays}, "
        f"seconds of each mode {options.seconds:g}"
    )
    yield f"- asa {machine.version}, `{machine.command}`"


def section(metric: Metric, made: Sequence[Average], result: Result) -> Iterator[str]:
    """A metric's heading and table. `made`: its figures."""
    labels = [found.label for found in result.found]
    side = "more" if metric.more_is_better else "less"
    yield from (
        "",
        f"## {metric.name}, {metric.unit}",
        "",
        f"{metric.what[0].upper()}{metric.what[1:]}; {side} is better.",
    )
    yield from ("", row("scheduler", *labels), "|---|" + "---:|" * len(labels))
    places = {(figure.scheduler, figure.guest): figure for figure in made}
    for name in schedulers(result.found):
        yield row(name, *(_cell(places.get((name, label)), places.get((EEVDF, label))) for label in labels))


def _before(metric: Metric, before: Before) -> Iterator[str]:
    same = {key[1:]: value for key, value in before.items() if metric.before and key[0] == _before_name(metric)}
    if not same:
        return
    counts = sorted({cpus for _, cpus in same})
    yield from ("", "Before:", "", row("scheduler", *(f"{cpus} CPUs" for cpus in counts)))
    yield "|---|" + "---:|" * len(counts)
    for name in dict.fromkeys(name for name, _ in same):
        values = [same.get((name, cpus)) for cpus in counts]
        yield row(name, *("unknown" if value is None else _digits(value * metric.factor) for value in values))


def _before_name(metric: Metric) -> str:
    return f"asa_scale_{metric.before}_{metric.base}"


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
        yield f'{name}{{scheduler="{figure.scheduler}",cpus="{figure.cpus}",guest="{figure.guest}"}} {value:.9g}'


def _rounded(value: float | None, metric: Metric) -> float | None:
    return None if value is None else round(value * metric.factor, 6)


def _shown(figure: Average) -> tuple[str, str]:
    """Value, with three digits that count, and what it may be off by, with as many decimals; "" where not known."""
    if figure.value is None:
        return "", ""
    value = figure.value * figure.metric.factor
    decimals = _decimals(value)
    error = "" if figure.error is None else f"± {figure.error * figure.metric.factor:.{decimals}f}"
    return f"{value:.{decimals}f}", error


def _digits(value: float) -> str:
    return f"{value:.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    return min(4, max(1, 2 - math.floor(math.log10(value)))) if value > 0.0 else 1
