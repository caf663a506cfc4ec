# SPDX-License-Identifier: GPL-2.0-only
"""What the comparison of runtimes found, for people (Markdown, a table) and programs (a JSON object a figure).

Takes a `Result`, makes text; it measures nothing.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator

from calibration.goals import Figure, Host, Named, as_json, cells, rounded
from calibration.recognition.candidates import NEEDS, Candidate
from calibration.recognition.frame_cost import Cost
from calibration.recognition.runtimes import FALLBACK, KEPT, Measured, Result, Spent, Turn, differences

_SAME = 1e-5  # the bound on how far a runtime's probabilities may be from the training library's


class RuntimeFigure(Named):
    """The figures, each with its goal."""

    MEAN = "inference_mean_ms", "ms", "from sample to probabilities: rates, features, the whole model; mean", "<=", 0.2
    P99 = "inference_p99_ms", "ms", "the same, 99th percentile", "<=", 0.5
    HINTS = "hint_mean_us", "us", "what the desktop's hints cost in a tick, beside that; of a made-up desktop; mean"
    HINTS_P99 = "hint_p99_us", "us", "the same, 99th percentile"
    RSS = "runtime_rss_mb", "MB", "resident memory that the model and its runtime add"


def figures(result: Result) -> list[Figure]:
    """Times of the whole way; memory of the candidate that is kept, the median over its processes."""
    whole = next((cost for cost in result.way if cost.step == "all"), None)
    times = (
        (RuntimeFigure.MEAN, None if whole is None else whole.mean_us),
        (RuntimeFigure.P99, None if whole is None else whole.p99_us),
    )
    kept = result.of(KEPT)
    lacking = "" if kept is not None and kept.turns else f"{KEPT}: {'not asked for' if kept is None else kept.missing}"
    return [
        *(
            Figure(name=name, value=None if took_us is None else took_us / 1e3, reason="" if whole else result.way_of)
            for name, took_us in times
        ),
        *_hints(result.hints),
        Figure(
            name=RuntimeFigure.RSS,
            value=None if kept is None else kept.median(lambda turn: turn.rss_mb),
            reason=lacking,
        ),
    ]


def _hints(cost: Cost | None) -> Iterator[Figure]:
    if cost is not None:
        yield Figure(name=RuntimeFigure.HINTS, value=cost.mean_us)
        yield Figure(name=RuntimeFigure.HINTS_P99, value=cost.p99_us)


def lines(result: Result) -> Iterator[str]:
    """The figures, then one object a candidate, with its ratio to NumPy."""
    yield from map(as_json, figures(result))
    apart = differences(result.measured)
    for one in result.measured:
        values = {
            "boosted_mean_ms": one.median(lambda turn: turn.boosted.mean_ms),
            "boosted_p99_ms": one.median(lambda turn: turn.boosted.p99_ms),
            "boosted_cpu_mean_ms": one.median(lambda turn: turn.boosted.cpu_mean_ms),
            "whole_cpu_mean_ms": _whole(one, lambda spent: spent.cpu_mean_ms),
            "boosted_ratio": ratio(result, one, lambda turn: turn.boosted),
            "whole_ratio": ratio(result, one, lambda turn: turn.whole),
            "rss_mb": one.median(lambda turn: turn.rss_mb),
            "import_ms": one.median(lambda turn: turn.import_ms),
            "load_ms": one.median(lambda turn: turn.load_ms),
            "install_mb": one.median(lambda turn: turn.install_mb),
            "prepare_s": one.prepare_s,
        }
        shown = {key: rounded(value) for key, value in values.items()}
        found = {"candidate": one.candidate, **shown, "difference": apart.get(one.candidate)}
        yield json.dumps(found | ({"missing": one.missing} if one.missing else {}))


def ratio(result: Result, one: Measured, of: Callable[[Turn], Spent | None]) -> float | None:
    """Median time of a prediction over NumPy's of the same round, median of the rounds."""
    base = result.of(FALLBACK)
    if base is None:
        return None
    pairs = [(of(turn), of(other)) for turn, other in zip(one.turns, base.turns, strict=False)]
    found = [mine.median_ms / theirs.median_ms for mine, theirs in pairs if mine is not None and theirs is not None]
    return statistics.median(found) if found else None


def _whole(one: Measured, of: Callable[[Spent], float]) -> float | None:
    found = [of(turn.whole) for turn in one.turns if turn.whole is not None]
    return statistics.median(found) if found else None


def figure_rows(result: Result) -> list[tuple[str, ...]]:
    """For people: figure, value, goal, met, words."""
    return [cells(figure, words=figure.goal.what) for figure in figures(result)]


TITLES = ("candidate", "trees", "P99", "ratio", "whole", "P99", "ratio", "memory", "import", "load", "install")
"""Of `rows`: times in ms, memory and install in MB."""


def rows(result: Result) -> list[tuple[str, ...]]:
    """For people: one line a candidate."""
    return [_row(result, one) for one in result.measured]


