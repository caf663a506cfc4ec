# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation's pictures, after the paper's Figures 5 to 8, and one more of every column beside the agent.

Takes blocks and tables, makes pictures. It measures nothing; what is not kept has no picture.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from scipy import stats

from asa.core.decision import EEVDF
from asa.core.errors import AsaError
from calibration.controllers.columns import AGENT
from calibration.fleet.figures import pairs as by
from calibration.fleet.figures import sums, tables
from calibration.fleet.figures.blocks import PlayedMachine, named
from calibration.fleet.figures.named import phases, steady
from calibration.fleet.figures.windows import Window
from calibration.paired import LEVEL

_WIN, _EVEN, _LOSS = "#1f77b4", "#bdc3c7", "#c0392b"
_PROTOTYPE, _UNSEEN = "#7f8c8d", "#1f77b4"
_MOST_POINTS = 30.0  # of the heat map's colours, hundredths of the score
_MOST_PCT = 100.0  # shown of a run's improvement
_FEWEST = 5  # runs, for a line of density

PICTURES = {
    "heatmap": "The agent's score less EEVDF's, hundredths, by machine and scenario (the paper's Figure 5). A dot: "
    "differs at 5 % after correction. Grey: not played.",
    "summary": "Wins and losses, ranks, the distribution of runs, and machines (the paper's Figure 6).",
    "columns": "The agent's mean score above that of every other column, with 95 % intervals.",
    "windows": "The voting by its window (the paper's Figure 7).",
    "confusion": "What was played and what the agent decided on, % of the ticks (the paper's Figure 8).",
}
"""Name -> what it shows."""


def draw(folder: Path, machines: Sequence[PlayedMachine], windows: Sequence[Window]) -> list[str]:
    """Every picture that there is something for, as `<name>.svg` in the folder; their names. Raises AsaError."""
    if not any(AGENT in block.runs for machine in machines for block in machine.blocks):
        return []
    made: dict[str, Callable[[Canvas], None]] = {
        "heatmap": lambda canvas: _heatmap(canvas, machines),
        "summary": lambda canvas: _summary(canvas, machines),
        "columns": lambda canvas: _columns(canvas, machines),
    }
    if windows:
        made["windows"] = lambda canvas: _windows(canvas.subplots(), windows)
    if tables.confusion(steady(machines)):
        made["confusion"] = lambda canvas: _confusion(canvas, machines)
    longest = max(len(named(block.scenario, block.label)) for machine in machines for block in machine.blocks)
    heatmap = (2.0 + 0.07 * longest + 0.75 * len(machines), 8.0)
    sizes = {"heatmap": heatmap, "summary": (10.0, 8.0), "windows": (6.0, 4.2)}
    for name, one in made.items():
        path = folder / f"{name}.svg"
        with mpl.rc_context({"svg.hashsalt": "asa", "font.size": 8}):  # the same picture of the same figures
            canvas = Canvas(figsize=sizes.get(name, (8.0, 6.0)), layout="constrained")
            one(canvas)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                canvas.savefig(path, metadata={"Date": None})
            except OSError as error:
                raise AsaError(f"{path}: cannot be drawn: {error}; name another place by --page") from error
    return [name for name in PICTURES if name in made]


def _heatmap(canvas: Canvas, machines: Sequence[PlayedMachine]) -> None:
    blocks = [block for machine in machines for block in machine.blocks if AGENT in block.runs]
    found = by.pairs(blocks, AGENT, by.of_column(EEVDF))
    rows = list(dict.fromkeys((one.block.phased, one.block.scenario, one.block.label) for one in found))
    rows.sort(key=lambda row: row[0])
    names = [machine.facts.name for machine in machines]
    values = np.full((len(rows), len(names)), np.nan)
    axis = canvas.subplots()
    kinds = [[one for one in found if one.block.phased is phased] for phased in (False, True)]
    for one, test, adjusted in [judged for kind in kinds for judged in sums.judged(kind)]:
        block = one.block
        place = (rows.index((block.phased, block.scenario, block.label)), names.index(block.machine))
        values[place] = 100.0 * test.mean
        axis.annotate(f"{values[place]:+.0f}", place[::-1], ha="center", va="center", fontsize=6)
        if adjusted is not None and adjusted < LEVEL:
            axis.plot(place[1] + 0.35, place[0] - 0.3, ".", color="black", markersize=3)
    colours = mpl.colormaps["RdBu"].with_extremes(bad="#dddddd")
    image = axis.imshow(values, cmap=colours, vmin=-_MOST_POINTS, vmax=_MOST_POINTS, aspect="auto")
    axis.set_xticks(range(len(names)), [_titled(machine) for machine in machines], rotation=60, ha="right")
    axis.set_yticks(range(len(rows)), [named(name, label) for _, name, label in rows])
    canvas.colorbar(image, ax=axis, label="score, agent less EEVDF (hundredths)", shrink=0.6)


