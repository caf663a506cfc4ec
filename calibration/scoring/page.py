# SPDX-License-Identifier: GPL-2.0-only
"""The table of constants as docs/scoring.md, as lines for a terminal and as plain values.

Pure: it reads and writes no file.
"""

import textwrap
from collections.abc import Iterator
from typing import Any

from calibration.scoring.table import APPLICATIONS, LEAST_MEASURED, ROLE_WEIGHT, SOURCES, Application
from scenarios.application import Role
from scenarios.metric import K_VALUE, Metric

_HEAD = """\
# Scores

Written by `asa lab score show --markdown`, the picture by `asa lab score plot`; do not edit.

What the programs of a benchmark measure becomes a score from 0 to 1 as a person feels it, by the curves of the ASA
paper's section 4.2 (Wang et al., *Mixture-of-Schedulers*). The constants are ours: the paper prints none. Green is
each metric's sweet spot; on one side of it nobody can tell any more, on the other nothing is usable.

![the curves](scoring.svg)

## The two curves

    S_value(x)  = 1 / (1 + e^(+-k_v ((x - theta) / f)^gamma_v))      + where smaller is better, - where larger is
    S_stability = 1 / (1 + k_s sigma^gamma_s)

The power keeps its base's sign. Each metric names the two edges of its sweet spot: from `good` on nobody feels that it
gets better, from `bad` on it is not usable any more, whatever it does. theta is the middle between them and f half
their distance; with k_v = ln 9 = {k:.4g} and gamma_v = 1 the edges score 0.9 and 0.1, and all that lies beyond an edge
differs by less than 0.1.

sigma is the standard deviation of a run's samples, so with gamma_s = 2 the variance counts. `spread` is the sigma that
scores 1/2: k_s = spread^-gamma_s. A metric without it has no stability score.

x is the mean, the 95th or the 99th percentile of a run's samples, as the table says. Of a **relative** metric (scale
"of alone") it is the share of the speed that the same load, with the same seed, reaches alone on the same machine under
the kernel's own scheduler; for times that is alone / x. It must have been measured: without it the score is refused.

## From metrics to a scenario

1. Metric: S_value^(1 - w) S_stability^w, w the weight of stability. A weighted sum would give an application that
   hangs, steadily, the whole w, and rank it above one that works with hiccups.
2. Application: mean of its metrics' scores by their weights.
3. Scenario: {interactive:g} of the interactive application's score and {background:g} of the background load's. The
   person looks at the one and waits for the other. Our choice.

Not measured is not zero: a metric that a run has not (None) leaves its weight to the others of its application. A tier
or a seed may lack one, and a zero would rank runs by what they lack. With less than {least:.0%} of its weight measured
an application has no score, and the scenario has none without both. Runs that are compared go through `alike` first,
which keeps what all of them measured; otherwise a run that lost its worst metric would win by that. A program that
fails is not a missing metric: its scenario has failed.

Compare scores by their difference: a ratio of two that are nearly zero says nothing. Underruns come in whole numbers: a
run of 20 s with one stream sees none, or three a minute at least; measure for 60 s or more.

## Energy

{energy}

It is a model, and leaves out:

- frequency and voltage: a busy core draws the same at each speed, so a governor or a turbo saves nothing and costs
  nothing;
- what kind of instructions run, and what the second thread of a busy core adds;
- memory, disks, graphics and screen, and the losses of a power supply;
- the programs themselves: a stand-in runs other instructions than its program.

So compare schedulers on one machine by it, never machines with each other.
"""
ENERGY = (
    "J and W of each play stand beside its score and are no part of it. A core draws its kind's watts while one of its "
    "threads is busy, the package its idle watts all the time. Both come from the machine's description; a machine "
    "without one has neither."
)
"""What a result's energy is."""
_COLUMNS = (
    *("metric", "unit", "better", "figure", "weight"),
    *("good", "bad", "theta", "f", "k_v", "gamma_v"),
    *("scale", "spread", "k_s", "gamma_s", "weight of stability"),
)