def _row(result: Result, one: Measured) -> tuple[str, ...]:
    if not one.turns:
        return (str(one.candidate), one.missing, *[""] * (len(TITLES) - 2))

    def spent(of: Callable[[Turn], Spent | None]) -> tuple[str, str, str]:
        found = [value for turn in one.turns if (value := of(turn)) is not None]
        if not found:
            return "", "", ""
        mean = statistics.median(value.mean_ms for value in found)
        p99 = statistics.median(value.p99_ms for value in found)
        times = ratio(result, one, of)
        return f"{mean:.3f}", f"{p99:.3f}", "" if times is None else f"{times:.2f}"

    def median(of: Callable[[Turn], float]) -> str:
        value = one.median(of)
        return "" if value is None else f"{value:.1f}"

    return (
        str(one.candidate),
        *spent(lambda turn: turn.boosted),
        *spent(lambda turn: turn.whole),
        median(lambda turn: turn.rss_mb),
        median(lambda turn: turn.import_ms),
        median(lambda turn: turn.load_ms),
        median(lambda turn: turn.install_mb),
    )


def warnings(result: Result) -> list[str]:
    """What makes the figures doubtful, or is missing."""
    found = [f"{one.candidate}: {one.missing}" for one in result.measured if one.missing]
    for one in result.measured:
        waited = one.median(lambda turn: turn.boosted.mean_ms / turn.boosted.cpu_mean_ms)
        if waited is not None and waited > 1.3:
            found.append(f"{one.candidate} waited for a CPU: its times are {waited:.1f} times its own work; see ratios")
    for candidate, apart in differences(result.measured).items():
        if apart > _SAME:
            found.append(f"{candidate} says something else than {FALLBACK}: {apart:.2g} apart")
    return found


def document(result: Result, machine: Host) -> str:
    """The whole of docs/runtime.md."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.began_s))
    text = [
        "# What evaluates the model in the agent",
        "",
        "Written by `asa lab bench recognition` itself; do not edit.",
        "",
        *_WHAT,
        "",
        f"- when: {when}, for {result.took_s / 60.0:.1f} minutes",
        f"- machine: {machine.cpu}, {machine.cpus} CPUs, Linux {machine.kernel}",
        f"- asa {machine.version}, `{machine.command}`",
        f"- model: {result.model}",
        f"- an interpreter with NumPy alone takes {result.numpy_rss_mb:.0f} MB",
        f"- the way from the sample: {result.way_of}",
        *(f"- **Doubtful or missing**: {one}." for one in warnings(result)),
        "",
        "| figure | value | goal | met | |",
        "| --- | ---: | ---: | --- | --- |",
        *(f"| {' | '.join(cells)} |" for cells in figure_rows(result)),
        "",
        *_way_table(result),
        f"| {' | '.join(TITLES)} |",
        f"| --- |{' ---: |' * (len(TITLES) - 1)}",
        *(f"| {' | '.join(cells)} |" for cells in rows(result)),
        "",
        *(f"- {candidate}: {NEEDS[candidate].what}" for candidate in Candidate),
        "",
        "## What is kept",
        "",
        *_KEPT,
    ]
    return "\n".join([*text, ""])


def _way_table(result: Result) -> Iterator[str]:
    if result.way:
        yield "| on the way from a sample | mean, µs | median | P99 |"
        yield "| --- | ---: | ---: | ---: |"
        for cost in result.way:
            yield f"| {_STEPS[cost.step]} | {cost.mean_us:.0f} | {cost.median_us:.0f} | {cost.p99_us:.0f} |"
        yield ""


_STEPS = {
    "derive": "rates of the second",
    "push": "values of the tick, into the window",
    "frame": "statistics of the last seconds, the frame",
    "judge": "the model",
    "all": "all of it",
}
_WHAT = (
    "The agent evaluates the model once a second, and what does it is data and a small evaluator, never a pickle and",
    "never the training libraries. Each candidate was measured in processes of its own, one candidate after the other",
    "and all of them several times. *trees*: milliseconds of one prediction by the boosted trees of all heads, which",
    "all candidates can evaluate (the agent's own engines: with preparing the frame and joining the heads). *whole*:",
    "by the whole model, forest, support vectors and judgement too. Mean and 99th percentile, medians over the",
    "processes. The ratio is to NumPy in the same round, of median times: on a busy machine it moves less than",
    "milliseconds. Memory is what import, load and a prediction add to the process, in MB (10^6 bytes); import",
    "and load in ms; install is the size of the distributions that come along, NumPy aside, in MB.",
)
_KEPT = (
    f"`{KEPT}`, where a C compiler was there when the package was made; `{FALLBACK}` elsewhere, from the same",
    "artefact. Both give the training libraries' probabilities to 1e-5 (tests/models/test_runtime.py), so nothing but",
    "time and memory depends on which of them runs. The evaluator knows no model: trees and vectors are arrays that",
    "were checked when the artefact was loaded, and a foreign artefact can make it misjudge, not run something.",
    "",
    "It costs 380 lines (models/members.c, models/runtime_compiled.py) and stays for its time. The goal from sample to",
    "probabilities is 0.2 ms in the mean and 0.5 ms at P99. The whole model by NumPy alone takes all of the former",
    "(the row `numpy`), by the evaluator a quarter. Without it the way would take half as long again, beyond both.",
)
