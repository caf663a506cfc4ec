# SPDX-License-Identifier: GPL-2.0-only
"""The pure step over recordings of real programs: decisions out, the same ones every time."""

from collections import Counter
from dataclasses import replace

import pytest

from asa import paths
from asa.act.portfolio import Portfolio
from asa.config import GuardSettings, Method, PolicySettings, Voting
from asa.core.decision import (
    EEVDF,
    Judgement,
    Permit,
    Probabilities,
    Reason,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Workload,
)
from asa.core.regime import REGIMES
from asa.core.sample import SchedExtState
from asa.decide import table
from asa.decide.table import Entry
from asa.journal import Journal
from asa.pipeline import Setup, State, step
from models.runtime import Ensemble
from scenarios import planted

RECORDINGS = sorted((paths.base_model().parents[1] / "recordings").glob("*.journal.xz"))


@pytest.fixture(scope="module")
def setup():
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    shipped = table.load(paths.mapping_tables() / "default.yaml", portfolio.modes())
    return Setup(
        classifier=Ensemble.load(paths.base_model()),
        table=planted.into(shipped, dict.fromkeys(("wakeup", "cpu"), ("scx_bpfland", "scx_p2dq", "eevdf"))),
        voting=Voting(),
        policy=PolicySettings(),
        name_of_ops=portfolio.name_of_ops,
        permit=Permit(switch=True),
        guard=GuardSettings(baseline_s=0.0),
    )


@pytest.fixture(scope="module")
def session():
    """Samples of one session of `wakeup` on a kernel without sched_ext, given one."""
    with Journal.unpack(next(path for path in RECORDINGS if "host" in path.name)) as journal:
        number = next(one.number for one in journal.sessions() if one.header.label == "wakeup")
        state = SchedExtState(state="disabled", ops="", enable_seq=0)
        return [replace(sample, sched_ext=state) for sample in journal.samples(number)]


def play(setup, samples, news=()):
    state, decisions = State(), []
    for sample in samples:
        state = step(setup, state, sample, news if sample is samples[-1] else ())
        decisions.append(state.decision)
    return decisions


def test_a_recording_replays_to_the_same_decisions(setup, session):
    assert play(setup, session) == play(setup, session)


class Estranged:
    """A classifier that finds from some tick on that what it sees fits none of its classes, whatever it is like."""

    def __init__(self, known_ticks):
        self.classes, self._left = (Workload("cpu"), Workload("wakeup")), known_ticks

    def judge(self, frame):
        self._left -= 1
        values = (0.0, 1.0) if self._left >= 0 else (1.0, 0.0)
        probabilities = Probabilities(classes=self.classes, values=values)
        return Judgement(probabilities=probabilities, score=0.5, known=self._left >= 0)


@pytest.mark.parametrize("method", list(Method))
def test_what_fits_no_class_is_switched_to_nothing(setup, session, method):
    setup = replace(setup, classifier=Estranged(8), voting=Voting(method=method))
    decisions = play(setup, session)
    assert Counter(one.switch_to is not None for one in decisions)[True] == 1  # for wakeup, while it was known
    assert decisions[-1].workload is None  # not recognised for longer than the dwell
    assert decisions[-1].vote.workload != "cpu"
    strange = play(replace(setup, classifier=Estranged(0)), session)
    assert all(one.switch_to is None and one.workload is None for one in strange)
    assert strange[-1].sentence == (
        "workload not recognised: looked like cpu (100%), refused: fits no class; "
        "the mapping table has no entry for regime:heavy-waking"
    )
    assert strange[-1].probabilities is not None
    nearest = play(replace(setup, classifier=Estranged(0), voting=Voting(method=method, open_world=False)), session)
    assert nearest[-1].workload == "cpu"
    assert any(one.switch_to is not None for one in nearest)


