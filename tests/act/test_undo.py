# SPDX-License-Identifier: GPL-2.0-only
"""The undo journal ends exactly the processes that were noted, and puts back exactly what one of ours has set."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asa.act.undo import UndoJournal, start_ticks
from asa.core.errors import AsaError

CPU = "devices/system/cpu"
QOS = [f"{CPU}/cpu{number}/power/pm_qos_resume_latency_us" for number in range(2)]
GOVERNOR = f"{CPU}/cpu0/cpufreq/scaling_governor"
EPP = f"{CPU}/cpu0/cpufreq/energy_performance_preference"
TURBO = f"{CPU}/intel_pstate/no_turbo"
UNCORE = f"{CPU}/intel_uncore_frequency/package_00_die_00/max_freq_khz"
RCU = "kernel/rcu_expedited"
BEFORE = {
    QOS[0]: "0",
    QOS[1]: "0",
    GOVERNOR: "powersave",
    EPP: "balance_performance",
    TURBO: "0",
    UNCORE: "3600000",
    RCU: "0",
}


class Machine:
    """A tree like /sys, the journal's file, and processes."""

    def __init__(self, folder):
        self.sys = folder / "sys"
        self.path = folder / "run/undo.json"
        for name, value in BEFORE.items():
            (self.sys / name).parent.mkdir(parents=True, exist_ok=True)
            self.set(name, value)
        self.children = []

    def journal(self):
        return UndoJournal(self.path, sys=self.sys)

    def set(self, name, value):
        (self.sys / name).write_text(f"{value}\n")

    def now(self):
        return {name: (self.sys / name).read_text().strip() for name in BEFORE}

    def process(self, *, deaf=False):
        code = "import signal, time; print(flush=True); time.sleep(60)"
        if deaf:
            code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {code}"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert child.stdout is not None
        child.stdout.readline()  # it is up, its signal handling settled
        self.children.append(child)
        return child


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    for child in machine.children:
        child.kill()
        child.wait()
        child.stdout.close()


def test_what_was_left_is_stopped(machine):
    child, other = machine.process(), machine.process()
    first = machine.journal()
    first.note("scx_test", child.pid)
    first.note("scx_other", other.pid)
    assert [one.scheduler for one in machine.journal().leftover()] == ["scx_test", "scx_other"]
    said = machine.journal().recover(limit_s=20.0)
    assert (child.wait(5), other.wait(5)) == (-signal.SIGINT, -signal.SIGINT)
    assert said == (
        f"an earlier agent had left scx_test (pid {child.pid}), scx_other (pid {other.pid}) running; they were stopped"
    )
    assert not machine.path.exists()
    assert machine.journal().recover(1.0) is None


def test_one_that_was_forgotten_goes_on(machine):
    child, other = machine.process(), machine.process()
    first = machine.journal()
    first.note("scx_test", child.pid)
    first.note("scx_other", other.pid)
    first.forget(child.pid)
    machine.journal().recover(limit_s=20.0)
    assert other.wait(5) == -signal.SIGINT
    assert child.poll() is None


def test_one_that_ignores_sigint_is_killed(machine):
    child = machine.process(deaf=True)
    machine.journal().note("scx_test", child.pid)
    machine.journal().recover(limit_s=0.2)
    assert child.wait(5) == -signal.SIGKILL


def test_one_that_nothing_ends_stays_noted(machine, monkeypatch):
    child = machine.process()
    machine.journal().note("scx_test", child.pid)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)  # as one in an uninterruptible sleep
    said = machine.journal().recover(limit_s=0.01)
    assert said is not None
    assert f"not even SIGKILL ends {child.pid}" in said
    assert [one.pid for one in machine.journal().leftover()] == [child.pid]


def test_a_recycled_pid_is_left_alone(machine):
    child = machine.process()
    machine.journal().note("scx_test", child.pid)
    text = machine.path.read_text()
    machine.path.write_text(text.replace(str(start_ticks(child.pid)), "1"))
    assert machine.journal().recover(limit_s=0.2) is None
    assert child.poll() is None


