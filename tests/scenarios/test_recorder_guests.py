# SPDX-License-Identifier: GPL-2.0-only
"""Recording in guests: what each plays, what is left after an interruption, and guests that crash. No guest boots."""

import pytest

from asa import wire
from asa.core.errors import GuestCrashError
from asa.core.sample import RawSample
from asa.journal import Journal, SessionHeader
from scenarios.conditions import Conditions
from scenarios.lab.guest import GuestResult
from scenarios.recorder import Outcome, Result, guest
from scenarios.recorder_guests import MOST_SESSIONS, Guests, Part, plan, present

LABELS = ("idle", "web", "web+llm")

UNDER = Conditions(clock="parallel", tick_hz=1000)


def sessions(parts):
    return sorted((label, part.seed, part.scheduler) for part in parts for label in part.labels)


def test_schedulers_take_turns_and_every_session_is_planned_once():
    found = sessions(plan(LABELS, sessions=3, seed=5, schedulers=("eevdf", "eevdf", "scx_lavd"), done=set()))
    assert [(label, seed) for label, seed, _ in found] == [(label, seed) for label in LABELS for seed in (5, 6, 7)]
    other = [(label, seed) for label, seed, scheduler in found if scheduler == "scx_lavd"]
    assert other == [("idle", 7), ("web", 6), ("web+llm", 5)]
    four = sessions(plan(LABELS, sessions=3, seed=5, schedulers=("eevdf", "eevdf", "eevdf", "scx_lavd"), done=set()))
    assert [scheduler for *_, scheduler in four].count("scx_lavd") == 2


def test_what_is_there_is_not_planned_and_keeps_its_turn():
    done = {("idle", 5), ("web", 7)}
    found = sessions(plan(LABELS, sessions=3, seed=5, schedulers=("eevdf", "eevdf", "scx_lavd"), done=done))
    assert len(found) == 7
    assert done.isdisjoint({(label, seed) for label, seed, _ in found})
    assert {(label, seed) for label, seed, scheduler in found if scheduler == "scx_lavd"} == {
        ("idle", 7),
        ("web", 6),
        ("web+llm", 5),
    }


def test_no_guest_has_too_much_to_lose():
    labels = [f"label{number}" for number in range(20)]
    parts = plan(labels, sessions=1, seed=1, schedulers=("eevdf",), done=set())
    assert [len(part.labels) for part in parts] == [MOST_SESSIONS, MOST_SESSIONS, 4]


class Desk:
    """Guests that pack a journal at once, but for those that are told to crash or to say nothing."""

    def __init__(self, folder):
        self.folder = folder
        self.crashes = 0
        self.empty = False
        self.booted, self.running, self.most, self.heard, self.lost = [], 0, 0, [], []

    def boot(self, command, out, limit_s):
        desk, part, packed = self, *command
        self.booted.append(part)
        self.running += 1
        self.most = max(self.most, self.running)
        lines = [wire.json_text(Outcome(workload=label, seed=part.seed, result=Result.KEPT)) for label in part.labels]

        class Guest:
            def poll(self):
                if desk.crashes:
                    desk.crashes -= 1
                    raise GuestCrashError("the guest's kernel crashed: 'Oops'")
                with Journal.open(out / "j.sqlite") as journal:
                    for label in () if desk.empty else part.labels:
                        journal.begin(header(label, part.seed))
                        journal.add(RawSample(monotonic_ns=1, wall_ns=1))
                    if not desk.empty:
                        journal.pack(packed)
                (out / "j.sqlite").unlink()
                return GuestResult(exit_code=1 if desk.empty else 0, boot_s=1.0, run_s=1.0, console=out)

            def output(self):
                return ["a program's own words", *lines], ["it is full"]

            def stop(self):
                desk.running -= 1

        return Guest()

    def play(self, parts, at_once=1):
        Guests(
            boot=self.boot,
            command=lambda part, packed: (part, packed),
            folder=self.folder,
            seconds=60,
            begun=lambda part: None,
            heard=self.heard.append,
            lost=lambda part, reason: self.lost.append((part, reason)),
        ).play(parts, at_once)


def header(label, seed):
    return SessionHeader(
        started_ns=1, asa_version="0", host=f"{guest(UNDER)}CPU", kernel="6", cpus=4, label=label, seed=seed, tier="lab"
    )


PARTS = [Part(scheduler="eevdf", seed=seed, labels=("idle", "web+llm")) for seed in range(3)]


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def test_every_part_becomes_a_packed_journal(desk, tmp_path):
    desk.play(PARTS, at_once=2)
    assert (desk.most, desk.running, desk.lost) == (2, 0, [])
    assert len(list(tmp_path.glob("*.journal.xz"))) == 3
    assert present(tmp_path, 4, UNDER) == {(label, seed) for label in ("idle", "web+llm") for seed in range(3)}
    assert present(tmp_path, 8, UNDER) == set()
    assert present(tmp_path, 4, Conditions()) == set()
    assert [outcome.workload for outcome in desk.heard[:2]] == ["idle", "web+llm"]
    desk.play(PARTS[:1])  # asked for again: beside the first, not over it
    assert len(list(tmp_path.glob("*.journal.xz"))) == 4


def test_a_crash_costs_a_part_another_guest(desk, tmp_path):
    desk.crashes = 1
    desk.play(PARTS)
    assert [part.seed for part in desk.booted] == [0, 1, 2, 0]
    assert desk.lost == []
    assert len(present(tmp_path, 4, UNDER)) == 6


def test_a_part_that_always_crashes_is_given_up_with_its_reason(desk, tmp_path):
    desk.crashes = 2
    desk.play(PARTS[:1])
    ((part, reason),) = desk.lost
    assert (part.seed, reason, desk.running) == (0, "the guest's kernel crashed: 'Oops'", 0)
    assert present(tmp_path, 4, UNDER) == set()


def test_a_guest_without_a_journal_says_why(desk):
    desk.empty = True
    desk.play(PARTS[:1])
    ((_, reason),) = desk.lost
    assert reason == "the guest's part ended with code 1; it said: 'it is full'"


def test_an_interrupt_stops_all_guests(desk):
    def interrupted(outcome):
        raise KeyboardInterrupt

    desk.heard = type("Heard", (), {"append": staticmethod(interrupted)})
    with pytest.raises(KeyboardInterrupt):
        desk.play(PARTS, at_once=2)
    assert desk.running == 0
