# SPDX-License-Identifier: GPL-2.0-only
"""The made-up desktop has hints that count, and the cost is of them."""

from pathlib import Path

from asa.core.decision import Workload
from asa.core.kinds import Kind
from asa.decide import evidence, hints
from calibration.recognition import hint_cost


def test_hints_of_the_made_up_desktop_are_weighed(monkeypatch):
    table = hints.load(Path("/nowhere/asa.yaml"), 1.0)
    now = hint_cost._sample(2)
    found = evidence.of_tick(hint_cost._sample(1), now, table, evidence.at_work((), now))
    assert (found.interactive[Kind.WRITE], found.interactive[Kind.PLAY]) == (1.0, 1.0)
    pooled = []
    real = evidence.pooled
    monkeypatch.setattr(evidence, "pooled", lambda *given: pooled.append(given) or real(*given))
    cost = hint_cost.measure((Workload("web"), Workload("game")), turns=200)
    assert (cost.step, len(pooled)) == (hint_cost.STEP, 200)
    assert 0 < cost.median_us <= cost.p99_us
    assert cost.mean_us > 0
