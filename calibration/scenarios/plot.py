# SPDX-License-Identifier: GPL-2.0-only
"""The comparisons behind the benchmark's figures as one picture: EEVDF against itself beside EEVDF against another.

Takes comparisons, makes a picture. It measures nothing.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from asa.core.errors import AsaError
from calibration.scenarios.evaluation import Compared
from scenarios.catalogue import PAIRS

_SIGNIFICANT, _OTHER = "#c0392b", "#7f8c8d"


def draw(path: Path, sides: Sequence[tuple[str, Sequence[Compared]]]) -> None:
    """One side a comparison: title and scenarios. The suffix decides on the form. Raises AsaError."""
    with mpl.rc_context({"svg.hashsalt": "asa", "font.size": 8}):  # the same picture of the same figures
        canvas = Canvas(figsize=(4.2 * len(sides) + 1.0, 7.0), layout="constrained")
        axes = canvas.subplots(1, len(sides), sharex=True, sharey=True, squeeze=False)[0]
        for axis, (title, compared) in zip(axes, sides, strict=True):
            _side(axis, title, compared)
        axes[0].set_yticks(range(len(PAIRS)), [f"{one.name} {one.label}" for one in PAIRS])
        axes[0].invert_yaxis()
        try:
            canvas.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        except (OSError, ValueError) as error:
            raise AsaError(f"{path}: cannot be drawn: {error}; name a file that ends in .svg or .png") from error


def _side(axis: Axes, title: str, compared: Sequence[Compared]) -> None:
    places = {one.label: place for place, one in enumerate(PAIRS)}
    axis.axvline(0.0, color="black", linewidth=0.5)
    for one in compared:
        test = one.test
        colour = _SIGNIFICANT if one.significant else _OTHER
        half = 0.0 if test.high is None else test.high - test.mean
        axis.errorbar(test.mean, places[one.label], xerr=half, fmt="o", color=colour, markersize=3, capsize=2)
    axis.set_title(title)
    axis.set_xlabel("change of the score (95 % confidence)\nred: differs at 5 % after correction")
    axis.grid(axis="x", linewidth=0.3)
