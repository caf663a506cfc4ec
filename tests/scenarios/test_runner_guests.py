# SPDX-License-Identifier: GPL-2.0-only
"""The host's side of a run in the lab: what a guest that crashes, hangs, or does not boot costs."""

from pathlib import Path

import pytest

from asa import wire
from asa.core.errors import GuestCrashError, LabError
from scenarios import guests, runner_folder
from scenarios.application import Tier
from scenarios.catalogue import find
from scenarios.energy import Power
from scenarios.lab.guest import GuestResult
from scenarios.runner import Orders
from scenarios.runner_guests import Guests, parts
from scenarios.runner_plan import Asked, Outcome, Result, make

SCENARIOS = find("S1..S3")
ASKED = Asked(
    tier=Tier.LAB,
    scenarios=tuple(one.label for one in SCENARIOS),
    schedulers=("eevdf", "scx_simple"),
    repeats=2,
    seed=1,
    seconds=1.0,
    warm_up_s=0.0,
    cpus=2,
)
POWER = Power(idle_w=5.0, cores=())
TRIALS = make(ASKED, SCENARIOS, "run").trials


class FakeGuest:
    """Plays one step of its orders at each look; `fault` says of a trial what happens instead of its end."""

    def __init__(self, out, orders, fault):
        self.out = Path(out)
        self.orders = orders
        self.fault = fault
        self.lines = []
        self.steps = self.play()
        self.stopped = False

    def play(self):
        for trial in self.orders.trials:
            self.lines += ["a program's own words", f"begin {trial.id}"]
            yield None
            match self.fault(trial):
                case "crash":
                    raise GuestCrashError("the guest's kernel crashed: 'Oops'")
                case "hang":
                    while True:
                        yield None
                case "end":
                    yield GuestResult(exit_code=1, boot_s=1.0, run_s=1.0, console=self.out)
            result = Result(trial=trial, outcome=Outcome.DONE, attempts=1, started_ns=1, took_s=1.0)
            runner_folder.write(self.out / f"{trial.id}.json", result)
            self.lines.append(f"end {trial.id}")
            yield None
        yield GuestResult(exit_code=0, boot_s=1.0, run_s=1.0, console=self.out)

    def poll(self):
        assert not self.stopped
        return next(self.steps)

    def output(self):
        lines, self.lines = self.lines, []
        return lines, ["last words of the guest"]

    def stop(self):
        self.stopped = True


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(guests, "_LOOK_S", 0.0)
    booted, kept = [], []

    def boot_with(fault):
        def boot(command, out, limit_s):
            orders = wire.from_json(Path(command[-1]).read_bytes(), Orders)
            assert Path(orders.out) == out
            booted.append(FakeGuest(out, orders, fault))
            return booted[-1]

        return boot

    def play(fault, at_once=2, boot=None):
        with Guests(
            boot=boot or boot_with(fault),
            out=tmp_path / "guests",
            seconds=1.0,
            warm_up_s=0.0,
            power=POWER,
            keep=kept.append,
            begin=lambda _: None,
        ) as guests:
            guests.play(TRIALS, at_once)
        assert all(guest.stopped for guest in booted)
        assert sorted(result.trial.order for result in kept) == [trial.order for trial in TRIALS]
        return {result.trial.id: result for result in kept}, booted

    return play


def test_all_is_played_in_equal_parts(lab):
    results, booted = lab(lambda _: "")
    assert {result.outcome for result in results.values()} == {Outcome.DONE}
    assert [len(guest.orders.trials) for guest in booted] == [len(TRIALS) // 2] * 2
    assert {guest.orders.power for guest in booted} == {POWER}


def test_no_part_is_too_long():
    many = list(parts(TRIALS * 10, 2))
    assert [trial for part in many for trial in part] == list(TRIALS * 10)
    assert max(map(len, many)) == 16
    assert list(parts([], 2)) == []


@pytest.mark.parametrize("fault", ["crash", "end"])
def test_a_guest_that_is_lost_costs_one_trial_a_second_chance(lab, fault):
    chances = []
    results, booted = lab(lambda t: fault if t is bad(t) and not chances.append(t) and len(chances) < 2 else "")
    assert {result.outcome for result in results.values()} == {Outcome.DONE}
    assert {name: one.attempts for name, one in results.items() if one.attempts != 1} == {TRIALS[3].id: 2}
    assert len(booted) == 3


def bad(trial):
    return trial if trial.id == TRIALS[3].id else None


def test_what_crashes_each_guest_has_failed_and_the_rest_goes_on(lab):
    results, booted = lab(lambda trial: "crash" if bad(trial) else "")
    failed = [result for result in results.values() if result.outcome is Outcome.FAILED]
    assert [(one.trial.id, one.failure, one.attempts) for one in failed] == [(TRIALS[3].id, "guest", 2)]
    assert failed[0].reason == "the guest's kernel crashed: 'Oops'"
    assert failed[0].last_words.endswith("last words of the guest")
    assert len(booted) == 4


def test_a_guest_that_hangs_is_ended(lab, monkeypatch):
    monkeypatch.setattr(Guests, "trial_limit_s", 0.2)
    results, _ = lab(lambda trial: "hang" if bad(trial) else "")
    assert results[TRIALS[3].id].reason == "did not end within 0 s"
    assert [result.outcome for result in results.values()].count(Outcome.FAILED) == 1


def test_guests_that_do_not_boot_end_the_run(lab):
    class Dead(FakeGuest):
        def poll(self):
            raise LabError("the guest did not boot within 240 s")

    booted = []

    def boot(_command, out, _limit_s):
        booted.append(Dead(out, Orders(trials=(), seconds=1.0, warm_up_s=0.0, out=str(out)), None))
        return booted[-1]

    with pytest.raises(LabError, match="3 guests in a row did not get to work: the guest did not boot"):
        lab(None, boot=boot)
    assert len(booted) <= 4
    assert all(guest.stopped for guest in booted)