def _summary(canvas: Canvas, machines: Sequence[PlayedMachine]) -> None:
    (first, second), (third, fourth) = canvas.subplots(2, 2)
    _wins(first, machines)
    _tops(second, machines)
    _density(third, machines)
    _machines(fourth, machines)


def _wins(axis: Axes, machines: Sequence[PlayedMachine]) -> None:
    lines = [line for line in tables.against(steady(machines)) if line.not_worse and line.better]
    for place, line in enumerate(lines):
        assert line.not_worse is not None  # noqa: S101  # see above
        assert line.better is not None  # noqa: S101
        win, held = line.better.pct, line.not_worse.pct
        for left, width, colour in ((0.0, win, _WIN), (win, held - win, _EVEN), (held, 100.0 - held, _LOSS)):
            axis.barh(place, width, left=left, color=colour)
        axis.plot([line.not_worse.low, line.not_worse.high], [place, place], color="black", linewidth=1.0)
    axis.set_yticks(range(len(lines)), [line.name for line in lines])
    axis.invert_yaxis()
    axis.set_xlim(0.0, 100.0)
    axis.set_xlabel(f"% of runs: ahead, within {by.MARGIN:g}, behind\n(line: 95 % interval of not behind)")
    axis.set_title("(a) the agent against each")


def _tops(axis: Axes, machines: Sequence[PlayedMachine]) -> None:
    blocks = steady(machines)
    chosen, _ = by.chosen_ranks(blocks, AGENT)
    most = max((len(block.statics) for block in blocks), default=0)
    sides = (("its scheduler, in hindsight", chosen, "o-"), ("its own score", by.score_ranks(blocks, AGENT), "s--"))
    for title, ranks, style in sides:
        if ranks:
            shares = [100.0 * sum(one <= k for one in ranks) / len(ranks) for k in range(1, most + 1)]
            axis.plot(range(1, most + 1), shares, style, label=f"{title} ({len(ranks)} runs)")
    axis.set_ylim(0.0, 102.0)
    axis.set_xticks(range(1, most + 1))
    axis.set_xlabel("k, of the schedulers played")
    axis.set_ylabel("% of runs among the best k")
    axis.set_title("(b) rank")
    if axis.lines:
        axis.legend(loc="lower right")


def _density(axis: Axes, machines: Sequence[PlayedMachine]) -> None:
    found = by.pairs(steady(machines), AGENT, by.of_column(EEVDF))
    values = np.clip(np.array(tables.improvements(found)), -_MOST_PCT, _MOST_PCT)
    if len(values):
        axis.hist(values, bins=40, range=(-_MOST_PCT, _MOST_PCT), density=True, color=_EVEN)
        axis.axvline(float(np.median(values)), color=_WIN, linestyle="--", label=f"median {np.median(values):+.1f} %")
        axis.legend()
    if len(values) >= _FEWEST and np.ptp(values) > 0.0:
        places = np.linspace(-_MOST_PCT, _MOST_PCT, 400)
        axis.plot(places, stats.gaussian_kde(values)(places), color=_WIN)
    axis.axvline(0.0, color="black", linewidth=0.5)
    axis.set_xlabel(f"improvement of a run's score over EEVDF, %\n(beyond {_MOST_PCT:g} % as that)")
    axis.set_yticks([])
    axis.set_title("(c) distribution of all runs")


