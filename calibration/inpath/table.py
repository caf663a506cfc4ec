# SPDX-License-Identifier: GPL-2.0-only
"""The post's table in the lab: a scheduler that waits for a model, one that has a cache, and the model off the path.

The three are one scheduler (scx_asks.bpf.c), first come first served, that differs in when its loop asks. A pause of
half a second stands for the model, as the post has it for an answer. Two rows more are ours: EEVDF, and EEVDF while the
adviser's own child asks a real server without a pause, which is more than the 60 questions an hour that it may ask. The
load is the scale benchmark's `requests`, built as schbench is: the post's three figures are its.
"""

import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

from asa.core.errors import AsaError
from calibration.paired import paired
from calibration.policies import playing
from calibration.policies.played import Orders, Played, Subject
from calibration.policies.playing import Bench, Tell
from calibration.scale.samples import METRICS, Metric, Mode

ANSWER_US = 500_000
POST: Mapping[str, tuple[float, float, float]] = {
    "CFS": (3.068, 243.968, 102.0),
    "blocking": (1_939.456, 7_708.672, 6.0),
    "cached": (201.984, 2_009.088, 41.0),
}
"""Of the post: wakeup and request, 99th percentiles in ms, and requests a second, the median. One machine, one run."""

BLOCKING, CACHED, APART, ADVISER = "blocking", "cached", "apart", "adviser"
_NAME = "inpath"
_TARGET = "scx_asks"
_SOURCES = tuple(Path(__file__).with_name(f"{_TARGET}{end}") for end in (".bpf.c", ".c"))
_ROUNDS, _SEED, _SECONDS = 3, 4, 10.0
_WANTED = ("request_wakeup_p99", "request_p99", "requests")
_FLOOR_PCT = 0.1  # the smallest scatter that means anything
_ASKS = (sys.executable, "-P", "-m", "calibration.inpath.asks")  # -P: root imports nothing from the folder


def orders(bench: Bench) -> Orders:
    """Of the guest."""
    program = str(bench.built(_TARGET, _SOURCES))
    asking = tuple(
        Subject(name=how, ops="asks", command=(program, how, str(ANSWER_US))) for how in (BLOCKING, CACHED, APART)
    )
    return Orders(
        subjects=(bench.own(), *asking, Subject(name=ADVISER, command=_ASKS)),
        measures=(bench.scale(Mode.REQUESTS, _SECONDS),),
        rounds=_ROUNDS,
        seed=_SEED,
    )


def off_path(tell: Tell) -> tuple[float, str]:
    """Requests a second with the adviser asking beside them, less those without, in per cent; and the table.

    Raises AsaError.
    """
    found = playing.played(_NAME, orders, tell)
    own, beside = (_by_round(found, name, _metrics()["requests"]) for name in ("eevdf", ADVISER))
    change = paired([100.0 * (beside[one] - own[one]) / own[one] for one in own if one in beside], _FLOOR_PCT)
    if change is None:
        raise AsaError(f"{_NAME}: no round has both; remove {playing.KEPT / _NAME}.json and measure again")
    rows = [f"{name} {_row(found, name)}" for name in ("eevdf", BLOCKING, CACHED, APART, ADVISER)]
    posts = [f"{name} {_shown(*values)}" for name, values in POST.items()]
    between = "" if change.low is None else f"{change.low:+.1f} to {change.high:+.1f}, {change.pairs} rounds; "
    what = "wakeup and request p99, requests a second"
    return change.mean, f"{between}{what}: {'; '.join(rows)}; the post: {'; '.join(posts)}"


def _metrics() -> dict[str, Metric]:
    return {one.name: one for one in METRICS if one.name in _WANTED}


def _row(found: Played, name: str) -> str:
    metrics = _metrics()
    values = [
        [metrics[one].factor * value for value in _by_round(found, name, metrics[one]).values()] for one in _WANTED
    ]
    if not all(values):
        return "not played"
    wakeup_ms, request_ms, served = (statistics.median(one) for one in values)
    return _shown(wakeup_ms, request_ms, served)


def _shown(wakeup_ms: float, request_ms: float, served: float) -> str:
    return f"{wakeup_ms:.1f} ms, {request_ms:.1f} ms, {served:.0f}"


def _by_round(found: Played, subject: str, metric: Metric) -> dict[int, float]:
    told = {}
    for one in found.readings:
        if (one.subject, one.label) == (subject, metric.mode) and (value := metric.value(one.values)) is not None:
            told[one.round] = value
    return told