def test_the_agent_never_ends_itself(machine):
    machine.journal().note("scx_test", os.getpid())
    assert machine.journal().recover(limit_s=0.2) is None


def test_one_that_is_gone_is_not_noted(machine):
    journal = machine.journal()
    assert journal.recover(1.0) is None
    journal.note("scx_gone", 2**22 + 1)  # no such process
    assert journal.leftover() == ()
    journal.forget(2**22 + 1)


def test_own_start_time_is_known():
    assert start_ticks(os.getpid()) == start_ticks(os.getpid())
    assert start_ticks(2**22 + 1) is None


def test_there_is_a_bound(machine, tmp_path):
    journal = UndoJournal(machine.path, proc=tmp_path / "proc")
    for pid in range(100, 165):
        stat = tmp_path / f"proc/{pid}/stat"
        stat.parent.mkdir(parents=True)
        stat.write_text(f"{pid} (x) S {'1 ' * 40}")
    for pid in range(100, 164):
        journal.note("scx_test", pid)
    with pytest.raises(AsaError, match="64 schedulers of ours are running"):
        journal.note("scx_test", 164)
    (tmp_path / "proc/100/stat").unlink()
    journal.note("scx_test", 164)  # the ones that are gone make room
    assert len(UndoJournal(machine.path, proc=tmp_path / "proc").leftover()) == 64


def test_a_journal_that_cannot_be_written_is_an_error(machine):
    machine.path.parent.write_text("not a folder")
    for call in (lambda: machine.journal().note("scx_test", os.getpid()), machine.journal().keep_settings):
        with pytest.raises(AsaError, match=r"undo\.json: cannot write the undo journal"):
            call()


@pytest.mark.parametrize(
    "body", ["{half", "[]", '{"running": [{"pid": 1}]}', '{"running": 1e99}', '{"ours": {"a": 1}}']
)
def test_a_damaged_file_is_said_once_and_gone(machine, body):
    machine.path.parent.mkdir()
    machine.path.write_text(body)
    assert machine.journal().leftover() == ()
    said = machine.journal().recover(1.0)
    assert said is not None
    assert "what it left is not known" in said
    assert machine.journal().recover(1.0) is None


def test_only_a_regular_file_is_believed(machine):
    machine.path.parent.mkdir()
    os.mkfifo(machine.path)
    said = machine.journal().recover(1.0)
    assert said is not None
    assert "not a regular file" in said
    target = machine.path.with_name("elsewhere")
    target.write_text("{}")
    machine.path.symlink_to(target)
    assert machine.journal().recover(1.0) is not None
    assert not machine.path.is_symlink()


def settings_of(**changes):
    return json.dumps({"running": [], "settings": {}, "ours": {}, **changes})


def test_no_path_of_the_journal_is_trusted(machine, tmp_path):
    victims = {
        "kernel/other": "x",
        f"{CPU}/cpu0/online": "1",
        f"{CPU}/../../../../elsewhere": "1",
        f"{CPU}/cpu0/power/pm_qos_resume_latency_us/../control": "1",
        str(tmp_path / "elsewhere"): "1",
    }
    for name in ("sys/kernel/other", f"sys/{CPU}/cpu0/online", f"sys/{CPU}/cpu0/power/control", "elsewhere"):
        (tmp_path / name).write_text("1")
    machine.path.parent.mkdir()
    body = settings_of(
        settings=dict.fromkeys(victims, "7"), ours={name: [value, "1"] for name, value in victims.items()}
    )
    machine.path.write_text(body)
    machine.journal().recover(1.0)
    assert (tmp_path / "elsewhere").read_text() == "1"
    assert (machine.sys / CPU / "cpu0/online").read_text() == "1"
    assert (machine.sys / CPU / "cpu0/power/control").read_text() == "1"
    assert (machine.sys / "kernel/other").read_text() == "1"