def _machines(axis: Axes, machines: Sequence[PlayedMachine]) -> None:
    known = {group.line.name: group.line.geometric for group in tables.groups(machines)}
    for place, machine in enumerate(machines):
        one = known.get(machine.facts.name)
        if one is None:
            continue
        axis.barh(place, one.value, color=_PROTOTYPE if machine.facts.prototype else _UNSEEN)
        if one.low is not None and one.high is not None:
            axis.plot([one.low, one.high], [place, place], color="black", linewidth=1.0)
    axis.set_yticks(range(len(machines)), [_titled(machine) for machine in machines])
    axis.invert_yaxis()
    axis.axvline(0.0, color="black", linewidth=0.5)
    axis.set_xlabel("geometric improvement over EEVDF, %\n(grey: prototypes, blue: unseen)")
    axis.set_title("(d) machines")


def _columns(canvas: Canvas, machines: Sequence[PlayedMachine]) -> None:
    sides = [("scenarios that stay", steady(machines)), ("scenarios that change", phases(machines))]
    sides = [(title, blocks) for title, blocks in sides if tables.against(blocks)]
    axes = canvas.subplots(1, max(1, len(sides)), squeeze=False)[0]
    for axis, (title, blocks) in zip(axes, sides, strict=False):  # with nothing to compare one is left empty
        lines = [line for line in tables.against(blocks) if line.gain is not None]
        for place, line in enumerate(lines):
            assert line.gain is not None  # noqa: S101  # see above
            sure = line.adjusted is not None and line.adjusted < LEVEL
            low, high = line.gain.low, line.gain.high
            if low is not None and high is not None:
                axis.plot([low, high], [place, place], color="black", linewidth=1.0)
            axis.plot(line.gain.value, place, "o", color=(_WIN if line.gain.value > 0.0 else _LOSS) if sure else _EVEN)
        axis.set_yticks(range(len(lines)), [line.name for line in lines])
        axis.invert_yaxis()
        axis.axvline(0.0, color="black", linewidth=0.5)
        axis.grid(axis="x", linewidth=0.3)
        axis.set_xlabel("the agent's mean score above it, %\n(grey: does not differ at 5 % after correction)")
        axis.set_title(title)


def _windows(axis: Axes, windows: Sequence[Window]) -> None:
    places = [one.window_s for one in windows]
    axis.plot(places, [_number(one.median_s) for one in windows], "o-", color=_WIN, label="median delay")
    axis.plot(places, [_number(one.p95_s) for one in windows], "o:", color=_WIN, label="P95 delay")
    for one in windows:
        if one.shipped:
            axis.axvline(one.window_s, color="black", linewidth=0.8, linestyle="--")
    axis.set_xlabel("window length W (s); dashed: as shipped")
    axis.set_ylabel("response delay (s)", color=_WIN)
    axis.set_ylim(bottom=0.0)
    axis.legend(loc="upper left")
    errors = axis.twinx()
    errors.plot(places, [_number(one.error_pct) for one in windows], "s-", color=_LOSS)
    errors.set_ylabel("error rate (%)", color=_LOSS)
    errors.set_ylim(bottom=0.0)


def _confusion(canvas: Canvas, machines: Sequence[PlayedMachine]) -> None:
    table = tables.confusion(steady(machines))
    rows = list(table)
    columns = list(dict.fromkeys([*rows, *sorted({name for counts in table.values() for name in counts})]))
    values = np.array([[100.0 * table[row][name] / table[row].total() for name in columns] for row in rows])
    axis = canvas.subplots()
    image = axis.imshow(values, cmap="Blues", vmin=0.0, vmax=100.0, aspect="auto")
    axis.set_xticks(range(len(columns)), columns, rotation=90, fontsize=6)
    axis.set_yticks(range(len(rows)), rows, fontsize=6)
    axis.set_xlabel("decided by the agent")
    axis.set_ylabel("played")
    canvas.colorbar(image, ax=axis, label="% of the ticks", shrink=0.6)


def _titled(machine: PlayedMachine) -> str:
    return f"{machine.facts.name}{'' if machine.facts.prototype else ' (unseen)'}"


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
