# SPDX-License-Identifier: GPL-2.0-only
"""Does a block depend on the one before it? A test of carry-over, and of the place in the round. Pure.

A block's figure is taken as a sum: of its round, of its scheduler, and of the scheduler before it. An F test says
whether the last part is there. Its largest effect is told in per cent, since a test of few rounds finds only large
ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from asa.core.decision import EEVDF
from calibration.switchback.samples import Block

_Array = NDArray[np.float64]
_PAUSE = "the pause"  # before the first block of a round


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOver:
    """`p` of the F test; None where too few blocks tell. `pct`: the largest effect, of the mean, and `after` whom."""

    blocks: int
    p: float | None = None
    pct: float | None = None
    after: str = ""


def carry_over(blocks: Sequence[Block], of: Callable[[Block], float | None]) -> CarryOver:
    """By a figure of each block; blocks with a trouble, or without the figure, are left out."""
    told = [(block, value) for block in blocks if not block.trouble and (value := of(block)) is not None]
    values = np.array([value for _, value in told])
    if not len(values) or not np.any(values):
        return CarryOver(blocks=len(told))
    rounds = _dummies([str(block.round) for block, _ in told])
    schedulers = _dummies([block.scheduler for block, _ in told])
    before = [block.after or _PAUSE for block, _ in told]
    names = [name for name in dict.fromkeys(before) if name != EEVDF]
    after = np.array([[float(one == name) for name in names] for one in before]).reshape(len(told), len(names))
    plain = np.hstack([np.ones((len(told), 1)), rounds, schedulers])
    whole = np.hstack([plain, after])
    fewer, more = np.linalg.matrix_rank(plain), np.linalg.matrix_rank(whole)
    free = len(told) - more
    if more == fewer or free < 1:
        return CarryOver(blocks=len(told))
    rest_plain, _ = _rest(plain, values)
    rest_whole, fitted = _rest(whole, values)
    effects = dict(zip(names, fitted[plain.shape[1] :], strict=True))
    largest = max(effects, key=lambda name: abs(effects[name]))
    p = 0.0
    if rest_whole > 0.0:
        ratio = (rest_plain - rest_whole) / (more - fewer) / (rest_whole / free)
        p = float(special.fdtrc(more - fewer, free, max(ratio, 0.0)))
    return CarryOver(blocks=len(told), p=p, pct=float(100.0 * effects[largest] / abs(values.mean())), after=largest)


def _dummies(words: Sequence[str]) -> _Array:
    """A column for each word but the first."""
    names = list(dict.fromkeys(words))[1:]
    return np.array([[float(word == name) for name in names] for word in words]).reshape(len(words), len(names))


def _rest(design: _Array, values: _Array) -> tuple[float, _Array]:
    fitted, *_ = np.linalg.lstsq(design, values, rcond=None)
    return float(np.sum((values - design @ fitted) ** 2)), np.asarray(fitted, dtype=np.float64)
