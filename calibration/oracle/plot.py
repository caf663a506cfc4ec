# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of what there is to gain: each machine and scenario as a field, and what each rule of choice takes."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from calibration.oracle.choices import Cell, Estimate, Gains, Rule, best

_LIMIT_PCT = 20.0  # of the colours


def draw_cells(path: Path, found: Gains, judged: Mapping[Cell, float]) -> None:
    """A field for each machine and scenario: its colour is what the oracle gains, its word who is best in hindsight."""
    from matplotlib.figure import Figure

    machines, labels = sorted({machine for machine, _ in found}), sorted({label for _, label in found})
    figure = Figure(figsize=(2.5 + 1.5 * len(machines), 1.5 + 0.28 * len(labels)), layout="constrained")
    axes = figure.add_subplot()
    fields = [[judged.get((machine, label), float("nan")) for machine in machines] for label in labels]
    image = axes.imshow(fields, aspect="auto", cmap="RdYlGn", vmin=-_LIMIT_PCT, vmax=_LIMIT_PCT)
    for row, label in enumerate(labels):
        for column, machine in enumerate(machines):
            known = found.get((machine, label))
            if known:
                name = best({one: statistics.fmean(values.values()) for one, values in known.items()})
                axes.text(column, row, name.removeprefix("scx_"), ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(machines)), machines)
    axes.set_yticks(range(len(labels)), labels)
    figure.colorbar(image, label="score above EEVDF, %")
    _save(figure, path)


def draw_rules(path: Path, rules: Sequence[tuple[Rule, Mapping[str, Estimate | None]]]) -> None:
    """A panel for each measure, a dot and its interval for each rule."""
    from matplotlib.figure import Figure

    measures = list(rules[0][1]) if rules else []
    figure = Figure(figsize=(3.2 * max(1, len(measures)), 3.0), layout="constrained")
    for place, measure in enumerate(measures):
        axes = figure.add_subplot(1, len(measures), place + 1)
        for row, (_, told) in enumerate(reversed(rules)):
            one = told[measure]
            if one is not None:
                axes.plot([one.value], [row], "o", color="#1f77b4")
                if one.low is not None and one.high is not None:
                    axes.plot([one.low, one.high], [row, row], color="#1f77b4")
        axes.axvline(0.0, color="#dddddd", zorder=0)
        axes.set_yticks(range(len(rules)), [rule for rule, _ in reversed(rules)] if place == 0 else [""] * len(rules))
        axes.set_title(measure)
        axes.set_xlabel("above EEVDF, %")
    _save(figure, path)


def _save(figure: object, path: Path) -> None:
    from matplotlib.figure import Figure

    assert isinstance(figure, Figure)  # noqa: S101  # the type is imported late
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
