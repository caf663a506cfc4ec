# SPDX-License-Identifier: GPL-2.0-only
"""Batches with a long tail: how much sooner than under EEVDF they end where the longest job comes first.

40 jobs, one of them a hundred times as long (batch.c), under EEVDF, under the preset `ljf`, which is told no names, and
under an oracle, which is told the long one's. The first batch of a turn has no history: there `ljf` goes by what jobs
have run. The second one has it. A second size, one job twenty times as long, leaves more to gain.
"""

import statistics

from asa.core.errors import AsaError
from calibration.paired import Paired, paired
from calibration.policies import playing
from calibration.policies.played import Orders, Played
from calibration.policies.playing import Bench, Tell

_NAME = "longtail"
_ROUNDS, _SEED = 6, 1
_LJF, _ORACLE = "ljf", "oracle --member 0=batch-long"
HUNDRED, _TWENTY = "hundred", "twenty"
RATIO, UNIT_US = 100, 10_000
_COLD, KNOWN = 1, 2  # plays of a turn
ENDED, _BEGAN = "makespan_ns", "long_began_ns"
_FLOOR_PCT = 0.1  # the smallest scatter that means anything


def orders(bench: Bench) -> Orders:
    """Of the guest."""
    return Orders(
        subjects=(bench.own(), bench.composed("ljf"), bench.composed("oracle", "--member", "0=batch-long")),
        measures=(bench.batch(HUNDRED, RATIO, UNIT_US, KNOWN), bench.batch(_TWENTY, 20, UNIT_US, KNOWN)),
        rounds=_ROUNDS,
        seed=_SEED,
    )


def ljf(tell: Tell) -> tuple[float, str]:
    """In per cent of EEVDF's makespan, once jobs of these names have ended before. Raises AsaError."""
    found = playing.played(_NAME, orders, tell)
    cold, known = _gains(found, _LJF, HUNDRED, _COLD), _gains(found, _LJF, HUNDRED, KNOWN)
    twenty = _gains(found, _LJF, _TWENTY, KNOWN)
    return known.mean, f"{_shown(known)}; without history {_shown(cold)}; one job 20 times as long: {_shown(twenty)}"


def oracle(tell: Tell) -> tuple[float, str]:
    """The same, where the scheduler is told which job is the long one. Raises AsaError."""
    found = playing.played(_NAME, orders, tell)
    hundred, twenty = _gains(found, _ORACLE, HUNDRED, KNOWN), _gains(found, _ORACLE, _TWENTY, KNOWN)
    return hundred.mean, f"{_shown(hundred)}; one job 20 times as long: {_shown(twenty)}; {_bound(found)}"


def _gains(found: Played, subject: str, label: str, play: int) -> Paired:
    own, other = (found.values(name, label, play, ENDED) for name in ("eevdf", subject))
    gains = paired([100.0 * (own[one] - other[one]) / own[one] for one in own if one in other], _FLOOR_PCT)
    if gains is None:
        raise AsaError(
            f"{_NAME}: no round has eevdf and {subject}; remove {playing.KEPT / _NAME}.json and measure again"
        )
    return gains


def _shown(gain: Paired) -> str:
    between = "" if gain.low is None else f" ({gain.low:.1f} to {gain.high:.1f}, {gain.pairs} rounds)"
    return f"{gain.mean:.1f} %{between}"


def _bound(found: Played) -> str:
    # nothing ends sooner than the long job alone: the least that it took in any play, from when it began
    mean_ms = statistics.fmean(found.values("eevdf", HUNDRED, KNOWN, ENDED).values()) / 1e6
    alone_ms = min(one.values[ENDED] - one.values[_BEGAN] for one in found.readings if one.label == HUNDRED) / 1e6
    most = 100.0 * (1.0 - alone_ms / mean_ms)
    return f"at most {most:.1f} % can be had, as the long job alone takes {alone_ms:.0f} of {mean_ms:.0f} ms"
