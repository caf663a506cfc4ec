# SPDX-License-Identifier: GPL-2.0-only
"""The undo journal puts back exactly what one of ours has set, whoever sets what meanwhile."""

import pytest
from undo_machine import BEFORE, EPP, GOVERNOR, QOS, RCU, TURBO, UNCORE, machine

from asa.act.undo import UndoJournal

__all__ = ["machine"]  # a fixture


def loaded(machine, journal, name="scx_flash", **changes):
    """A scheduler that sets something while it loads, up to its attach."""
    journal.keep_settings()
    child = machine.process()
    journal.note(name, child.pid)
    for file, value in (changes or {QOS[0]: "32", QOS[1]: "32"}).items():
        machine.set(file, value)
    return child


def test_what_a_parked_one_has_set_waits_for_its_turn(machine):
    journal = machine.journal()
    child = loaded(machine, journal)
    journal.settled(child.pid)
    assert machine.now() == BEFORE
    journal.apply(child.pid)
    assert machine.now() == BEFORE | dict.fromkeys(QOS, "32")
    journal.forget(child.pid)
    assert journal.put_back() == ["pm_qos_resume_latency_us of 2 CPUs: 32 -> 0"]
    assert machine.now() == BEFORE
    assert journal.put_back() == []


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "killed while it loads"])
def test_what_a_killed_one_leaves_is_put_back_by_the_next_agent(machine, settled):
    journal = machine.journal()
    child = loaded(machine, journal, **{QOS[0]: "32", EPP: "power", TURBO: "1", UNCORE: "800000"})
    if settled:
        journal.settled(child.pid)
        journal.apply(child.pid)
    assert machine.now()[EPP] == "power"
    child.kill()
    child.wait()
    said = machine.journal().recover(1.0)
    assert machine.now() == BEFORE
    assert said is not None
    for words in ("pm_qos_resume_latency_us: 32 -> 0", "energy_performance_preference: power -> balance_performance"):
        assert words in said
    assert "running" not in said


def test_what_somebody_else_sets_meanwhile_stays(machine):
    journal = machine.journal()
    child = loaded(machine, journal)
    journal.settled(child.pid)
    journal.apply(child.pid)
    machine.set(QOS[0], "100")
    machine.set(GOVERNOR, "performance")
    machine.set(EPP, "performance")
    journal.apply(child.pid)
    journal.forget(child.pid)
    assert journal.put_back() == ["pm_qos_resume_latency_us: 32 -> 0"]  # of the second CPU
    assert machine.now() == BEFORE | {QOS[0]: "100", GOVERNOR: "performance", EPP: "performance"}


def test_a_governor_is_never_put_back_on_suspicion(machine):
    journal = machine.journal()
    child = loaded(machine, journal, **{GOVERNOR: "performance", QOS[0]: "32"})
    journal.forget(child.pid)  # it ended before it was known what it had set: no scheduler sets a governor
    assert journal.put_back() == ["pm_qos_resume_latency_us: 32 -> 0"]
    assert machine.now() == BEFORE | {GOVERNOR: "performance"}


def test_what_a_user_sets_between_schedulers_is_the_new_normal(machine):
    journal = machine.journal()
    child = loaded(machine, journal)
    journal.settled(child.pid)
    journal.apply(child.pid)
    machine.set(EPP, "power")
    other = loaded(machine, journal, "scx_p2dq", **{EPP: "performance"})  # while the first is in force
    journal.settled(other.pid)
    assert machine.now()[EPP] == "power"
    journal.apply(other.pid)
    assert machine.now()[EPP] == "performance"
    assert machine.now()[QOS[0]] == "0"
    journal.forget(other.pid)
    journal.put_back()
    assert machine.now() == BEFORE | {EPP: "power"}


def test_an_old_one_that_restores_late_does_not_undo_the_new_one(machine):
    journal = machine.journal()
    old = loaded(machine, journal)
    journal.settled(old.pid)
    journal.apply(old.pid)
    new = loaded(machine, journal, "scx_p2dq", **{QOS[0]: "10"})
    journal.settled(new.pid)
    assert machine.now()[QOS[0]] == "32"  # the one in force keeps what it wants
    journal.apply(new.pid)
    machine.set(QOS[0], "0")  # the old one ends, and restores
    machine.set(QOS[1], "0")
    journal.forget(old.pid)
    journal.apply(new.pid)
    assert machine.now() == BEFORE | {QOS[0]: "10"}


