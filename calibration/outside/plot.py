# SPDX-License-Identifier: GPL-2.0-only
"""A picture of the agreement with published figures: a dot for tau and a bar for its interval, row by row."""

from collections.abc import Sequence
from pathlib import Path

from calibration.outside.agreement import AGREES, Agreement


def draw(path: Path, agreements: Sequence[Agreement]) -> None:
    """Write it, as the name's ending says (.svg, .png); rows with too few schedulers are pale."""
    from matplotlib.figure import Figure

    known = [(one, one.tau) for one in agreements if one.tau is not None]
    figure = Figure(figsize=(8.0, 1.2 + 0.3 * len(known)), layout="constrained")
    axes = figure.add_subplot()
    for place, (one, tau) in enumerate(reversed(known)):
        colour = "#1f77b4" if one.counts else "#bbbbbb"
        if one.low is not None and one.high is not None:
            axes.plot([one.low, one.high], [place, place], color=colour)
        axes.plot([tau], [place], "o", color=colour)
    labels = [f"{one.row.id}, {one.at.cpus} CPUs, {len(one.schedulers)} schedulers" for one, _ in reversed(known)]
    axes.set_yticks(range(len(known)), labels)
    axes.set_xlim(-1.05, 1.05)
    axes.axvline(0.0, color="#dddddd", zorder=0)
    axes.axvline(AGREES, color="#dddddd", linestyle="--", zorder=0)
    axes.set_xlabel("Kendall's tau b with the lab; dashed: the goal")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
