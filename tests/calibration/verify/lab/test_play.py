# SPDX-License-Identifier: GPL-2.0-only
"""The stages in the lab, with a guest of the test's: its words make the reports, and a dead one is inconclusive."""

from types import SimpleNamespace

import pytest

from asa import wire
from asa.core.errors import GuestCrashError
from calibration.verify.lab import budget, gang, play, probes
from calibration.verify.lab.guest import Orders
from calibration.verify.lab.judge import Probed
from calibration.verify.report import Level, Stage, Verdict

LOADED = [
    Probed(probe="load", values={"seconds": 1.0}),
    Probed(probe="instructions", values={"dispatch": 700.0}),
    Probed(probe="end"),
]
EACH = (LOADED,) * len(budget.CPUS)  # the one of the trial's CPUs among them


@pytest.fixture
def stages(monkeypatch, tmp_path):
    """Plays with these words of each guest, an error for one that dies. Gives the reports and the orders."""

    def stages(*guests, kernels=(), **trial):
        orders, told = [], list(guests)

        def run(command, *, on_output, on_error, **_):
            orders.append(wire.from_json((tmp_path / "orders.json").read_bytes(), Orders))
            words = told.pop(0)
            for one in words:
                if isinstance(one, Exception):
                    raise one
                on_output(wire.json_text(one) if isinstance(one, Probed) else one)
            return SimpleNamespace(exit_code=0, console="")

        lab = SimpleNamespace(kernel=SimpleNamespace(version="own"), emulator=None)
        monkeypatch.setattr(play, "ready", lambda *_: lab)
        monkeypatch.setattr(play, "kernels", lambda _: kernels or (lab.kernel,))
        monkeypatch.setattr(play.guest, "run", run)
        made = play.Trial(program=("/bin/scx_mine", "-x"), cpus=2, soak_s=0.0, **trial)
        return tuple(play.stages(made, tmp_path, lambda _: None, tmp_path)), orders

    return stages


def test_all_probes_are_asked_for_and_foreign_lines_are_none(stages):
    words = [Probed(probe=name, own=name in probes.EACH) for name in probes.EACH]
    words += [Probed(probe=name) for name in (*probes.EACH, "hotplug", "reload", "kill")]
    (load, behaviour), orders = stages([*LOADED, "scx_mine says hello"], *EACH[1:], ["{}", *words])
    assert (load.stage, load.verdict) == (Stage.LOAD, Verdict.PASS)
    assert (behaviour.stage, behaviour.verdict) == (Stage.BEHAVIOUR, Verdict.PASS)
    assert [one.program for one in orders] == [("/bin/scx_mine", "-x")] * 5
    assert [one.cpus for one in orders] == [2, 1, 4, 9, 2]
    assert {one.probes for one in orders[:4]} == {()}
    assert orders[4].probes == tuple(name for name in play.PROBES if name != "soak")


def test_what_does_not_load_is_not_played(stages):
    (load,), _ = stages([Probed(probe="load", gone="it ended: refused")])
    assert load.verdict is Verdict.FAIL


def test_each_kernel_is_asked_and_no_more_cpus_after_a_fault(stages):
    old = SimpleNamespace(version="6.12")
    refused = [Probed(probe="load", gone="it ended: refused")]
    (load,), orders = stages(refused, refused, kernels=(old, SimpleNamespace(version="6.14")))
    assert [one.rule for one in load.findings] == ["load-6.12", "load-6.14"]
    assert [one.cpus for one in orders] == [2, 2]


def test_what_the_kernel_follows_is_held_against_the_budget(stages):
    many = [Probed(probe="instructions", values={"dispatch": 600_000.0}) if one is LOADED[1] else one for one in LOADED]
    (load,), orders = stages(LOADED, LOADED, LOADED, many)
    assert [one.rule for one in load.findings if one.level is Level.FAULT] == ["budget"]
    assert len(orders) == 4
    (load,), _ = stages([LOADED[0], LOADED[2]])
    assert (load.verdict, "told of no program" in load.died) == (Verdict.INCONCLUSIVE, True)


def test_a_lab_that_dies_is_inconclusive_in_each_stage(stages):
    (load,), _ = stages([GuestCrashError("the guest's kernel crashed")])
    assert (load.verdict, load.died) == (Verdict.INCONCLUSIVE, "the guest's kernel crashed")
    reports, _ = stages(*EACH, [Probed(probe="nice", own=True), GuestCrashError("it vanished")])
    assert (reports[1].verdict, reports[1].died) == (Verdict.INCONCLUSIVE, "it vanished")
    reports, _ = stages(*EACH, [Probed(probe="nice", gone="stall"), GuestCrashError("it vanished")])
    assert reports[1].verdict is Verdict.FAIL


def test_a_gang_tells_what_each_one_got():
    told = gang.play([gang.hog(), lambda _: [1, 2], *gang.pipes()], 2.0)  # to fork a large process takes a while
    seconds, units = told[0]
    assert units >= 1
    assert seconds >= 0
    assert told[1] == [1, 2]
    assert told[2][0] >= 1  # rounds


def test_who_does_not_come_back_is_none(monkeypatch):
    monkeypatch.setattr(gang, "GRACE_S", 0.0)
    read, write = gang.os.pipe()
    told = gang.play([lambda _: gang.os.read(read, 1).decode()], 0.01)
    assert told == [None]
    gang.os.close(write)
