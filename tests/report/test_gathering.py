# SPDX-License-Identifier: GPL-2.0-only
"""What a report says of journals whose figures are known."""

import tracemalloc

import pytest
from journals import SLOTS, START_WALL_NS, Machine, S, header

from asa.core.decision import (
    EEVDF,
    ExitKind,
    LoadCost,
    Reason,
    SchedulerExit,
    SwitchOutcome,
    Vote,
    Workload,
)
from asa.core.sample import FeltCounters
from asa.journal import Journal, Told
from asa.report import gathering
from asa.report.figures import Felt
from asa.report.gathering import gather
from asa.report.page import page
from asa.report.strip import MOST_BINS
from collectors.ebpf.layout import LATENCY_STARTS_NS

SLOW, FAST = 60, 40


def in_slot(value_us, slot):
    return LATENCY_STARTS_NS[slot] <= value_us * 1e3 <= LATENCY_STARTS_NS[slot + 1]


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as opened:
        yield opened


def a_switch(machine):
    """40 s of cpu under EEVDF, slow; a switch; 40 s under scx_one, fast."""
    for second in range(40):
        last = second == 39
        machine.tick(
            "cpu",
            slot=SLOW,
            stalled=0.5,
            switch_to="scx_one" if last else None,
            reason=Reason.BETTER if last else Reason.DWELL,
        )
    load = LoadCost(wall_ns=S, user_ns=S // 10, system_ns=S // 5, memory_bytes=1)
    machine.report("scx_one", why="better", gap_ns=5_000_000, load=load)
    for _ in range(40):
        machine.tick("cpu", slot=FAST, stalled=0.1)


def test_what_is_felt_is_told_of_each_scheduler(journal):
    """Under the first one a picture of ten is missed; it is unknown for a second, and then sound breaks, too."""
    journal.begin(header())
    machine = Machine(journal)
    counts = {"frames": 0, "missed": 0, "underruns": 0}

    def second(frames, missed, underruns, *, known=True):
        counts["frames"] += frames
        counts["missed"] += missed
        counts["underruns"] += underruns
        felt = FeltCounters(
            flips=counts["frames"],
            flip_gaps=(counts["frames"], *(0,) * 7),
            missed_frames=counts["missed"],
            drawn_ns=counts["frames"] * 20_000_000,
            drawn_refreshes=counts["frames"] + counts["missed"],
            input_flips=counts["frames"],
            input_flip_ns=counts["frames"] * 30_000_000,
            sound_underruns=counts["underruns"],
        )
        machine.tick("cpu", felt=felt if known else None)

    for _ in range(20):
        second(45, 5, 0)
    machine.report("scx_one")
    for number in range(20):
        second(50, 0, int(number >= 15))
    found = gather(journal, "j")
    slow, fast = found.pairs
    assert slow.felt.frames_missed_share == pytest.approx(0.1, abs=0.01)
    assert (fast.felt.frames, fast.felt.frames_missed_share, fast.felt.sound_underruns) == (950, 0.0, 5)
    assert fast.felt.frame_interval_mean_ms == 20
    assert fast.felt.input_to_flip_mean_ms == 30
    assert fast.felt.pieces_per_s is None
    text = page(found)
    assert text.count('data-value="20.0"') >= 2  # the interval of both
    assert 'id="felt"' in text


def test_what_nobody_measured_is_not_felt(journal):
    journal.begin(header())
    a_switch(Machine(journal))
    found = gather(journal, "j")
    assert {pair.felt for pair in found.pairs} == {Felt()}
    assert 'id="felt"' not in page(found)


def test_times_and_latencies_of_a_switch(journal):
    journal.begin(header())
    a_switch(Machine(journal))
    found = gather(journal, "j")
    assert (found.session_count, found.ticks, found.seconds) == (1, 80, 79.0)
    assert found.workloads == {"cpu": 79.0}
    assert found.schedulers == {"eevdf": 40.0, "scx_one": 39.0}
    assert found.reasons == {"dwell": 39.0, "served": 39.0, "better": 1.0}
    assert found.outcomes == {"confirmed": 1}
    slow, fast = found.pairs
    assert (slow.workload, slow.scheduler, slow.latencies.seconds) == ("cpu", "eevdf", 40.0)
    assert slow.latencies.cpu_pressure_share == pytest.approx((39 * 0.5 + 0.1) / 40)
    for value_us in (slow.latencies.wakeup_p99_us, slow.latencies.run_queue_p99_us, slow.latencies.timer_late_p99_us):
        assert in_slot(value_us, SLOW)
    assert in_slot(fast.latencies.wakeup_p99_us, FAST)
    (event,) = found.events
    assert (event.old, event.new, event.why, event.gap_ms, event.elapsed_ms) == (EEVDF, "scx_one", "better", 5.0, 250.0)
    assert event.load_cpu_ms == pytest.approx(300.0)
    assert event.at_ns == START_WALL_NS + 40 * S + S // 4
    assert event.offset_s == 39.25
    assert not event.taken_back
    for window, slot, pressure, workload in ((event.before, SLOW, 0.5, "cpu"), (event.after, FAST, 0.1, "cpu")):
        assert window.workload == workload
        assert window.latencies.seconds == 30.0
        assert window.latencies.cpu_pressure_share == pytest.approx(pressure)
        assert in_slot(window.latencies.run_queue_p99_us, slot)
    (costs,) = found.switch_costs
    assert (costs.scheduler, costs.way, costs.elapsed_ms.count, costs.elapsed_ms.p50) == ("scx_one", "gated", 1, 250.0)
    assert (costs.gap_ms.max, costs.load_cpu_ms.p95) == (5.0, pytest.approx(300.0))


def test_a_change_ends_the_window_after_the_one_before(journal):
    journal.begin(header())
    machine = Machine(journal)
    a_switch(machine)
    machine.report("scx_one", SwitchOutcome.LOST, in_force=str(EEVDF), exit=exit_of(ExitKind.STALL))
    for _ in range(10):
        machine.tick("cpu", slot=SLOW)
    machine.tick("cpu", slot=SLOW, switch_to="scx_two", reason=Reason.BETTER)
    machine.report("scx_two")
    machine.tick("cpu")
    first, lost, second = gather(journal, "j").events
    assert first.after.latencies.seconds == 30.0
    assert (lost.outcome, lost.ended) == ("lost", "stall: it hung (by the kernel's log)")
    assert in_slot(lost.before.latencies.wakeup_p99_us, FAST)
    assert lost.before.latencies.seconds == 30.0
    # 2.25 s of the 11 are left out: it had to settle
    assert lost.after.latencies.seconds == second.before.latencies.seconds == 8.0
    assert in_slot(lost.after.latencies.wakeup_p99_us, SLOW)
    assert second.after is None


def exit_of(kind):
    return SchedulerExit(kind=kind, reason="it hung", source="the kernel's log")


def test_an_order_that_came_to_nothing_leaves_no_window_behind(journal):
    journal.begin(header())
    machine = Machine(journal)
    for _ in range(10):
        machine.tick("cpu", slot=SLOW)
    machine.tick("cpu", slot=SLOW, switch_to="scx_one", reason=Reason.BETTER)
    machine.report("scx_one", SwitchOutcome.REFUSED, in_force=str(EEVDF))
    for _ in range(10):
        machine.tick("cpu", slot=FAST)
    machine.report("foe", SwitchOutcome.FOREIGN)
    machine.tick("cpu")
    refused, foreign = gather(journal, "j").events
    assert refused.before is refused.after is None
    assert in_slot(foreign.before.latencies.wakeup_p99_us, FAST)


def test_trials_that_ended(journal):
    journal.begin(header())
    machine = Machine(journal)
    a_switch(machine)
    machine.tick("cpu", trial="scx_one against eevdf for cpu: <alike> by shown")
    machine.tick("cpu")
    found = gather(journal, "j")
    (trial,) = found.trials
    assert (found.trial_count, trial.workload, trial.session) == (1, "cpu", 1)
    assert trial.sentence == "scx_one against eevdf for cpu: <alike> by shown"
    assert "&lt;alike&gt;" in page(found)


def test_verdicts_of_the_guard(journal):
    journal.begin(header())
    machine = Machine(journal)
    a_switch(machine)
    machine.tick("cpu", switch_to=str(EEVDF), reason=Reason.REVERTED, sentence="cpu regressed")
    machine.report(str(EEVDF))
    machine.tick("cpu")
    found = gather(journal, "j")
    (verdict,) = found.verdicts
    assert (found.verdict_count, verdict.workload, verdict.back_to) == (1, "cpu", "eevdf")
    assert (verdict.sentence, verdict.at_ns) == ("cpu regressed", START_WALL_NS + 81 * S)
    assert [event.taken_back for event in found.events] == [False, True]


def test_a_verdict_that_turns_have_shown_needs_no_switch(journal):
    journal.begin(header())
    machine = Machine(journal)
    machine.tick("cpu", wanted=str(EEVDF), reason=Reason.REVERTED, sentence="cpu regressed in turns")
    (verdict,) = gather(journal, "j").verdicts
    assert (verdict.back_to, verdict.sentence) == ("eevdf", "cpu regressed in turns")


def test_gaps_suspends_and_counters_that_begin_anew_count_for_nothing(journal):
    journal.begin(header())
    machine = Machine(journal)
    for _ in range(5):
        machine.tick("cpu", slot=FAST)
    machine.pass_time(59.0)
    for _ in range(5):
        machine.tick("cpu", slot=FAST)
    machine.suspend(3600)
    for _ in range(5):
        machine.tick("cpu", slot=FAST)
    machine.wakeups, machine.requeues, machine.timers = [0] * SLOTS, [0] * SLOTS, [0] * SLOTS
    for _ in range(5):
        machine.tick("disk", slot=SLOW)
    found = gather(journal, "j")
    assert found.seconds == 16.0
    (session,) = found.sessions
    timeline = session.timeline
    seen_s = sum(sum(one.workloads.values()) for one in timeline.bins)
    assert seen_s == pytest.approx(16.0)
    assert len(timeline.bins) * timeline.bin_s == pytest.approx(3679, abs=timeline.bin_s)
    by_class = {pair.workload: pair.latencies for pair in found.pairs}
    assert in_slot(by_class["cpu"].wakeup_p99_us, FAST)
    assert in_slot(by_class["disk"].wakeup_p99_us, SLOW)


def test_a_timeline_stays_small_and_loses_nothing(journal):
    journal.begin(header())
    machine = Machine(journal)
    for minute in range(40):
        for _ in range(60):
            machine.tick("cpu" if minute % 2 else "disk", slot=SLOW if minute % 2 else FAST)
    (session,) = gather(journal, "j").sessions
    bins, width_s = session.timeline.bins, session.timeline.bin_s
    assert MOST_BINS / 2 <= len(bins) <= MOST_BINS
    assert width_s == 8.0
    for name in ("cpu", "disk"):
        assert sum(one.workloads.get(name, 0.0) for one in bins) == pytest.approx(session.workloads[name])
    assert {tuple(one.workloads) for one in bins[:7]} == {("disk",)}
    assert in_slot(bins[3].wakeup_p99_us, FAST)
    assert in_slot(bins[11].wakeup_p99_us, SLOW)


def test_what_the_agent_cost(journal):
    journal.begin(header())
    machine = Machine(journal)
    for _ in range(11):
        machine.tick("cpu")
        machine.cost(cpu_ms=5)
    agent = gather(journal, "j").agent
    assert (agent.ticks, agent.cpu_pct, agent.resident_mb) == (11, pytest.approx(0.5), 44.0)
    assert (agent.parts_us["inference"].p50, agent.parts_us["journal"].max) == (150.0, 12.0)


def test_recordings_and_empty_sessions(journal):
    journal.begin(header(mode="", label="wakeup"))
    machine = Machine(journal)
    for _ in range(4):
        machine.pass_time(1.0)
        journal.add(machine.sample())
    journal.begin(header())
    found = gather(journal, "j")
    assert found.workloads == {"wakeup": 3.0}
    assert [(one.mode, one.ticks, one.seconds) for one in found.sessions] == [
        ("recording", 4, 3.0),
        ("switching", 0, 0),
    ]
    assert (found.agent, found.events, found.verdicts) == (None, (), ())


def test_only_the_newest_are_listed_and_all_are_counted(journal, monkeypatch):
    monkeypatch.setattr(gathering, "MOST_TIMELINES", 2)
    for _ in range(3):
        journal.begin(header())
        machine = Machine(journal)
        for _ in range(150):
            machine.tick("cpu")
            machine.report("scx_one", SwitchOutcome.REFUSED, in_force=str(EEVDF))
        machine.tick("cpu")
    found = gather(journal, "j")
    assert found.outcomes == {"refused": 450}
    assert len(found.events) == gathering.MOST_EVENTS
    assert [one.timeline is not None for one in found.sessions] == [False, True, True]
    assert [one.outcomes for one in found.sessions] == [{"refused": 150}] * 3


def test_what_comes_after_the_last_tick_is_told_too(journal):
    journal.begin(header())
    machine = Machine(journal)
    machine.tick("cpu")
    machine.report("scx_one", SwitchOutcome.REFUSED)
    journal.add_events(tuple(machine.news))
    assert gather(journal, "j").outcomes == {"refused": 1}


def test_memory_does_not_grow_with_the_session(journal):
    journal.begin(header())
    machine = Machine(journal)
    peaks = []
    for _ in range(2):
        for number in range(4000):
            machine.tick("cpu" if number % 50 else "disk", slot=FAST)
        tracemalloc.start()
        gather(journal, "j")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0] < 30e6


