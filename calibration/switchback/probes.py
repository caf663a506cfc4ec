# SPDX-License-Identifier: GPL-2.0-only
"""What a person feels, as figures that do not saturate: waits and lateness in ms, shares of what is late, work done.

A probe makes one figure of a metric's samples. A frame's lateness is its time beyond the period that it is drawn in;
the paper's curves (`calibration.scoring`) end where all is well, and these do not. Pure, standard library alone.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from calibration.scoring.table import APPLICATIONS
from calibration.switchback.design import of_block
from scenarios.metric import Direction

Given = Mapping[str, object]
"""What a seed drew for the application."""

_SCROLL_MS = 1000.0 / 60.0  # web.c draws 60 frames a second
_LATE = 1.5  # periods: a frame that misses its own is drawn with the next
_FEWEST_MEAN, _FEWEST_P95, _FEWEST_P99, _FEWEST_P999 = 1, 20, 100, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A figure of a metric. `of` makes it of samples and of what the seed drew; `fewest` samples are needed."""

    name: str
    application: str
    metric: str
    unit: str
    better: Direction
    fewest: int
    of: Callable[[Sequence[float], Given], float]

    @property
    def key(self) -> str:
        """`web.input_ms_p95`."""
        return f"{self.application}.{self.name}"

    def figure(self, samples: Sequence[float], given: Given) -> float | None:
        """None of too few samples."""
        return self.of(samples, given) if len(samples) >= self.fewest else None


def quantile(values: Sequence[float], share: float) -> float:
    """By linear interpolation between the two nearest (the type 7 of Hyndman and Fan, 1996)."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def frame_period_ms(application: str, given: Given) -> float:
    """Of its frames: what the game's seed drew, 60 a second of a page that scrolls."""
    drawn = given.get("frame-us")
    return float(drawn) / 1000.0 if application == "game" and isinstance(drawn, int) else _SCROLL_MS


def _waits(application: str, metric: str) -> tuple[Probe, ...]:
    steps = (("p50", 0.5, _FEWEST_MEAN), ("p95", 0.95, _FEWEST_P95), ("p99", 0.99, _FEWEST_P99))
    return tuple(
        _smaller(
            f"{metric}_{word}", application, metric, "ms", fewest, lambda values, _given, at=share: quantile(values, at)
        )
        for word, share, fewest in (*steps, ("p99.9", 0.999, _FEWEST_P999))
    )


def _frames(application: str, metric: str) -> tuple[Probe, ...]:
    def late(values: Sequence[float], given: Given, share: float) -> float:
        return max(0.0, quantile(values, share) - frame_period_ms(application, given))

    def late_pct(values: Sequence[float], given: Given) -> float:
        limit_ms = _LATE * frame_period_ms(application, given)
        return 100.0 * sum(value > limit_ms for value in values) / len(values)

    steps = (("p50", 0.5, _FEWEST_MEAN), ("p95", 0.95, _FEWEST_P95), ("p99", 0.99, _FEWEST_P99))
    return (
        *(
            _smaller(
                f"late_ms_{word}", application, metric, "ms", fewest, lambda v, given, at=share: late(v, given, at)
            )
            for word, share, fewest in steps
        ),
        _smaller("late_pct", application, metric, "%", _FEWEST_P95, late_pct),
    )


def _blocks(values: Sequence[float], given: Given, share: float) -> float:
    period = given.get("period-us")
    return quantile(values, share) / 100.0 * (float(period) / 1000.0 if isinstance(period, int) else 10.0)


def _audio() -> tuple[Probe, ...]:
    steps = (("p50", 0.5, _FEWEST_MEAN), ("p95", 0.95, _FEWEST_P95), ("p99", 0.99, _FEWEST_P99))
    return tuple(
        _smaller(
            f"block_ms_{word}", "audio", "block_pct", "ms", fewest, lambda v, given, at=share: _blocks(v, given, at)
        )
        for word, share, fewest in (*steps, ("p99.9", 0.999, _FEWEST_P999))
    )


def _smaller(name: str, application: str, metric: str, unit: str, fewest: int, of: Callable[..., float]) -> Probe:
    return Probe(
        name=name, application=application, metric=metric, unit=unit, better=Direction.SMALLER, fewest=fewest, of=of
    )


def _means(application: str) -> tuple[Probe, ...]:
    """Of what is scored: rates and shares, whose samples are whole seconds already."""
    return tuple(
        Probe(
            name=one.name,
            application=application,
            metric=one.name,
            unit=one.unit,
            better=one.direction,
            fewest=_FEWEST_MEAN,
            of=lambda values, _given: statistics.fmean(values),
        )
        for one in APPLICATIONS[application].metrics
        if of_block(one.name) and (not one.name.endswith("_ms") or application not in _OWN)
    )


_WEB = ("click_ms", "sort_ms", "input_ms", "tab_switch_ms", "scroll_frame_ms")
_OWN: Mapping[str, tuple[Probe, ...]] = {
    "web": (
        *(one for metric in _WEB for one in _waits("web", metric)),
        *_frames("web", "scroll_frame_ms"),
    ),
    "game": (*_waits("game", "frame_ms"), *_frames("game", "frame_ms"), *_waits("game", "mspt_ms")),
    "audio": _audio(),
    "office": tuple(
        one for metric in ("key_ms", "recalc_ms", "slide_ms", "copy_ms") for one in _waits("office", metric)
    ),
}

PROBES: Mapping[str, tuple[Probe, ...]] = {name: (*_OWN.get(name, ()), *_means(name)) for name in APPLICATIONS}
"""By application: waits of the interactive ones, rates of all."""

MAIN: Mapping[str, tuple[str, ...]] = {
    "web": ("input_ms", "scroll_frame_ms"),
    "game": ("frame_ms",),
    "audio": ("block_pct",),
    "office": ("key_ms",),
}
"""The metric by which an interactive application is judged and its window sized. Of audio the block's time and not the
underruns: one of these is a whole pair."""


def judged(application: str) -> tuple[str, ...]:
    """The metrics of MAIN; of a load, which is judged where it plays alone, all that a block can tell."""
    return MAIN.get(application) or tuple(one.metric for one in PROBES[application])


MAIN_PROBE: Mapping[str, str] = {
    "web": "web.input_ms_p95",
    "game": "game.frame_ms_p95",
    "audio": "audio.block_ms_p95",
    "office": "office.key_ms_p95",
}
"""The one figure of an interactive application that a comparison is told by. Of a frame its time and not its lateness:
a share of what is nearly 0 says nothing."""
