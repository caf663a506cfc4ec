# SPDX-License-Identifier: GPL-2.0-only
"""The guard: what it takes for worse, how seldom it errs, what is no evidence, and what it remembers."""

import dataclasses
import math
import random
from pathlib import Path

import pytest

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import guard
from asa.decide.guard import FEWEST_BLOCKS, LOOKS, MOST_BLOCKS, MOST_PAIRS, GuardState
from asa.decide.signals import Signal, Signals, of_rates
from collectors.rates import Rates

S = 1_000_000_000
WEB, GAME = Workload("web"), Workload("game")
OLD, NEW = SchedulerName("scx_old"), SchedulerName("scx_new")
RECORDINGS = Path(__file__).parents[2] / "models/recordings"


class Noise:
    """Four signals that wander on their own: logarithms are first-order autoregressive, `r` from tick to tick."""

    def __init__(self, seed, r=0.5, sigma=0.3, base_us=4000.0):
        self.chance = random.Random(seed)  # noqa: S311  # the same each time
        self.r, self.sigma, self.base_us = r, sigma, base_us
        self.state = [self.chance.gauss(0, 1) for _ in range(4)]

    def tick(self, times=1.0):
        fresh = math.sqrt(1 - self.r**2)
        self.state = [self.r * value + fresh * self.chance.gauss(0, 1) for value in self.state]
        queue, wakeup, timer = (self.base_us * times * math.exp(self.sigma * value) for value in self.state[:3])
        pressure = 1 / (1 + math.exp(-self.sigma * self.state[3]))
        return Signals(run_queue_p99_us=queue, wakeup_p99_us=wakeup, timer_late_us=timer, cpu_pressure=pressure)


class Machine:
    """Feeds ticks one second apart and keeps the first verdict."""

    def __init__(self, step_s=1.0):
        self.step_ns = int(step_s * S)
        self.state, self.now_ns = GuardState(), 0
        self.previous, self.running = None, EEVDF
        self.verdict = self.after_ticks = self.near = None

    def run(self, scheduler, ticks, workload=WEB):
        if scheduler != self.running:
            self.previous, self.running = self.running, scheduler
        for number, signals in enumerate(ticks, start=1):
            self.now_ns += self.step_ns
            self.state = guard.observe(
                self.state, now_ns=self.now_ns, workload=workload, scheduler=scheduler, signals=signals
            )
            verdict = guard.judge(self.state, workload=workload, scheduler=scheduler, previous=self.previous)
            near = guard.near(self.state, workload=workload, scheduler=scheduler, previous=self.previous)
            self.near = self.near or near
            if verdict is not None and self.verdict is None:
                self.verdict, self.after_ticks = verdict, number
        return self


def jittered(value_us, count, seed=1, **others):
    """`count` ticks around a run-queue latency, none like the other."""
    chance = random.Random(seed)  # noqa: S311
    return [Signals(run_queue_p99_us=value_us * chance.uniform(0.95, 1.05), **others) for _ in range(count)]


def trial(before_us, after_us, *, before=63, after=63, **others):
    return Machine().run(EEVDF, jittered(before_us, before, **others)).run(NEW, jittered(after_us, after, 2, **others))


def noisy_trial(seed, times, **noise):
    source = Noise(seed, **noise)
    machine = Machine()
    for scheduler, factor in ((EEVDF, 1.0), (OLD, 1.0), (NEW, times)):
        machine.run(scheduler, [source.tick(factor) for _ in range(63)])
    return machine


