# SPDX-License-Identifier: GPL-2.0-only
"""`asa explain` and what `asa status` shows of switching, from a status that an agent left, and from a journal."""

import argparse
import json
import os
import time
from dataclasses import replace

import msgspec
import pytest
from journals import Machine, header

import asa.decide.account  # noqa: F401  # now: while a test has another `Places` its annotations have no meaning
from asa import paths, status, wire
from asa.cli import explain, explain_features
from asa.cli import journal as journal_command
from asa.cli import status as status_command
from asa.cli import trial as trial_command
from asa.core.decision import (
    EEVDF,
    ExitKind,
    Reason,
    SchedulerExit,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Vote,
    Way,
    Workload,
)
from asa.core.errors import JournalError
from asa.core.sample import RawSample
from asa.journal import Journal, SessionHeader
from asa.status import Hinted, Learned, Place, Showing, Status, StatusFile, Switched, Tried, Trying, Waiting

S = 1_000_000_000
EMPTY = {"int": 0, "str": "", "float": 0.0, "list": [], "dict": {}}
RUSTY, FLASH = SchedulerName("scx_rusty"), SchedulerName("scx_flash")


def example(**changes):
    values = {
        field.name: EMPTY[getattr(field.type, "__name__", "")] if hasattr(field.type, "__name__") else None
        for field in msgspec.structs.fields(Status)
        if field.required
    }
    now_ns = time.time_ns()
    values |= {"pid": os.getpid(), "updated_ns": now_ns, "interval_s": 1.0, "scheduler_since_ns": now_ns - 60 * S}
    return Status(**(values | changes))


def explained(now_ns):
    return example(
        mode="switching",
        workload="cpu",
        confidence=0.84,
        probabilities={"idle": 0.1, "cpu": 0.84, "disk": 0.05, "memory": 0.01},
        scheduler="scx_flash",
        wanted="scx_flash",
        sentence="scx_flash serves cpu",
        table="/t/default.yaml",
        way="gated",
        standbys=(
            Waiting(scheduler="scx_simple", ready=True, memory_bytes=4_200_000, since_ns=now_ns),
            Waiting(scheduler="scx_lavd", ready=False, memory_bytes=0, since_ns=now_ns),
        ),
        barred=("scx_rusty",),
        ranking=(
            Place(scheduler="scx_rusty", why="first", out="worse here: it waits", until_ns=now_ns + 540 * S),
            Place(scheduler="scx_p2dq", why="next", out="off after 3 failures: it died"),
            Place(scheduler="scx_flash", why="third"),
            Place(scheduler="scx_simple", why="fourth"),
            Place(scheduler="eevdf", why="the kernel's own"),
        ),
        keeps_to="scx_flash",
        guard=(
            Showing(scheduler="eevdf", blocks=6, medians={"run-queue-p99": 2500.0, "cpu-pressure": 0.25}),
            Showing(scheduler="scx_flash", blocks=12, medians={"run-queue-p99": 1240.0, "timer-late-p99": None}),
        ),
        guard_blocks=12,
        guard_next_look=15,
        lately=tuple(
            Switched(
                at_ns=now_ns - 100 * S + number,
                outcome="confirmed",
                old=f"scx_{number}",
                new=f"scx_{number + 1}",
                way="standby",
                why="cpu is served better",
                detail="",
                elapsed_ns=14_000_000,
                gap_ns=9_300_000,
                ended="",
            )
            for number in range(8)
        ),
    )


@pytest.fixture
def places(tmp_path, monkeypatch):
    here = paths.Places(run=tmp_path / "run", sys=tmp_path / "sys", state=tmp_path)
    monkeypatch.setattr(paths, "default", lambda: here)
    monkeypatch.setattr(paths, "Places", lambda: here)
    return here


@pytest.fixture
def agent(places):
    file = StatusFile(places.run)
    yield file.write
    file.close()


def asked(command, *words):
    top = argparse.ArgumentParser()
    command.register(top.add_subparsers())
    name = command.__name__.rpartition(".")[2]
    arguments = top.parse_args([name, *words])
    return arguments.run(arguments)


HINT = Hinted(
    because=("one is in front (play 1.00)", "GameMode is on (play 1.00)"),
    interactive={"play": 1.0},
    background={},
    weight=0.0,
)