def test_a_session_is_recognised_and_switched_for_once(setup, session):
    decisions = play(setup, session)
    assert decisions[0].reason is Reason.NO_RATES
    assert decisions[-1].workload == "wakeup"
    orders = [decision for decision in decisions if decision.switch_to is not None]
    assert [order.switch_to for order in orders] == ["scx_bpfland"]  # and then it waits for word of it
    assert decisions[-1].reason is Reason.BUSY
    dwell_ns = orders[0].monotonic_ns - next(one.monotonic_ns for one in decisions if one.workload == "wakeup")
    assert dwell_ns >= setup.policy.dwell_s * 1e9


def test_a_class_met_first_is_measured_before_it_is_switched_for(setup, session):
    decisions = play(replace(setup, guard=GuardSettings()), session)
    reasons = [decision.reason for decision in decisions]
    assert Reason.BASELINE in reasons
    start_ns = decisions[reasons.index(Reason.BASELINE)].monotonic_ns
    orders = [decision for decision in decisions if decision.switch_to is not None]
    assert all(18e9 <= order.monotonic_ns - start_ns <= 21e9 for order in orders)
    assert bool(orders) == (decisions[-1].monotonic_ns - start_ns > 21e9)


def test_news_is_heard(setup, session):
    event = SwitchEvent(
        monotonic_ns=session[-2].monotonic_ns,
        outcome=SwitchOutcome.FAILED,
        old=EEVDF,
        new=SchedulerName("scx_bpfland"),
        elapsed_ns=1,
        detail="",
        undo="",
    )
    assert play(setup, session, (event,))[-1].wanted == "scx_p2dq"


def test_without_sched_ext_it_only_observes(setup, session):
    decisions = play(setup, [replace(sample, sched_ext=None) for sample in session])
    assert decisions[-1].reason is Reason.OBSERVING
    assert decisions[-1].current is None


def test_a_gap_is_not_judged(setup, session):
    later = replace(session[1], monotonic_ns=session[0].monotonic_ns + 3600 * 10**9)
    decisions = play(setup, [session[0], later])
    assert decisions[-1].probabilities is None
    assert decisions[-1].reason is Reason.NO_RATES


def test_without_a_source_it_goes_on(setup, session):
    for missing in ("disk", "network", "pressure", "process", "paging", "memory", "connections"):
        decisions = play(setup, [replace(sample, **{missing: None}) for sample in session])
        assert decisions[-1].probabilities is not None, missing
    assert play(setup, [replace(sample, cpu=None) for sample in session])[-1].reason is Reason.NO_RATES


HEAVY = Workload("regime:heavy-waking")


def test_a_table_that_ranks_a_regime_switches_for_it(setup, session):
    entries = (Entry(scheduler="scx_flash", why="mine", evidence=planted.evidence()),)
    ranked = replace(setup.table, rankings={**setup.table.rankings, HEAVY: entries})
    decisions = play(replace(setup, classifier=Estranged(0), table=ranked), session)
    assert decisions[-1].workload == decisions[-1].vote.regime == HEAVY
    assert decisions[-1].vote.workload is None
    (order,) = [one for one in decisions if one.switch_to is not None]
    assert (order.switch_to, order.reason) == ("scx_flash", Reason.BETTER)
    assert order.sentence.startswith("scx_flash suits regime:heavy-waking better than eevdf")


def test_the_regime_is_known_before_it_is_asked_for(setup, session):
    known, last = State(), State()
    for sample in session:
        known = step(setup, known, sample)
        last = step(replace(setup, classifier=Estranged(0)), last, sample)
        assert known.regime == last.regime
    assert known.regime.workload == HEAVY
    assert known.decision.vote.regime is None
    gap = replace(session[-1], monotonic_ns=session[-1].monotonic_ns + 3600 * 10**9)
    assert step(setup, last, gap).decision.vote.regime is None


def test_the_shipped_tables_rank_no_regime(setup):
    for path in table.shipped(paths.mapping_tables()):
        assert not [name for name in table.read(path).classes if name in REGIMES]
    assert not any(setup.table.ranking(name) for name in REGIMES)
