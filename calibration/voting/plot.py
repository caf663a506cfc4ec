# SPDX-License-Identifier: GPL-2.0-only
"""The sweep of the filters as one picture: the paper's Figure 7 on our sessions, beside all methods' best points.

Takes a sweep, makes a picture. It measures nothing.
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from asa.core.errors import AsaError
from calibration.voting.filters import Method
from calibration.voting.sweep import MOST_ERROR_PCT, MOST_MEDIAN_S, Sweep, curve

_DELAY, _ERROR = "#1f77b4", "#c0392b"
_MOST_SHOWN_PCT = 15.0  # of the error rate: worse settings do not matter
_MARKERS = ("o", "s", "^", "v", "D", "P", "X")


def draw(path: Path, found: Sweep) -> None:
    """The suffix decides on the form. Raises AsaError."""
    with mpl.rc_context({"svg.hashsalt": "asa", "font.size": 8}):  # the same picture of the same figures
        canvas = Canvas(figsize=(10.0, 4.2), layout="constrained")
        left, right = canvas.subplots(1, 2)
        if Method.TIME_WEIGHTED in found.chosen:
            _windows(left, found)
        _methods(right, found)
        try:
            canvas.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        except (OSError, ValueError) as error:
            raise AsaError(f"{path}: cannot be drawn: {error}; name a file that ends in .svg or .png") from error


def _windows(axis: Axes, found: Sweep) -> None:
    points = sorted(curve(found), key=lambda point: point.parameters["window_s"])
    windows = [point.parameters["window_s"] for point in points]
    chosen = found.chosen[Method.TIME_WEIGHTED].point.parameters
    axis.plot(windows, [_number(one.score.median_s) for one in points], "o-", color=_DELAY, label="median delay")
    axis.plot(windows, [_number(one.score.p95_s) for one in points], "o:", color=_DELAY, label="P95 delay")
    axis.axvline(chosen["window_s"], color="black", linewidth=0.8, linestyle="--")
    axis.annotate(
        f" chosen: W = {chosen['window_s']:g} s", (chosen["window_s"], 0.02), xycoords=("data", "axes fraction")
    )
    axis.set_xlabel("window length W (s)")
    axis.set_ylabel("response delay (s)", color=_DELAY)
    axis.set_ylim(bottom=0.0)
    axis.margins(y=0.25)
    axis.legend(loc="upper left")
    errors = axis.twinx()
    errors.plot(windows, [_number(one.score.error_pct) for one in points], "s-", color=_ERROR)
    errors.set_ylabel("error rate (%)", color=_ERROR)
    errors.set_ylim(bottom=0.0)
    others = ", ".join(f"{name} {value:g}" for name, value in chosen.items() if name != "window_s")
    axis.set_title(f"time-weighted voting by its window\n({others}; validation sessions)")


def _methods(axis: Axes, found: Sweep) -> None:
    for place, (method, chosen) in enumerate(found.chosen.items()):
        marker = _MARKERS[place % len(_MARKERS)]
        cloud = [point.score for point in found.points if point.method is method]
        colour = f"C{place}"
        axis.plot(
            [_number(one.median_s) for one in cloud],
            [_number(one.error_pct) for one in cloud],
            marker,
            color=colour,
            alpha=0.15,
            markersize=3,
        )
        best = chosen.reported
        axis.plot(
            _number(best.median_s), _number(best.error_pct), marker, color=colour, markersize=8, label=str(method)
        )
    axis.axhline(MOST_ERROR_PCT, color="black", linewidth=0.5)
    axis.axvline(MOST_MEDIAN_S, color="black", linewidth=0.5)
    axis.set_xlim(left=0.0)
    axis.set_ylim(0.0, _MOST_SHOWN_PCT)
    axis.set_xlabel("median response delay (s)")
    axis.set_ylabel("error rate (%)")
    axis.set_title("every method: pale every setting (validation),\nfull the chosen one (sessions of their own)")
    axis.legend()


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