@pytest.mark.parametrize(
    ("permits", "mode"),
    [((), "observing"), ((False,), "observing"), ((True,), "switching"), ((True, False), "switching")],
)
def test_a_session_that_was_given_leave_to_switch_after_its_start(journal, permits, mode):
    journal.begin(header(mode="observing"))  # the daemon has not been answered by the helper yet
    machine = Machine(journal)
    machine.tick("cpu")
    for may_switch in permits:
        journal.tell(Told(monotonic_ns=machine.now_ns, may_switch=may_switch, may_stand_by=may_switch))
        machine.tick("cpu")
    (session,) = gather(journal, "j").sessions
    assert session.mode == mode


def test_time_of_unknown_use_by_regime(journal):
    journal.begin(header())
    machine = Machine(journal)
    unknown = {"confidence": 1.0, "unknown": True}
    for regime, seconds in (("heavy-computing", 20), (None, 10), ("light-waiting", 5), ("heavy-computing", 6)):
        vote = None if regime is None else Vote(workload=None, regime=Workload(f"regime:{regime}"), **unknown)
        for _ in range(seconds):
            machine.tick("cpu", vote=vote)
    found = gather(journal, "j")
    assert found.regimes == {"regime:heavy-computing": 25.0, "regime:light-waiting": 5.0}
    assert found.workloads == {"cpu": 40.0}
