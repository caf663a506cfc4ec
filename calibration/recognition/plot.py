# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation of recognition as three pictures: confusion matrix, reliability diagram and learning curve.

Takes a kept result, makes pictures. It measures nothing.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from asa.core.errors import AsaError
from calibration.recognition.figures import Result

_LINE, _OTHER = "#1f77b4", "#7f8c8d"
PICTURES = ("confusion", "reliability", "learning")
"""What there is, in the page's order; each is a suffix of the file's name."""


def draw(path: Path, what: str, result: Result) -> None:
    """One of `PICTURES`. The file's suffix decides on the form. Raises AsaError."""
    with mpl.rc_context({"svg.hashsalt": "asa", "font.size": 8}):  # the same picture of the same figures
        size = (9.5, 9.5) if what == "confusion" else (4.6, 3.6)
        canvas = Canvas(figsize=size, layout="constrained")
        axis = canvas.subplots()
        {"confusion": _confusion, "reliability": _reliability, "learning": _learning}[what](axis, result)
        try:
            canvas.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        except (OSError, ValueError) as error:
            raise AsaError(f"{path}: cannot be drawn: {error}; name a file that ends in .svg or .png") from error


def _confusion(axis: Axes, result: Result) -> None:
    table = np.array(result.confusion, dtype=float)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1.0)
    axis.imshow(np.sqrt(shares), cmap="Blues", vmin=0.0, vmax=1.0)  # the root: rare mistakes are to be seen
    for row, column in zip(*np.nonzero(shares >= 0.005), strict=True):
        share = shares[row, column]
        colour = "white" if share > 0.4 else "black"
        axis.text(column, row, f"{share * 100:.0f}", ha="center", va="center", fontsize=5, color=colour)
    places = range(len(result.classes))
    axis.set_xticks(places, result.classes, rotation=90, fontsize=6)
    axis.set_yticks(places, result.classes, fontsize=6)
    axis.set_xlabel("recognised")
    axis.set_ylabel("true")
    axis.set_title(f"per tick, in % of the true class ({result.held_out} held out; the shade is the share's root)")


def _reliability(axis: Axes, result: Result) -> None:
    rows, confidence, right = (np.array(values) for values in result.reliability)
    there = rows > 0
    axis.plot([0, 1], [0, 1], color=_OTHER, linewidth=0.8, linestyle="--", label="as sure as it is right")
    axis.plot(confidence[there], right[there], "o-", color=_LINE, markersize=3, label="the model")
    axis.bar(confidence[there], rows[there] / rows.sum(), width=0.04, color=_OTHER, alpha=0.4, label="share of ticks")
    axis.set_xlim(0.0, 1.0)
    axis.set_ylim(0.0, 1.0)
    axis.set_xlabel("probability of the recognised class")
    axis.set_ylabel("share of ticks that are right")
    axis.legend()


def _learning(axis: Axes, result: Result) -> None:
    for name, colour, values in (
        ("28 scenarios", _LINE, [one.accuracy_28_pct for one in result.curve]),
        ("all labels", _OTHER, [one.accuracy_40_pct for one in result.curve]),
    ):
        known = [(one.sessions, value) for one, value in zip(result.curve, values, strict=True) if value is not None]
        if known:
            axis.plot(*zip(*known, strict=True), "o-", color=colour, markersize=3, label=name)
    axis.set_xticks([one.sessions for one in result.curve])
    axis.set_xlabel("sessions of each label and place to learn from")
    axis.set_ylabel(f"accuracy per tick, % ({result.held_out} held out)")
    if result.curve:
        axis.legend()
