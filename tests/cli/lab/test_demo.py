# SPDX-License-Identifier: GPL-2.0-only
"""The demonstration's judgement: what it shows, what it writes, and when its exit code is 0."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from asa import config, wire
from asa.cli.lab import demo
from asa.cli.lab.demo_view import View
from asa.cli.main import COMMANDS, parser
from asa.core.decision import Decision, Reason, SchedulerName, Vote
from asa.core.errors import AsaError
from asa.status import Status, Switched, Waiting
from scenarios import demo as demos
from scenarios.demo import Event, PhaseReport, last_switch

PHASES = ("idle", "cpu", "disk", "wakeup", "network")


def report(number, **changes):
    values = {
        "number": number,
        "workload": PHASES[number],
        "parameters": "",
        "seconds": 15.0,
        "recognised": PHASES[number],
        "confidence": 0.9,
        "recognise_s": 2.0 + number,
        "switch_s": 5.0,
        "named_by_table": "scx_rusty",
        "in_force": "scx_rusty",
        "right": True,
        "on_wanted": True,
    }
    return PhaseReport(**(values | changes))


def wrong(number):
    return report(number, recognised="spawn", right=False, recognise_s=None)


def judge(tmp_path, reports, *, left="disabled", exit_code=0, stalled=()):
    with View() as view:
        for one in reports:
            view.line(wire.json_text(Event(at_s=1.0, report=one)))
        view.line(wire.json_text(Event(at_s=2.0, left=left, stalled=stalled)))
        return view.summary(out=tmp_path / "run.json", facts={"cpus": 2}, exit_code=exit_code, setup_s=1.0, run_s=100.0)


def figures(capsys):
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    return {figure["name"]: figure for figure in map(json.loads, lines)}


def test_all_right(tmp_path, capsys):
    assert judge(tmp_path, [report(number) for number in range(5)]) == 0
    found = figures(capsys)
    assert list(found) == [
        "phases",
        "phases_recognised",
        "phases_on_wanted_scheduler",
        "recognise_median_s",
        "evicted_by_watchdog",
        "longest_gap_s",
        "longest_gap_host_s",
        "setup_s",
        "run_s",
    ]
    assert found["recognise_median_s"]["value"] == 4.0
    assert all(set(figure) == {"name", "value", "unit", "goal", "ok"} for figure in found.values())
    record = json.loads((tmp_path / "run.json").read_text())
    assert [phase["workload"] for phase in record["phases"]] == list(PHASES)
    assert record["sched_ext_left"] == "disabled"
    assert record["good"] is True


def test_a_gap_of_the_stage_stands_beside_the_hosts_time(tmp_path, capsys):
    with View() as view:
        for at_s in (1.0, 147.4, 148.0):  # a guest's clock that jumps
            view.line(wire.json_text(Event(at_s=at_s, say="a tick")))
        view.summary(out=tmp_path / "run.json", facts={}, exit_code=0, setup_s=1.0, run_s=3.0)
    found = figures(capsys)
    assert found["longest_gap_s"]["value"] == 146.4
    assert found["longest_gap_host_s"]["value"] <= 60.0
    timeline = json.loads((tmp_path / "run.json").read_text())["timeline"]
    assert [one["at_s"] for one in timeline] == [1.0, 147.4, 148.0]
    assert sorted(one["host_s"] for one in timeline) == [one["host_s"] for one in timeline]


def test_four_of_five_will_do(tmp_path, capsys):
    assert judge(tmp_path, [wrong(0), *(report(number) for number in range(1, 5))]) == 0
    assert figures(capsys)["phases_recognised"]["ok"]


@pytest.mark.parametrize(
    "case",
    [
        {"reports": [wrong(0), wrong(1), *(report(number) for number in range(2, 5))]},
        {"reports": [report(0, in_force="eevdf", on_wanted=False), *(report(number) for number in range(1, 5))]},
        {"reports": [report(number) for number in range(4)]},
        {"reports": []},
        {"reports": [report(number) for number in range(5)], "left": "enabled"},
        {"reports": [report(number) for number in range(5)], "exit_code": 1},
    ],
)
def test_what_is_not_good_enough(tmp_path, case):
    assert judge(tmp_path, **case) == 1
    assert json.loads((tmp_path / "run.json").read_text())["good"] is False
    assert (tmp_path / "run.json").exists()


def test_never_recognised_is_not_left_out_of_the_median(tmp_path, capsys):
    judge(tmp_path, [wrong(0), wrong(1), wrong(2), report(3), report(4)])
    assert figures(capsys)["recognise_median_s"]["value"] is None


def test_a_record_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "run.json").mkdir()
    with pytest.raises(AsaError, match=r"run\.json"):
        judge(tmp_path, [report(0)])


@pytest.mark.parametrize(("stalled", "count"), [((), 0), (("flash_1.1.4", "rusty_1.1.4"), 2), (None, None)])
def test_what_the_watchdog_took_out_is_shown_and_kept(tmp_path, capsys, stalled, count):
    assert judge(tmp_path, [report(number) for number in range(5)], stalled=stalled) == 0
    figure = figures(capsys)["evicted_by_watchdog"]
    assert (figure["value"], figure["ok"]) == (count, count == 0)
    kept = json.loads((tmp_path / "run.json").read_text())["stalled"]
    assert kept == (None if stalled is None else list(stalled))


def test_a_programs_own_words_are_shown(capsys):
    with View() as view:
        view.line("Segmentation fault")
    assert "Segmentation fault" in capsys.readouterr().out


def switched(at_ns, outcome="confirmed", **changes):
    values = {
        "at_ns": at_ns,
        "outcome": outcome,
        "old": "eevdf",
        "new": "scx_rusty",
        "way": "standby",
        "why": "",
        "detail": "",
        "elapsed_ns": 12_000_000,
        "gap_ns": 7_500_000,
        "ended": "",
    }
    return Switched(**values | changes)


def agent(*lately, way="gated", standbys=()):
    blank = {str: "", int: 0, float: 0.0, list[str]: []}
    required = [field for field in msgspec.structs.fields(Status) if field.required]
    return Status(
        **{field.name: blank.get(field.type, {}) for field in required}, lately=lately, way=way, standbys=standbys
    )


def test_a_phases_switch_is_its_last_that_was_made():
    made = [switched(5, way="gated"), switched(10), switched(20), switched(30, "refused")]
    assert last_switch(agent(*made), 20) is made[2]
    assert last_switch(agent(*made), 21) is None
    assert last_switch(agent(), 0) is None
    assert last_switch(None, 0) is None


def test_how_a_switch_was_made_is_shown(tmp_path, capsys):
    judge(tmp_path, [report(0, way="standby", gap_s=0.0075), report(1)])
    rows = [line for line in capsys.readouterr().out.splitlines() if "scx_rusty" in line and "ended" not in line]
    assert [("standby" in row, " 7.5 " in row) for row in rows] == [(True, True), (False, False)]


@pytest.mark.parametrize("emulated", [True, False])
def test_the_stages_settings(tmp_path, emulated):
    (tmp_path / "asa.yaml").write_text(demo._settings(1000, Path("/a b/lab.yaml"), emulated=emulated))
    settings = config.load(tmp_path / "asa.yaml", required=True)
    assert settings.guard.enabled is not emulated
    assert settings.guard.baseline_s == 0.0
    assert settings.voting.open_world is not emulated
    assert settings.policy.learn is config.Learn.OFF
    assert settings.table == "/a b/lab.yaml"
    assert settings.switch.trusted_owners == (1000,)


@pytest.mark.parametrize("emulated", [True, False])
def test_the_command_for_the_guest_is_one_that_asa_has(emulated):
    words = [*demo._DEMO[demo._DEMO.index("asa.cli") + 1 :], *demo._half(0, 3, emulated=emulated)]
    told = parser("lab", "demo").parse_args(words)
    assert (told.stage, told.seed, told.emulated) == (0, 3, emulated)
    assert words[0] in COMMANDS


def decision(reason=Reason.SERVED, standbys=()):
    return Decision(
        monotonic_ns=0,
        probabilities=None,
        vote=Vote(workload=None, confidence=0.0),
        workload=None,
        wanted=None,
        current=None,
        switch_to=None,
        reason=reason,
        sentence="",
        standbys=standbys,
    )


def test_a_phase_has_its_time_unless_a_switch_is_under_way():
    assert not demos.late(44, decision())
    assert demos.late(45, decision())
    assert demos.late(45, None)
    assert not demos.late(200, decision(Reason.BUSY))


def test_the_first_phase_waits_for_what_the_agent_loads():
    chosen = decision(standbys=(SchedulerName("scx_rusty"), SchedulerName("scx_flash")))
    loading, ready = (
        [Waiting(scheduler=name, ready=told, memory_bytes=0, since_ns=0) for name in chosen.standbys]
        for told in (False, True)
    )
    assert not demos.loaded(None, agent())
    assert not demos.loaded(chosen, None)
    assert not demos.loaded(decision(), agent())  # it has not chosen yet
    assert not demos.loaded(chosen, agent(standbys=(ready[0], loading[1])))
    assert demos.loaded(chosen, agent(standbys=tuple(ready)))
    assert demos.loaded(decision(), agent(way="plain"))


def test_the_watchdogs_evictions_are_read_from_the_kernels_log(tmp_path):
    log = tmp_path / "kmsg"
    os.mkfifo(log)  # as the device, it gives what is written at once, then has no more for now
    keeper = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    os.write(keeper, b'4,539,2292386,-;sched_ext: BPF scheduler "flash_1.1.4" disabled (runnable task stall)\n')
    assert demos.stalled(log) == ("flash_1.1.4",)
    os.write(keeper, b'6,540,2292387,-;sched_ext: BPF scheduler "flash_1.1.4" disabled (unregistered from BPF)\n')
    assert demos.stalled(log) == ()
    os.write(keeper, b'12,541,2292388,-;sched_ext: BPF scheduler "x" disabled (runnable task stall)\n')  # a program's
    assert demos.stalled(log) == ()
    os.close(keeper)
    assert demos.stalled(tmp_path / "none") is None