def test_a_doubled_p99_is_found_within_a_minute():
    found = [noisy_trial(seed, 2.0) for seed in range(40)]
    after = sorted(machine.after_ticks or math.inf for machine in found)
    assert after[len(after) // 2] <= 31  # half of them with the second look
    assert after[-2] <= 61
    assert all(machine.verdict.scheduler == NEW for machine in found if machine.verdict)


@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
def test_false_alarms_stay_below_alpha(monkeypatch, r):
    """Nothing is worse, only noisy and slow to change; what nobody feels is put out of play by a large base."""
    alpha, trials = 0.05, 300
    monkeypatch.setattr(guard, "ALPHA", alpha)
    monkeypatch.setattr(guard, "WORSE_BY", 0.05)
    alarms = sum(noisy_trial(seed, 1.0, r=r, sigma=0.5, base_us=80_000.0).verdict is not None for seed in range(trials))
    assert alarms <= trials * alpha


def test_a_verdict_says_what_it_saw():
    verdict = trial(4000, 9000).verdict
    assert (verdict.workload, verdict.scheduler, verdict.than) == (WEB, NEW, EEVDF)
    assert verdict.signal is Signal.RUN_QUEUE
    assert verdict.median == pytest.approx(9000, rel=0.05)
    assert verdict.reference_median == pytest.approx(4000, rel=0.05)
    assert (verdict.blocks, verdict.reference_blocks) == (6, 20)
    assert verdict.p <= verdict.level <= guard.ALPHA
    assert verdict.sentence.startswith(
        "web regressed under scx_new compared with eevdf: run-queue latency (p99) "
        f"{verdict.median / 1000:.1f} ms against {verdict.reference_median / 1000:.1f} ms"
    )


@pytest.mark.parametrize(
    ("before_us", "after_us", "worse"),
    [
        (500, 1500, False),  # three times as long, and still nobody feels it
        (40_000, 45_000, False),  # 5 ms more, but an eighth only
        (40_000, 55_000, True),
        (4000, 6500, True),
        (6500, 4000, False),
        (4000, 4000, False),
    ],
)
def test_what_nobody_feels_is_not_worse(before_us, after_us, worse):
    assert (trial(before_us, after_us).verdict is not None) == worse


def test_the_reference_that_it_lost_to_is_named():
    machine = Machine().run(EEVDF, jittered(9000, 63)).run(OLD, jittered(4000, 63, 3)).run(NEW, jittered(9000, 63, 2))
    assert machine.verdict.than == OLD
    machine = Machine().run(OLD, jittered(9000, 63, 3)).run(EEVDF, jittered(4000, 63)).run(OLD, jittered(9000, 3, 3))
    assert machine.run(NEW, jittered(9000, 63, 2)).verdict.than == EEVDF


def test_eevdf_is_never_judged():
    assert Machine().run(OLD, jittered(4000, 63)).run(EEVDF, jittered(9000, 63)).verdict is None


def test_without_enough_reference_there_is_no_verdict():
    short = (FEWEST_BLOCKS - 1) * 3
    machine = Machine().run(EEVDF, jittered(4000, short))
    assert guard.lacking(machine.state, workload=WEB) == 2  # the last block is not whole yet
    machine.run(NEW, jittered(9000, 63))
    assert guard.lacking(machine.state, workload=WEB) == 1
    assert machine.verdict is None
    assert trial(4000, 9000, before=short + 3).verdict is not None


def test_reference_adds_up_over_short_visits():
    machine = Machine()
    for visit in range(FEWEST_BLOCKS):
        machine.run(EEVDF, jittered(4000, 2, visit)).run(EEVDF, jittered(4000, 1, visit), workload=GAME)
    assert guard.lacking(machine.state, workload=WEB) == 0
    assert guard.lacking(machine.state, workload=GAME) == FEWEST_BLOCKS  # one tick alone is left out
    assert machine.run(NEW, jittered(9000, 63)).verdict is not None


@pytest.mark.parametrize(("hours", "known"), [(7.9, True), (8.1, False)])
def test_what_was_seen_a_working_day_ago_is_no_reference(hours, known):
    """Heat, updates and what lies in the background move what a class shows, whoever schedules it."""
    machine = Machine().run(EEVDF, jittered(4000, 63))
    machine.now_ns += int(hours * 3600 * S)
    machine.run(OLD, jittered(4000, 1), workload=GAME)  # another class comes between
    assert bool(guard.lacking(machine.state, workload=WEB)) is not known
    assert (machine.run(NEW, jittered(9000, 63)).verdict is not None) is known
    seen, seen_ns = machine.state.seen, machine.state.seen_ns
    assert {pair: len(blocks) for pair, blocks in seen.items()} == {pair: len(ends) for pair, ends in seen_ns.items()}


def test_a_short_visit_makes_an_old_reference_no_younger():
    machine = Machine().run(EEVDF, jittered(4000, 63))
    machine.now_ns += 7 * 3600 * S
    machine.run(EEVDF, jittered(4000, 4)).run(OLD, jittered(4000, 1), workload=GAME)
    assert guard.lacking(machine.state, workload=WEB) == 0
    machine.now_ns += 2 * 3600 * S
    machine.run(EEVDF, jittered(4000, 4), workload=GAME)
    assert len(machine.state.seen[WEB, EEVDF]) == 1  # the visit's, which is two hours old


def test_ticks_that_come_a_little_early_or_late_make_no_fewer_blocks():
    """Else a baseline of 20 s, which has room for 18, were mostly a block short, and no reference."""
    chance, state, now_ns = random.Random(5), GuardState(), 0  # noqa: S311
    for tick, signals in enumerate(jittered(4000, 20)):
        now_ns = int((tick + chance.uniform(-0.02, 0.02)) * S)
        state = guard.observe(state, now_ns=now_ns, workload=WEB, scheduler=EEVDF, signals=signals)
    assert guard.lacking(state, workload=WEB) == 0


def test_only_what_was_measured_since_the_switch_counts_against_a_scheduler():
    machine = Machine().run(NEW, jittered(9000, 63)).run(EEVDF, jittered(4000, 63)).run(NEW, jittered(9000, 63, 2))
    assert (machine.verdict.blocks, machine.verdict.reference_blocks) == (6, 20)


def test_the_least_probable_difference_is_named(monkeypatch):
    monkeypatch.setattr(guard, "ALPHA", 0.2)
    machine = Machine().run(EEVDF, jittered(4000, 3 * FEWEST_BLOCKS + 1))
    machine.run(OLD, jittered(4000, 63, 4)).run(NEW, jittered(9000, 63, 5))
    assert (machine.verdict.than, machine.verdict.reference_blocks) == (OLD, 20)  # against EEVDF there are six


def test_unknown_signals_are_no_evidence():
    nothing = [Signals()] * 63
    assert Machine().run(EEVDF, jittered(4000, 63)).run(NEW, nothing).verdict is None
    machine = Machine().run(EEVDF, nothing).run(NEW, jittered(9000, 63))
    assert machine.verdict is None
    assert guard.lacking(machine.state, workload=WEB) == FEWEST_BLOCKS


def test_a_block_known_for_less_than_half_is_unknown():
    thin = [signals if number % 3 == 0 else Signals() for number, signals in enumerate(jittered(9000, 63))]
    assert Machine().run(EEVDF, jittered(4000, 63)).run(NEW, thin).verdict is None
    thick = [signals if number % 3 else Signals() for number, signals in enumerate(jittered(9000, 63))]
    assert Machine().run(EEVDF, jittered(4000, 63)).run(NEW, thick).verdict is not None


@pytest.mark.parametrize("field", ["wakeup_p99_us", "timer_late_us", "cpu_pressure"])
def test_each_signal_alone_is_enough(field):
    low, high = (0.2, 0.5) if field == "cpu_pressure" else (4000, 9000)
    ticks = [[Signals(**{field: value * (1 + number % 5 / 100)}) for number in range(63)] for value in (low, high)]
    verdict = Machine().run(EEVDF, ticks[0]).run(NEW, ticks[1]).verdict
    assert verdict.signal is {"wakeup_p99_us": Signal.WAKEUP, "timer_late_us": Signal.TIMER}.get(field, Signal.PRESSURE)
    if field == "cpu_pressure":
        assert "CPU pressure 5" in verdict.sentence  # per cent
        assert " % against 20." in verdict.sentence


def test_a_class_that_changes_ends_the_trial_without_a_verdict():
    machine = Machine().run(EEVDF, jittered(4000, 63))
    for _ in range(3):
        machine.run(NEW, jittered(9000, 17)).run(NEW, jittered(9000, 3), workload=GAME)
    assert machine.verdict is None
    assert machine.run(NEW, jittered(9000, 19)).verdict is not None


@pytest.mark.parametrize("gap_s", [-3, 11])
def test_a_gap_ends_the_trial(gap_s):
    machine = Machine().run(EEVDF, jittered(4000, 63))
    for _ in range(3):
        machine.run(NEW, jittered(9000, 17))
        machine.now_ns += gap_s * S
    assert machine.verdict is None


def test_a_short_gap_does_not():
    machine = Machine().run(EEVDF, jittered(4000, 63)).run(NEW, jittered(9000, 10))
    machine.now_ns += 8 * S
    assert machine.run(NEW, jittered(9000, 12)).verdict is not None


def test_it_speaks_at_looks_only():
    machine = Machine().run(EEVDF, jittered(4000, 63))
    spoken = []
    for number in range(1, 100):
        machine.verdict = None
        machine.run(NEW, jittered(9000, 1, number))
        if machine.verdict:
            spoken.append(number)
    assert spoken == [3 * blocks + 1 for blocks, _ in LOOKS]
    assert sum(share for _, share in LOOKS) == pytest.approx(1.0)


def loaded(before, after, **others):
    """A latency that doubles, under one load and then another."""
    return Machine().run(EEVDF, jittered(4000, 63, **before)).run(NEW, jittered(9000, 63, 2, **after, **others))


MORE = [
    ("busy", 0.3, 0.5),
    ("wakeups", 1000.0, 1600.0),
    ("wakeups", 0.0, 501.0),
    ("forks", 10.0, 70.0),
    ("completed", 2000.0, 3100.0),
    ("programs", 3.0, 5.0),
    ("programs", 20.0, 24.0),
]


@pytest.mark.parametrize(("quantity", "before", "after"), MORE)
def test_a_load_that_grows_by_itself_is_not_blamed(quantity, before, after):
    assert loaded({quantity: before}, {quantity: after}).verdict is None
    assert loaded({}, {quantity: after}).verdict is not None  # unknown then
    assert loaded({quantity: before}, {}).verdict is not None


@pytest.mark.parametrize(("quantity", "after", "before"), MORE)
def test_less_work_done_excuses_nothing(quantity, after, before):
    """Whoever starves tasks makes less of all that is asked for."""
    assert loaded({quantity: before}, {quantity: after}).verdict.scheduler == NEW
    assert loaded({quantity: before}, {quantity: 0.0}).verdict.scheduler == NEW


@pytest.mark.parametrize(
    ("quantity", "before", "after"),
    [("busy", 0.5, 0.58), ("wakeups", 1000.0, 1450.0), ("forks", 10.0, 50.0), ("programs", 3.0, 4.0)],
)
def test_a_load_that_grows_a_little_is_no_excuse(quantity, before, after):
    assert loaded({quantity: before}, {quantity: after}).verdict.blocks == LOOKS[0][0]


def test_a_scheduler_that_makes_four_times_the_wait_and_more_tasks_able_to_run_is_taken_back():
    """What it makes of the load, tasks that are able to run, is not even among the signals."""
    assert not any("runn" in field.name for field in dataclasses.fields(Signals))
    same = {"busy": 0.8, "wakeups": 900.0, "forks": 3.0, "completed": 200.0, "programs": 4.0}
    starved = {"busy": 0.6, "wakeups": 350.0, "forks": 1.0, "completed": 60.0, "programs": 2.0}
    verdict = Machine().run(EEVDF, jittered(4000, 63, **same)).run(NEW, jittered(16_000, 63, 2, **starved)).verdict
    assert verdict.blocks == LOOKS[0][0]


@pytest.mark.parametrize(("quantity", "near"), [("busy", True), ("wakeups", True), ("forks", False)])
def test_an_excuse_that_the_scheduler_may_have_made_itself_is_near(quantity, near):
    before, after = next((before, after) for name, before, after in MORE if name == quantity)
    machine = loaded({quantity: before}, {quantity: after})
    assert machine.verdict is None
    assert (machine.near is not None) is near
    if near:
        assert (machine.near.scheduler, machine.near.than) == (NEW, EEVDF)
    assert loaded({}, {}).near is None  # it is a verdict


def test_only_the_blocks_with_far_less_to_do_are_left_out():
    machine = Machine().run(EEVDF, jittered(4000, 30, wakeups=1000.0) + jittered(4000, 33, wakeups=6000.0))
    verdict = machine.run(NEW, jittered(9000, 63, 2, wakeups=6000.0)).verdict
    assert FEWEST_BLOCKS <= verdict.reference_blocks < MOST_BLOCKS - 5
    assert verdict.than == EEVDF


def test_one_reference_may_be_left_out_and_the_other_not():
    machine = Machine().run(EEVDF, jittered(4000, 63, wakeups=1000.0)).run(OLD, jittered(4000, 63, 3, wakeups=5e3))
    assert machine.run(NEW, jittered(9000, 63, 2, wakeups=6e3)).verdict.than == OLD


def test_memory_is_bounded():
    machine = Machine()
    for number in range(2 * MOST_PAIRS):
        machine.run(OLD, jittered(4000, 70 if number % 16 == 0 else 6), workload=Workload(f"class {number}"))
        machine.run(EEVDF, jittered(4000, 6))
    seen = machine.state.seen
    assert len(seen) == MOST_PAIRS
    assert max(map(len, seen.values())) == MOST_BLOCKS
    assert (Workload("class 0"), OLD) not in seen
    assert {(WEB, EEVDF), (Workload(f"class {2 * MOST_PAIRS - 1}"), OLD)} <= set(seen)


def test_an_observation_leaves_the_earlier_state_alone():
    before = Machine().run(EEVDF, jittered(4000, 62)).state
    kept = dict(before.seen)
    signals = jittered(4000, 1)[0]
    for now_s in (63, 64, 65, 90):
        guard.observe(before, now_ns=now_s * S, workload=WEB, scheduler=EEVDF, signals=signals)
    assert before.seen == kept


def test_signals_come_from_rates():
    assert of_rates(Rates(), 4) == Signals()
    wakeups = Rates(wakeups_per_s=6000.0)
    assert of_rates(wakeups, 4) == Signals(wakeups=1500.0)
    assert of_rates(wakeups, None) == of_rates(wakeups, 0) == Signals()
    assert of_rates(Rates(disk_reads_per_s=3.0, network_sent_packets_per_s=4.0), None) == Signals(completed=7.0)
    assert of_rates(
        Rates(longest_wait_us=7e5, longest_kernel_wait_us=2e5, realtime_cpu_cores=0.5, forks_per_s=2.0), None
    ) == Signals(waited_us=7e5, kernel_waited_us=2e5, realtime_cores=0.5, forks=2.0)
    assert of_rates(
        Rates(
            run_queue_latency_p99_us=1.0,
            wakeup_latency_p99_us=2.0,
            pressure_cpu_some_share=0.3,
            timer_late_p99_us=4.0,
            cpu_idle_share=0.25,
            cpu_iowait_share=0.25,
            processes_busy=6.0,
        ),
        None,
    ) == Signals(run_queue_p99_us=1.0, wakeup_p99_us=2.0, cpu_pressure=0.3, timer_late_us=4.0, busy=0.5, programs=6.0)


def test_a_trial_that_is_broken_off_leaves_what_it_measured():
    assert guard.broken_off(GuardState()) == GuardState()
    machine = Machine().run(NEW, jittered(4000.0, 20))
    over = guard.broken_off(machine.state)
    assert over.trial is None
    assert len(over.seen[WEB, NEW]) == 7  # the seventh block of two ticks, as with any end
    machine.state = over
    assert machine.run(NEW, jittered(4000.0, 4)).state.trial.blocks == 1


def seconds(count, draw, seed=3):
    """`count` ticks of which the signals named are drawn."""
    chance = random.Random(seed)  # noqa: S311
    return [Signals(**draw(chance)) for _ in range(count)]


def test_frames_and_sound_that_break_with_a_scheduler_are_found():
    def fine(chance):
        return {"frames_missed": max(0.0, chance.uniform(-0.02, 0.02)), "underruns": 0.0}

    for worse in ({"frames_missed": 0.3}, {"underruns": 2.0}):

        def bad(chance, worse=worse):
            return fine(chance) | {name: value * chance.uniform(0.8, 1.2) for name, value in worse.items()}

        verdict = Machine().run(EEVDF, seconds(63, fine)).run(NEW, seconds(63, bad, 4)).verdict
        assert verdict.signal is (Signal.FRAMES if "frames_missed" in worse else Signal.SOUND)
    assert "sound underruns" in verdict.sentence
    assert " a second against 0.0 a second" in verdict.sentence


def test_a_game_that_misses_frames_under_any_scheduler_is_nobody_s_fault():
    def game(chance):
        return {"frames_missed": chance.uniform(0.2, 0.5)}

    assert Machine().run(EEVDF, seconds(63, game)).run(NEW, seconds(63, game, 5)).verdict is None


def test_what_is_done_moves_the_interval_of_pictures_and_progress_so_that_the_guard_does_not_look_at_them():
    def game(chance):
        return {"frame_ms": chance.uniform(6.0, 8.0), "piece_ms": chance.uniform(1.0, 2.0)}

    def film(chance):
        return {"frame_ms": chance.uniform(40.0, 42.0), "piece_ms": chance.uniform(10.0, 20.0)}

    assert Machine().run(EEVDF, seconds(63, game)).run(NEW, seconds(63, film, 6)).verdict is None


def test_progress_is_of_what_came_to_its_end():
    rates = dict.fromkeys((field.name for field in dataclasses.fields(Rates)), None)
    assert of_rates(Rates(**rates | {"exits_per_s": 30.0, "disk_writes_per_s": 20.0}), 2).piece_ms == 20.0
    assert of_rates(Rates(**rates | {"exits_per_s": 3.0, "network_received_packets_per_s": 900.0}), 2).piece_ms is None