@pytest.mark.parametrize(
    ("hint", "line"),
    [
        (HINT, "hints      one is in front (play 1.00); GameMode is on (play 1.00); does not count: its weight is 0"),
        (msgspec.structs.replace(HINT, because=(), weight=0.5), "hints      none seen; counts with weight 0.5"),
        (None, None),
    ],
)
def test_status_and_explain_say_in_one_line_which_hint_was_seen(agent, capsys, hint, line):
    agent(example(mode="observing", hint=hint))
    for command in (status_command, explain):
        assert asked(command) == 0
        told = [one for one in capsys.readouterr().out.splitlines() if one.startswith("hints")]
        assert told == ([] if line is None else [line])
        assert asked(command, "--json") == 0
        told = json.loads(capsys.readouterr().out)["agent"]["hint"]
        assert told == (None if hint is None else json.loads(wire.json_text(hint)))


def test_all_that_speaks_for_the_scheduler_in_force(agent, capsys):
    agent(explained(time.time_ns()))
    assert asked(explain, "--last", "2") == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = [line for line in lines if " ms without either" in line]
    assert lines[:5] == [
        "agent      switching",
        "workload   cpu (84%)",
        "votes      cpu 84%, idle 10%, disk 5% in this tick",
        "scheduler  scx_flash for 60 s; wanted scx_flash",
        "why        scx_flash serves cpu",
    ]
    assert "a switch was taken back: cpu keeps to scx_flash for now" in lines
    assert "ranking    1. scx_rusty: out for 9 min more; worse here: it waits" in lines
    assert (
        "2. scx_p2dq: out until `asa resume scx_p2dq` or another version of it; off after 3 failures: it died" in lines
    )
    assert "3. scx_flash: in force; third" in lines
    assert "4. scx_simple: stands by; fourth" in lines
    assert "5. eevdf: the kernel's own" in lines
    figures = "run queue p99 2.50 ms, wakeup p99 unknown, timer late p99 unknown, CPU pressure 25%"
    assert f"eevdf       6 blocks, {figures}" in lines
    assert "12 blocks in this trial, judged at 15" in lines
    assert len(at) == 2
    assert at[-1].endswith("scx_7 -> scx_8: confirmed (standby, 0.01 s, 9.3 ms without either)")


TRIED = Tried(
    candidate="scx_flash",
    in_force="eevdf",
    verdict="better",
    pairs=9,
    share=0.21,
    low=0.1,
    high=0.3,
    words="it waits less",
    at_ns=1,
)
OPEN = msgspec.structs.replace(TRIED, candidate="scx_rusty", verdict="", share=None, low=None, high=None, pairs=0)
LEARNED = Learned(
    learn="on",
    asked=4,
    better=1,
    worse=1,
    alike=1,
    here=(TRIED, OPEN),
    watched_s=36_000.0,
    tried_s=180.0,
    switches=5,
    most_switches=12,
)
NEXT = Trying(
    use="cpu",
    candidate="scx_rusty",
    in_force="scx_flash",
    under_way=False,
    pairs=3,
    most_pairs=24,
    block_s=20.0,
    why_not="it waits for your word",
    question=True,
)