def test_only_a_value_that_the_file_can_hold_is_written(machine):
    machine.set(QOS[0], "32")
    machine.path.parent.mkdir()
    machine.path.write_text(settings_of(settings={QOS[0]: "rm -rf"}, ours={QOS[0]: ["32"]}))
    machine.journal().recover(1.0)
    assert machine.now()[QOS[0]] == "32"


NAMES = st.sampled_from([*BEFORE, "kernel/other", "../x", ""])
VALUES = st.sampled_from(["0", "32", "powersave", "n/a", "1", "x" * 100, ""])
DAMAGED = st.one_of(
    st.binary(max_size=200),
    st.fixed_dictionaries(
        {},
        optional={
            "running": st.lists(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "scheduler": st.text(max_size=5),
                        "pid": st.one_of(st.integers(), st.just("child")),
                        "start_ticks": st.integers(max_value=5),
                        "settled": st.booleans(),
                    },
                ),
                max_size=3,
            ),
            "settings": st.dictionaries(NAMES, VALUES),
            "ours": st.dictionaries(NAMES, st.lists(VALUES, max_size=3)),
            "doubtful": st.booleans(),
            "other": st.none(),
        },
    ),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damaged=DAMAGED)
def test_whatever_the_file_says_no_stranger_is_touched(machine, damaged):
    if not machine.children:
        machine.process()
    (child,) = machine.children
    if isinstance(damaged, dict):
        for one in damaged.get("running", ()):
            if one.get("pid") == "child":
                one["pid"] = child.pid
        damaged = json.dumps(damaged).encode()
    machine.path.parent.mkdir(exist_ok=True)
    machine.path.write_bytes(damaged)
    for name, value in BEFORE.items():
        machine.set(name, value)
    machine.journal().recover(0.0)
    assert child.poll() is None
    for name, value in machine.now().items():
        # only a well-formed journal that names this file with another value it can hold gets it written
        assert value == BEFORE[name] or f'"{name}"'.encode() in damaged
        assert value in ("0", "32", "powersave", "n/a", "1", BEFORE[name])
    machine.journal().recover(0.0)
    assert not machine.path.exists()


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


STEPS = ("kept", "launched", "set", "settled", "expedited", "applied", "relaxed", "forgotten")


@pytest.mark.parametrize("last", STEPS)
def test_killed_after_each_step_nothing_is_left(machine, last):
    parked = machine.process()
    agent = os.fork()
    if agent == 0:  # the agent: does its steps and is killed by SIGKILL after one of them
        journal = machine.journal()
        steps = {
            "kept": journal.keep_settings,
            "launched": lambda: journal.note("scx_flash", parked.pid),
            "set": lambda: [machine.set(name, "32") for name in QOS],
            "settled": lambda: journal.settled(parked.pid),
            "expedited": journal.expedite,
            "applied": lambda: journal.apply(parked.pid),
            "relaxed": journal.relax,
            "forgotten": lambda: journal.forget(parked.pid),
        }
        for name, step in steps.items():
            step()
            if name == last:
                os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(agent, 0)[1]) == signal.SIGKILL
    said = machine.journal().recover(20.0)
    assert machine.now() == BEFORE
    assert not machine.path.exists()
    if last not in ("kept", "forgotten"):
        assert parked.wait(5) == -signal.SIGINT
        assert said is not None
        assert f"an earlier agent had left scx_flash (pid {parked.pid}) running; it was stopped" in said


def test_noting_is_cheap(machine):
    journal = machine.journal()
    journal.keep_settings()
    child = machine.process()
    spent = []
    for _ in range(50):
        start_s = time.thread_time()
        journal.note("scx_test", child.pid)
        journal.forget(child.pid)
        spent.append(time.thread_time() - start_s)
    assert min(spent) < 0.005  # 0.15 ms on an idle machine; a synchronous write to a disk would take longer
