# SPDX-License-Identifier: GPL-2.0-only
"""The two curves of the ASA paper's section 4.2: stability from a spread, value from a figure; both give 0 to 1.

Pure arithmetic over plain numbers. It knows nothing of metrics, units and weights.
"""

import math

from scenarios.metric import Direction, ScoreError


def stability_score(sigma: float, *, k: float, gamma: float) -> float:
    """1 / (1 + k sigma^gamma): 1 for what never varies, towards 0 the more it does.

    `sigma` is a standard deviation, `k` has its unit to the power of minus `gamma`. Raises ScoreError for what is not
    finite, a negative spread, and constants that are not positive.
    """
    _positive("k", k)
    _positive("gamma", gamma)
    if not (math.isfinite(sigma) and sigma >= 0.0):
        raise ScoreError(what="sigma", value=sigma, allowed="a finite number from 0")
    return 1.0 / (1.0 + _steep(sigma, k, gamma))


def value_score(x: float, *, theta: float, f: float, k: float, gamma: float, direction: Direction) -> float:
    """1 / (1 + e^(+-k u^gamma)) with u = (x - theta) / f, whose sign the power keeps: 1/2 at `theta`.

    `x`, `theta` and `f` have one unit. With `k` = ln 9 and `gamma` = 1 it is 0.9 and 0.1 at theta -+ f, or the
    other way round. Raises ScoreError for what is not finite, and for constants that are not positive.
    """
    for name, constant in (("f", f), ("k", k), ("gamma", gamma)):
        _positive(name, constant)
    for name, number in (("x", x), ("theta", theta)):
        if not math.isfinite(number):
            raise ScoreError(what=name, value=number, allowed="a finite number")
    away = x / f - theta / f if math.isinf(x - theta) else (x - theta) / f
    steep = _steep(abs(away), k, gamma)
    worse = away > 0.0 if direction is Direction.SMALLER else away < 0.0
    small = math.exp(-steep)  # at most 1: never overflows, and 0 where a person cannot tell any more
    return small / (1.0 + small) if worse else 1.0 / (1.0 + small)


def _steep(base: float, k: float, gamma: float) -> float:
    # k * base^gamma; infinite where that is beyond a float, which both curves take for their end
    if base == 0.0:
        return 0.0
    try:
        return k * math.pow(base, gamma)
    except OverflowError:
        return math.inf


def _positive(name: str, constant: float) -> None:
    if not (math.isfinite(constant) and constant > 0.0):
        raise ScoreError(what=name, value=constant, allowed="a finite number above 0")
