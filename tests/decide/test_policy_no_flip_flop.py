# SPDX-License-Identifier: GPL-2.0-only
"""Guard and standing together, driven by signals made to confuse them, under the plainest policy that uses both.

The bound: a scheduler is taken back from a class at most three times in any hour (it is barred for 10, 20, 40 minutes).
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import guard, penalties
from asa.decide.guard import GuardState
from asa.decide.penalties import Bars
from asa.decide.signals import Signals

S = 1_000_000_000
WALL_NS = 1_700_000_000 * S
CLASSES = (Workload("web"), Workload("game"))
RANKING = (SchedulerName("scx_a"), SchedulerName("scx_b"))
STEP_S, COOLDOWN_S, HOURS = 3, 10, 3
REVERTS_AN_HOUR = 3

latencies_us = st.sampled_from([0.0, 100.0, 3000.0, 9000.0, 1e6])
# For so many ticks: the class, and what it shows under each scheduler.
phases = st.tuples(st.integers(1, 200), st.sampled_from(CLASSES), latencies_us, latencies_us, latencies_us)
HOSTILE = (1200, CLASSES[0], 0.0, 1e6, 1e6)  # everything but EEVDF is terrible, for ever


@pytest.fixture(autouse=True, scope="module")
def a_guard_that_is_quick_to_judge():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "ALPHA", 0.2)
        patch.setattr(guard, "WORSE_BY", 0.05)
        yield


def lived(script):
    """Lives HOURS through `script`, repeated; gives the times of all reverts and all switches, in s."""
    state, known = GuardState(), Bars()
    running, previous, switched_s = EEVDF, None, -COOLDOWN_S
    reverts, switches, now_s = [], [], 0
    while now_s < HOURS * 3600:
        for ticks, workload, *latency in script:
            shown = dict(zip((EEVDF, *RANKING), latency, strict=True))
            for tick in range(ticks):
                now_s += STEP_S
                now_ns, wall_ns = now_s * S, WALL_NS + now_s * S
                signals = Signals(run_queue_p99_us=shown[running] * (1 + tick % 7 / 100))
                state = guard.observe(state, now_ns=now_ns, workload=workload, scheduler=running, signals=signals)
                verdict = guard.judge(state, workload=workload, scheduler=running, previous=previous)
                if verdict is not None:
                    known = penalties.lower(
                        known,
                        workload=workload,
                        scheduler=running,
                        version="v",
                        wall_ns=wall_ns,
                        why=verdict.sentence,
                    )
                    reverts.append((now_s, workload, running))
                out = penalties.barred(known, workload, wall_ns, {})
                wanted = next((name for name in RANKING if name not in out), EEVDF)
                baseline = running == EEVDF and guard.lacking(state, workload=workload)
                if wanted != running and not baseline and (verdict or now_s - switched_s >= COOLDOWN_S):
                    running, previous, switched_s = wanted, running, now_s
                    switches.append(now_s)
    return reverts, switches


def most_in_an_hour(times_s):
    return max((sum(start <= other < start + 3600 for other in times_s) for start in times_s), default=0)


@settings(max_examples=25, deadline=None)
@given(st.lists(phases, min_size=1, max_size=12))
def test_reverts_are_bounded_whatever_the_signals(script):
    reverts, _ = lived(script)
    for pair in {revert[1:] for revert in reverts}:
        assert most_in_an_hour([at_s for at_s, *same in reverts if tuple(same) == pair]) <= REVERTS_AN_HOUR


@settings(max_examples=15, deadline=None)
@given(st.lists(phases.map(lambda phase: (phase[0], CLASSES[0], *phase[2:])), min_size=1, max_size=12))
def test_a_single_class_causes_few_switches(script):
    """Each is a revert or the return from one, but the first."""
    _, switches = lived(script)
    assert most_in_an_hour(switches) <= 2 * REVERTS_AN_HOUR * len(RANKING) + 1


def test_the_bound_is_reached_and_held():
    reverts, switches = lived([HOSTILE])
    counts = Counter(scheduler for at_s, _, scheduler in reverts if at_s < 3600 + 60)
    assert counts == {"scx_a": 3, "scx_b": 3}
    assert most_in_an_hour(switches) <= 2 * REVERTS_AN_HOUR * len(RANKING) + 1
    assert len(reverts) == 5 * len(RANKING)  # in three hours: bars of 10, 20, 40 and 80 minutes lie between