def test_one_that_restores_what_another_had_set_is_put_right(machine):
    journal = machine.journal()
    old = loaded(machine, journal)
    journal.settled(old.pid)
    journal.apply(old.pid)
    new = loaded(machine, journal, "scx_flash:performance")  # it takes 32 for the old value
    journal.settled(new.pid)
    journal.forget(old.pid)
    journal.apply(new.pid)
    machine.set(QOS[0], "32")  # and restores it
    journal.forget(new.pid)
    assert journal.put_back() == ["pm_qos_resume_latency_us: 32 -> 0"]


@pytest.mark.parametrize("end", ["it is dropped", "the agent is killed", "it cannot be killed"])
def test_what_a_user_sets_is_never_taken_for_the_doing_of_one_with_copies(machine, end, monkeypatch):
    journal = machine.journal()
    journal.keep_settings()
    child = machine.process()
    journal.note("scx_flash", child.pid, journal.remembered())
    if end == "it is dropped":  # while it loads
        journal.forget(child.pid)
        machine.set(EPP, "power")
        assert journal.put_back() == []
    elif end == "the agent is killed":
        machine.set(EPP, "power")
        assert "settings" not in (machine.journal().recover(1.0) or "")
    else:
        monkeypatch.setattr(UndoJournal, "_end", lambda _, left, __: left)
        machine.set(EPP, "power")
        assert "not even SIGKILL" in (machine.journal().recover(0.0) or "")
        assert machine.journal().put_back() == []
    assert machine.now() == BEFORE | {EPP: "power"}


def test_what_one_with_copies_found_is_not_what_it_wants(machine):
    journal = machine.journal()
    journal.keep_settings()
    child = machine.process()
    journal.note("scx_flash", child.pid, journal.remembered() | {EPP: "performance"})
    machine.set(EPP, "power")  # a user, while it loads
    journal.keep_settings()  # another one is launched
    assert journal.remembered()[EPP] == "power"
    machine.set(EPP, "performance")  # stands for its copy, which still has what it was given
    journal.settled(child.pid)
    assert journal._wishes[child.pid] == {}


def test_cpus_that_went_away_are_skipped(machine):
    journal = machine.journal()
    child = loaded(machine, journal)
    journal.settled(child.pid)
    journal.apply(child.pid)
    (machine.sys / QOS[1]).unlink()
    journal.forget(child.pid)
    assert journal.put_back() == ["pm_qos_resume_latency_us: 32 -> 0"]
    assert not (machine.sys / QOS[1]).exists()
    machine.set(QOS[1], "0")


def test_a_file_that_cannot_be_written_is_said_and_tried_again(machine, monkeypatch):
    journal = machine.journal()
    child = loaded(machine, journal)
    journal.settled(child.pid)
    journal.apply(child.pid)
    journal.forget(child.pid)
    (machine.sys / QOS[0]).unlink()
    (machine.sys / QOS[0]).symlink_to(machine.sys / GOVERNOR.replace("scaling_governor", "copy"))  # ELOOP
    machine.set(GOVERNOR.replace("scaling_governor", "copy"), "32")
    assert any("cannot be set to '0'" in line for line in journal.put_back())
    assert "cannot be set to '0'" in (machine.journal().recover(1.0) or "")
    (machine.sys / QOS[0]).unlink()
    machine.set(QOS[0], "32")
    machine.journal().recover(1.0)
    assert machine.now()[QOS[0]] == "0"


def test_grace_periods_are_put_back_when_the_switch_made_them_short(machine):
    journal = machine.journal()
    journal.expedite()
    assert machine.now()[RCU] == "1"
    journal.relax()
    assert machine.now()[RCU] == "0"
    journal.expedite()
    assert machine.journal().recover(1.0) == "settings it had changed: rcu_expedited: 1 -> 0"
    assert machine.now()[RCU] == "0"
    assert machine.journal().recover(1.0) is None


def test_grace_periods_that_somebody_else_made_short_stay(machine):
    machine.set(RCU, "1")
    journal = machine.journal()
    journal.keep_settings()
    journal.expedite()
    journal.relax()
    assert machine.now()[RCU] == "1"
    assert machine.journal().recover(1.0) is None
    machine.set(RCU, "0")
    journal.expedite()
    journal.relax()
    machine.set(RCU, "1")  # somebody, after the switch
    assert machine.journal().recover(1.0) is None
    assert machine.now()[RCU] == "1"


def test_a_kernel_without_these_files_is_no_error(machine, tmp_path):
    journal = UndoJournal(machine.path, sys=tmp_path / "nothing")
    journal.keep_settings()
    journal.expedite()
    journal.relax()
    assert journal.put_back() == []