def test_what_trials_taught_and_what_they_took(agent, capsys):
    ranking = (Place(scheduler="scx_flash", why="third", learned="measured here: +21 %"),)
    shown = {"workload": "cpu", "scheduler": "scx_flash", "learned": LEARNED, "ranking": ranking}
    agent(example(mode="switching", trial=NEXT, **shown))
    asked(explain)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "ranking    1. scx_flash: in force; measured here: +21 %; third" in lines
    better = "scx_flash against eevdf: better, saves +21% of the wait (+10% to +30%), 9 pairs"
    assert f"tried      {better}" in lines
    assert "scx_rusty against eevdf: not known yet" in lines
    asked(status_command)
    learned = (
        "learned    policy.learn is on; 1 better, 1 worse, 1 alike of 4 that were tried; "
        "180 s of 10.0 h went into trials (0.5%); 5 of 12 switches in the last hour\n"
    )
    question = "question   scx_rusty against scx_flash for cpu, turns of 20 s, 3 pairs are made\n"
    told = capsys.readouterr().out
    assert learned in told
    assert f"{question}           it waits for your word\n" in told
    under_way = msgspec.structs.replace(NEXT, under_way=True, question=False, why_not="")
    agent(example(mode="switching", trial=under_way, **shown))
    assert asked(trial_command) == 0
    told = capsys.readouterr().out
    assert told.startswith("trial      scx_rusty against scx_flash for cpu: 3 of 24 pairs at most, turns of 20 s\n")
    assert f"found      cpu: {better}\n" in told
    assert asked(trial_command, "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["agent"]["trial"]["candidate"], body["agent"]["learned"]["better"]) == ("scx_rusty", 1)


def test_as_json(agent, capsys):
    agent(explained(time.time_ns()))
    assert asked(explain, "--json", "--last", "3") == 0
    body = json.loads(capsys.readouterr().out)
    assert body["running"]
    assert body["agent"]["ranking"][0]["out"] == "worse here: it waits"
    assert [one["new"] for one in body["switches"]] == ["scx_6", "scx_7", "scx_8"]


@pytest.mark.parametrize("command", [explain, status_command])
def test_what_is_unknown_is_said_by_its_regime(agent, capsys, command):
    agent(example(workload="cpu", confidence=0.84, regime="regime:mixed-waking"))
    assert asked(command) == 0
    assert "workload   unknown; regime mixed-waking; cpu stays (84%)\n" in capsys.readouterr().out


def test_an_agent_that_has_seen_nothing_yet(agent, capsys):
    agent(example(mode="observing", mode_reason="told to", sentence="nothing to judge by yet"))
    assert asked(explain) == 0
    said = capsys.readouterr().out
    assert "agent      observing: told to" in said
    assert "workload   not recognised yet (0%)" in said
    assert "scheduler  no sched_ext; wanted none" in said
    assert "guard      has nothing to judge while nothing is switched" in said
    assert "switches   none yet" in said


def test_a_guard_without_a_class(agent, capsys):
    agent(example(mode="switching"))
    assert asked(explain) == 0
    assert "guard      waits for a class" in capsys.readouterr().out


def test_without_an_agent(places, capsys):
    assert asked(explain) == 3
    assert capsys.readouterr().out == "agent      not running; `asa run` starts it\n"
    assert asked(explain, "--json") == 3
    assert json.loads(capsys.readouterr().out) == {"running": False, "agent": None, "switches": []}


def refused_journal(path):
    """A minute in which every tick looked like a class, and none fitted."""
    with Journal.open(path) as journal:
        journal.begin(header())
        machine = Machine(journal)
        for _ in range(60):
            vote = Vote(workload=None, confidence=1.0, unknown=True, regime=Workload("regime:light-waking"))
            machine.tick("cpu", vote=vote, reason=Reason.UNDECIDED)
    return path


def test_a_journal_without_an_agent_tells_what_was_refused(places, tmp_path, capsys):
    journal = str(refused_journal(tmp_path / "j.sqlite"))
    assert asked(explain, "--journal", journal) == 0
    said = capsys.readouterr().out
    assert "not running" not in said
    assert asked(journal_command, "show", journal) == 0
    said = capsys.readouterr().out
    assert "refused    60 ticks looked like cpu (75%), refused: fits no class\n" in said
    assert ["regime", "regime:light-waking", "59", "s", "100%"] in [line.split() for line in said.splitlines()]


def test_the_features_say_what_serves_an_unknown_use():
    regime = "regime:heavy-computing"
    values = {"tick": "network", "share": 0.95, "refused": True, "regime": regime}
    for vote, words in (
        (None, "no workload is recognised, and nothing switches"),
        (regime, "regime:heavy-computing is the current context, which the table has an entry for"),
    ):
        (line,) = explain_features.lines(explain_features.Recognition(vote=vote, **values))
        assert line.partition(" of the model; ")[2] == f"regime heavy-computing. {words}"


@pytest.mark.parametrize("refused", [True, False])
def test_the_features_say_that_a_tick_was_refused(refused):
    found = explain_features.Recognition(tick="network", share=0.95, vote="idle", refused=refused)
    (line,) = explain_features.lines(found)
    assert line.partition("looked like ")[2] == (
        "network (95%), refused: fits no class of the model. idle stays the current class, and nothing switches"
        if refused
        else "network (95%); the vote stands at idle"
    )


@pytest.mark.parametrize("last", ["-1", "x", "1.5", "99999999"])
def test_not_a_number_of_switches(last, capsys):
    with pytest.raises(SystemExit):
        asked(explain, "--last", last)
    assert "is not a number of switches" in capsys.readouterr().err


def switch(at_ns, new, **more):
    values = {"outcome": SwitchOutcome.CONFIRMED, "old": EEVDF, "elapsed_ns": S, "detail": "", "undo": "", **more}
    return SwitchEvent(monotonic_ns=at_ns, new=new, **values)


def test_switches_of_a_journal_without_an_agent(places, tmp_path, capsys):
    file = tmp_path / "j.sqlite"
    header = SessionHeader(started_ns=1, asa_version="0", host="", kernel="", cpus=1)
    with Journal.open(file) as book:
        for boot, name in enumerate((FLASH, RUSTY)):  # CLOCK_MONOTONIC begins anew with each boot
            book.begin(header)
            book.add(RawSample(monotonic_ns=50 * S, wall_ns=(1_790_000_000 + boot * 1000) * S))
            event = switch(53 * S, name, way=Way.GATED, why="a reason")
            book.add(RawSample(monotonic_ns=54 * S, wall_ns=(1_790_000_004 + boot * 1000) * S), events=(event,))
    assert asked(explain, "--journal", str(file), "--json") == 0
    found = json.loads(capsys.readouterr().out)["switches"]
    assert [(one["new"], one["at_ns"]) for one in found] == [
        (FLASH, 1_790_000_003 * S),
        (RUSTY, 1_790_001_003 * S),
    ]
    assert asked(explain, "--journal", str(file), "--last", "1") == 0
    said = capsys.readouterr().out
    assert "eevdf -> scx_rusty: confirmed (gated, 1.00 s)" in said
    assert "scx_flash" not in said
    assert "a reason" in said
    with pytest.raises(JournalError, match="no such journal"):
        asked(explain, "--journal", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_words_of_others_do_not_control_the_terminal(places, agent, tmp_path, capsys):
    file, bad = tmp_path / "j.sqlite", "\x1b]0;x\x07\u202e\n"
    ended = SchedulerExit(kind=ExitKind.ERROR, reason=bad, source=bad)
    with Journal.open(file) as book:
        book.begin(SessionHeader(started_ns=1, asa_version="0", host="", kernel="", cpus=1))
        event = switch(S, bad, old=bad, why=bad, detail=bad, exit=ended)
        book.add(RawSample(monotonic_ns=2 * S, wall_ns=2 * S), events=(event,))
    agent(example(mode="switching", sentence=bad, last_event=bad, missing_sources={bad: bad}))
    for words in ((explain, "--journal", str(file)), (explain,), (status_command,)):
        assert asked(*words) == 0
        said = capsys.readouterr().out
        assert "?]0;x???" in said
        assert said.replace("\n", "").isprintable()


def test_a_journal_of_its_own_that_cannot_be_looked_at(places, agent, tmp_path, monkeypatch, capsys):
    agent(explained(time.time_ns()))
    there = replace(places, state=tmp_path / ("x" * 300), config=tmp_path / "none.yaml")
    monkeypatch.setattr(paths, "default", lambda: there)
    assert asked(explain) == 0
    assert "features   " in (said := capsys.readouterr().out)
    assert "cannot be read as a journal: File name too long" in said


def test_switches_of_a_journal_over_a_suspend(places, tmp_path, capsys):
    file, night_s, evening_s = tmp_path / "j.sqlite", 8 * 3600, 1_790_000_000
    header = SessionHeader(started_ns=1, asa_version="0", host="", kernel="", cpus=1)
    early, late, last = (switch(second * S - 1, FLASH) for second in (53, 55, 57))
    with Journal.open(file) as book:
        book.begin(header)
        for second, news in ((52, ()), (53, (early,)), (54, ()), (55, (late,)), (56, ())):
            asleep_s = night_s if second > 53 else 0  # CLOCK_MONOTONIC stands still meanwhile
            book.add(RawSample(monotonic_ns=second * S, wall_ns=(evening_s + second + asleep_s) * S), events=news)
        book.add_events((last,))  # heard in no tick
        book.begin(header)
        book.add_events((last,))  # nor in one that is left
    assert asked(explain, "--journal", str(file), "--json") == 0
    found = [one["at_ns"] + 1 - evening_s * S for one in json.loads(capsys.readouterr().out)["switches"]]
    assert found == [53 * S, (55 + night_s) * S, (57 + night_s) * S]


def test_status_shows_how_it_switches_and_who_stands_by(agent, capsys):
    agent(explained(time.time_ns()))
    assert asked(status_command) == 0
    said = capsys.readouterr().out
    assert "switching  by the gate" in said
    assert "standby    scx_simple (4.2 MB), scx_lavd (loading)" in said
    assert "barred     scx_rusty, for cpu" in said
    agent(example(way="plain", way_reason="seccomp is not allowed here"))
    asked(status_command)
    said = capsys.readouterr().out
    assert "switching  stop, then start: seccomp is not allowed here" in said
    assert "standby" not in said


def test_status_says_what_the_wanted_scheduler_rests_on(agent, capsys):
    agent(explained(time.time_ns()))
    asked(status_command)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("rests on")] == ["rests on   third"]


def test_a_status_of_an_older_agent_can_be_explained(places, agent, capsys):
    body = msgspec.json.decode(wire.json_bytes(explained(0)))
    new = ("way", "way_reason", "standbys", "barred", "ranking", "keeps_to", "guard", "guard_blocks", "lately")
    for name in (*new, "guard_next_look", "learned"):
        del body[name]
    (places.run / "status.json").write_bytes(wire.json_bytes(body))
    assert status.read(places.run) is not None
    assert asked(explain) == 0
    assert "guard      has seen nothing of cpu yet" in capsys.readouterr().out