def markdown() -> Iterator[str]:
    """The lines of docs/scoring.md."""
    yield from _HEAD.format(
        k=K_VALUE,
        interactive=ROLE_WEIGHT[Role.INTERACTIVE],
        background=ROLE_WEIGHT[Role.BACKGROUND],
        least=LEAST_MEASURED,
        energy="\n".join(textwrap.wrap(ENERGY, width=118)),
    ).splitlines()
    for application in APPLICATIONS.values():
        yield ""
        yield f"## {application.name}: {application.title} ({application.role})"
        yield ""
        yield f"| {' | '.join(_COLUMNS)} |"
        yield f"|{'---|' * len(_COLUMNS)}"
        for metric in application.metrics:
            yield f"| {' | '.join(_cells(metric))} |"
        yield ""
        yield from _reasons(application)
    yield ""
    yield "## Sources"
    yield ""
    for key, words in SOURCES.items():
        yield f"- {key}: {words}."


def lines(applications: tuple[Application, ...]) -> Iterator[str]:
    """For a terminal."""
    used: dict[str, None] = {}
    for application in applications:
        yield f"{application.name}: {application.title} ({application.role})"
        for metric in application.metrics:
            used |= dict.fromkeys(metric.sources)
            yield f"  {metric.name:<20} {metric.sentence}"
            yield f"{'':23}{metric.summary} of the samples, {metric.direction} is better; weight {metric.weight:g}"
            yield (
                f"{'':23}value: good {_short(metric.good)}, bad {_short(metric.bad)}, theta {_short(metric.theta)}, "
                f"f {_short(metric.f)} {metric.scale}; k {_short(metric.k_value)}, gamma {metric.gamma_value:g}"
            )
            if metric.k_stability is not None and metric.spread is not None:
                yield (
                    f"{'':23}stability: 1/2 at {_short(metric.spread)} {metric.scale}; k {_short(metric.k_stability)}, "
                    f"gamma {metric.gamma_stability:g}, weight {metric.stability_weight:g}"
                )
            reason = f"{metric.reason} [{', '.join(metric.sources)}]"
            yield from textwrap.wrap(reason, width=110, initial_indent=" " * 23, subsequent_indent=" " * 23)
    for key in used:
        yield from textwrap.wrap(f"[{key}] {SOURCES[key]}", width=110, subsequent_indent=" " * 4)
    yield from textwrap.wrap(f"energy: {ENERGY}", width=110, subsequent_indent=" " * 2)


def plain(applications: tuple[Application, ...]) -> dict[str, Any]:
    """The table for programs; what does not apply is None."""
    rows = [
        {
            "application": application.name,
            "role": str(application.role),
            "name": metric.name,
            "unit": metric.unit,
            "sentence": metric.sentence,
            "better": str(metric.direction),
            "summary": str(metric.summary),
            "weight": metric.weight,
            "relative": metric.relative,
            "good": metric.good,
            "bad": metric.bad,
            "theta": metric.theta,
            "f": metric.f,
            "k_value": metric.k_value,
            "gamma_value": metric.gamma_value,
            "spread": metric.spread,
            "k_stability": metric.k_stability,
            "gamma_stability": metric.gamma_stability if metric.spread is not None else None,
            "stability_weight": metric.stability_weight,
            "reason": metric.reason,
            "sources": metric.sources,
        }
        for application in applications
        for metric in application.metrics
    ]
    weights = {str(role): weight for role, weight in ROLE_WEIGHT.items()}
    sources = dict(SOURCES)
    return {
        "role_weight": weights,
        "least_measured": LEAST_MEASURED,
        "metrics": rows,
        "sources": sources,
        "energy": ENERGY,
    }


def _reasons(application: Application) -> Iterator[str]:
    """A line for each reason, with the metrics that it is for."""
    users: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for metric in application.metrics:
        named = f"`{metric.name}` ({metric.sentence})"
        users.setdefault((metric.reason, metric.sources), []).append(named)
    for (reason, sources), names in users.items():
        yield f"- {', '.join(names)}: {reason} [{', '.join(sources)}]"


def _cells(metric: Metric) -> tuple[str, ...]:
    value = (metric.good, metric.bad, metric.theta, metric.f, metric.k_value, metric.gamma_value)
    spread, k = metric.spread, metric.k_stability
    stability = ("", "", "", "")
    if spread is not None and k is not None:
        weight = f"{metric.stability_weight:g}"
        stability = (_short(spread), _short(k), f"{metric.gamma_stability:g}", weight)
    first = (f"`{metric.name}`", metric.unit, metric.direction, metric.summary, f"{metric.weight:g}")
    return (*first, *(_short(number) for number in value), metric.scale, *stability)


def _short(number: float) -> str:
    return f"{number:.3g}"
