# SPDX-License-Identifier: GPL-2.0-only
"""What clients change, against the agent's own loop: it ends by itself, is in the log, and the user's word wins."""

import json
import resource
import time

import pytest
from made_up_status import status
from mcp_agent import BOT, ONE, OTHER, TWO, Machine, StandIn

from asa import paths, requests
from asa.core.errors import AsaError
from asa.mcp import asked, audit
from asa.mcp.changes import Changes
from asa.paths import Places
from asa.status import StatusFile

INTENT = asked.Intent(metric="wakeup_p99_us")
TRY = asked.Trial(policy=TWO, intent=INTENT, why="is it better?", seconds=40)
STAGES = ("measuring", "measured", "committed", "ended")


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "default", lambda: Places(run=tmp_path / "run", state=tmp_path))
    monkeypatch.setattr(requests, "_LIMIT_S", 60.0)  # beside guests the loop may stand still for seconds


def waited(changes, number, *stages, who=BOT):
    end_s = time.monotonic() + 60.0
    while time.monotonic() < end_s:
        found = changes.job(who, asked.Job(id=number, wait_s=1))
        if found.stage in stages:
            return found
    raise AssertionError(found)


def lines(tmp_path):
    return [json.loads(line) for line in (tmp_path / audit.NAME).read_text().splitlines()]


def back(stand, scheduler=ONE):
    found = stand.until(lambda found: found.scheduler == scheduler and not found.held)
    assert found.mode == "switching"


def test_a_trial_that_reaches_its_intent_is_kept_until_it_is_taken_back(tmp_path):
    def work(stand):
        changes = stand.changes()
        begun = changes.trial(BOT, TRY)
        assert (begun.stage, begun.policy, begun.against, begun.verdict) == ("measuring", TWO, ONE, None)
        found = waited(changes, begun.id, "measured", "ended")
        assert (found.stage, found.verdict, found.gain_pct, found.pairs) == ("measured", "reached", 50.0, (50.0, 50.0))
        assert stand.until(lambda now: now.updated_ns).scheduler == ONE  # it waits under what served before
        kept = changes.commit(BOT, asked.Commit(id=begun.id, why="it is", seconds=60))
        assert (kept.scheduler, waited(changes, begun.id, *STAGES).stage) == (TWO, "committed")
        with pytest.raises(AsaError, match="the trial is committed, and waits for no commit"):
            changes.commit(BOT, asked.Commit(id=begun.id, why="again"))
        for who in (BOT, OTHER):
            with pytest.raises(AsaError, match=r"held by the client bot on scx_two.*; one change at a time"):
                changes.trial(who, TRY)
        changes.close()  # what is committed outlasts the server
        assert stand.until(lambda now: now.updated_ns > kept.until_ns - 60 * 10**9).scheduler == TWO
        assert changes.revert(BOT, asked.Revert(id=begun.id, why="enough")).outcome.startswith("taken back")
        back(stand)
        return begun

    begun = StandIn(tmp_path).during(work)
    told = lines(tmp_path)
    assert [(line["what"], line["outcome"] == audit.BEGUN) for line in told] == [
        ("trial", True),
        ("commit", True),
        ("commit", False),
        ("revert", False),
    ]
    assert told[0]["intent_sha256"] == begun.intent_sha256
    assert {(line["id"], line["client"], line["session"]) for line in told} == {(begun.id, "bot", "aa")}
    assert [(line["old"], line["new"]) for line in told] == [(ONE, TWO)] * 3 + [(TWO, ONE)]


def test_a_trial_that_misses_its_intent_cannot_be_kept(tmp_path):
    def work(stand):
        changes = stand.changes()
        number = changes.trial(BOT, TRY).id
        assert waited(changes, number, "measured", "ended").verdict == "missed"
        with pytest.raises(AsaError, match="what has not reached its intent is not kept"):
            changes.commit(BOT, asked.Commit(id=number, why="I like it"))
        changes.revert(BOT, asked.Revert(id=number, why="no better"))
        back(stand)

    StandIn(tmp_path, signals={"eevdf": 100.0, ONE: 100.0, TWO: 99.0}).during(work)
    told = {line["what"]: line["outcome"] for line in lines(tmp_path)}
    assert told["trial"] == "taken back by the client: no better; scx_one in force"
    assert told["revert"] == "taken back; scx_one in force"


def test_what_nobody_commits_ends_by_itself(tmp_path):
    def work(stand):
        changes = stand.changes(commit_s=0.0)
        found = waited(changes, changes.trial(BOT, TRY).id, "ended")
        assert (found.verdict, "nobody committed in time" in found.why) == ("reached", True)
        with pytest.raises(AsaError, match="the trial is ended"):
            changes.commit(BOT, asked.Commit(id=found.id, why="late"))
        back(stand)

    StandIn(tmp_path).during(work)
    assert "scx_one in force" in lines(tmp_path)[-1]["outcome"]


def test_a_guard_rail_ends_it_at_once(tmp_path):
    rail = asked.Rail(metric="wakeup_p99_us", most_growth_pct=10)
    ask = asked.Trial(policy=TWO, intent=asked.Intent(metric="cpu_pressure", guard_rails=(rail,)), why="?")

    def work(stand):
        changes = stand.changes()
        found = waited(changes, changes.trial(BOT, ask).id, "ended")
        assert found.turn == 2
        assert found.why.startswith("guard rail: wakeup_p99_us is 150, more than 110")
        back(stand)

    StandIn(tmp_path, signals={"eevdf": 100.0, ONE: 100.0, TWO: 150.0}).during(work)


@pytest.mark.parametrize("stage", [1, 2, 3, 4, "measured"])
@pytest.mark.parametrize("how", ["killed", "taken back"])
def test_a_server_that_is_killed_or_takes_a_trial_back_leaves_nothing(tmp_path, stage, how):
    """The kernel lets go of its lock; nothing else is done (a real kill: tests/test_lease.py, `make bench-agent`)."""

    def work(stand):
        changes = stand.changes(second_s=0.01)
        number = changes.trial(BOT, TRY).id
        trial = changes._trials[number]
        stand.until(lambda _: stage in (trial.stage, len(trial.turns)))
        if how == "killed":
            trial.lease.close()
        else:
            assert changes.revert(BOT, asked.Revert(id=number, why="enough")).scheduler == ONE
        back(stand)
        assert waited(changes, number, "ended")

    StandIn(tmp_path).during(work)


def test_the_second_client_is_refused_by_the_name_of_the_first(tmp_path):
    def work(stand):
        first, second = stand.changes(second_s=1.0), stand.changes()
        number = first.trial(BOT, TRY).id
        for change in (lambda: second.trial(OTHER, TRY), lambda: second.hold(OTHER, asked.Hold(why="mine"))):
            with pytest.raises(AsaError, match=r"the client 'bot'.* changes something already: it tries scx_two"):
                change()
        for changes in (first, second):
            with pytest.raises(AsaError, match=r"belongs to another session.*'bot'"):
                changes.revert(OTHER, asked.Revert(id=number, why="mine"))
        first.close()
        back(stand)

    StandIn(tmp_path).during(work)
    assert lines(tmp_path)[-1]["outcome"] == "the client has gone; scx_one in force"


def test_the_users_word_ends_a_trial_and_keeps_clients_out(tmp_path):
    def work(stand):
        changes = stand.changes(second_s=1.0)
        number = changes.trial(BOT, TRY).id
        folder, agent = requests.agent()
        requests.ask(folder, agent, requests.Hold(), settled=lambda found: found.held and not found.client)
        assert waited(changes, number, "ended").why.startswith("the user's word ends it: held by the user")
        for change in (lambda: changes.trial(BOT, TRY), lambda: changes.hold(BOT, asked.Hold(why="mine"))):
            with pytest.raises(AsaError, match="only the user ends that"):
                change()
        with pytest.raises(AsaError, match="the user's own ends by `asa resume`"):
            changes.resume(BOT, asked.Resume(why="mine"))

    StandIn(tmp_path).during(work)


def test_a_hold_lasts_until_resume_or_as_long_as_the_client(tmp_path):
    def work(stand):
        changes = stand.changes()
        held = changes.hold(BOT, asked.Hold(why="I measure"))
        assert held.outcome.startswith("held by the client bot until")
        with pytest.raises(AsaError, match="this session has no hold"):
            changes.resume(OTHER, asked.Resume(why="mine"))
        assert changes.resume(BOT, asked.Resume(why="done")).id == held.id
        back(stand)
        changes.hold(BOT, asked.Hold(why="once more"))
        changes.close()
        back(stand)

    StandIn(tmp_path).during(work)


COMPILES = asked.Hint(background="compile", confidence="high", why="I build a kernel", seconds=60)


def test_a_hint_stands_beside_the_model_until_it_is_taken_back_or_its_client_goes(tmp_path):
    def work(stand):
        changes = stand.changes()
        given = changes.hint(BOT, COMPILES)
        found = stand.until(lambda found: found.told)
        assert (found.told.use, found.told.sure, found.told.client, found.held) == ("compile", 0.9, "bot", False)
        assert (given.scheduler, found.scheduler, found.told.words == given.outcome) == (ONE, ONE, True)
        with pytest.raises(AsaError, match=r"'bot'.* changes something already: it says that the use is compile"):
            changes.hint(OTHER, COMPILES)
        again = changes.hint(BOT, asked.Hint(interactive="play", why="no, I play"))
        assert stand.until(lambda found: found.told).told.use == "play"
        for who, number in ((OTHER, again.id), (BOT, given.id)):
            with pytest.raises(AsaError, match=r"belongs to another session|is a hint and no trial, or has ended"):
                changes.revert(who, asked.Revert(id=number, why="."))
        assert changes.revert(BOT, asked.Revert(id=again.id, why="done")).outcome == "the hint is taken back"
        stand.until(lambda found: found.told is None)
        changes.hint(BOT, COMPILES)
        assert changes.trial(BOT, TRY).stage == "measuring"  # a hint is in nobody's way
        with pytest.raises(AsaError, match=r"changes something already: it tries scx_two"):
            changes.hint(BOT, COMPILES)
        changes.close()
        assert stand.until(lambda found: found.told is None and not found.held).scheduler == ONE

    StandIn(tmp_path).during(work)
    told = [(line["what"], line["new"], line["outcome"] == audit.BEGUN) for line in lines(tmp_path)]
    assert told[:5] == [
        *(("hint", "compile", begun) for begun in (True, False)),
        *(("hint", "play", begun) for begun in (True, False)),
        ("revert", None, False),
    ]


def test_the_user_ends_a_hint_too(tmp_path):
    def work(stand):
        stand.changes().hint(BOT, COMPILES)
        folder, agent = requests.agent()
        after = requests.ask(folder, agent, requests.Resume(), settled=lambda found: found.told is None)
        assert (after.told, after.mode) == (None, "switching")

    StandIn(tmp_path).during(work)


SIGNALS = {"wakeup_p99_us": 1.0, "cpu_pressure": 0.1, "underruns": None}


@pytest.mark.parametrize(
    ("found", "ask", "words"),
    [
        ({}, {"policy": "scx_none"}, "'scx_none' is not accepted"),
        ({}, {"policy": ONE}, "scx_one is in force already"),
        ({}, {"intent": asked.Intent(metric="underruns")}, "not measured now, but wakeup_p99_us, cpu_pressure"),
        ({"signals": {}}, {}, "not measured now, but nothing is"),
        ({"never": [TWO]}, {}, "switch.never in the settings names scx_two"),
        ({"set_aside": [TWO]}, {}, "the user may let it try again by `asa resume scx_two`"),
        ({"mode": "observing", "mode_reason": "not root"}, {}, "not root; `asa install` brings the helper"),
        ({"mode": "hold", "mode_reason": "scx_x was attached by somebody else"}, {}, "switches nothing now"),
        ({"mode": "hold", "held": True, "mode_reason": "held by the user"}, {}, "only the user ends that"),
    ],
)
def test_what_is_refused_before_any_change(tmp_path, found, ask, words):
    file = StatusFile(tmp_path / "run")
    file.write(status(**({"scheduler": ONE, "signals": SIGNALS} | found)))
    changes = Changes(Machine(Places(run=tmp_path / "run", state=tmp_path)))
    try:
        with pytest.raises(AsaError) as refused:
            changes.trial(BOT, asked.Trial(**({"policy": TWO, "intent": INTENT, "why": "."} | ask)))
    finally:
        file.close()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.glob("*.jsonl"))
    assert not (tmp_path / "run" / "lease").exists()


def test_without_an_agent_without_room_for_the_log_and_in_a_hurry(tmp_path, monkeypatch):
    changes = Changes(Machine(Places(run=tmp_path / "run", state=tmp_path / "state")))
    with monkeypatch.context() as alone:
        alone.setattr(requests.status, "read", lambda _: None)
        with pytest.raises(AsaError, match="no agent is running"):
            changes.trial(BOT, TRY)
    with pytest.raises(AsaError, match="there is no trial 'ffffffffffffffff'"):
        changes.job(BOT, asked.Job(id="f" * 16))
    file = StatusFile(tmp_path / "run")
    file.write(status(scheduler=ONE, signals=SIGNALS))
    (tmp_path / "state").write_text("a file in the folder's place")
    for change in (lambda: changes.hold(BOT, asked.Hold(why=".")), lambda: changes.hint(BOT, COMPILES)):
        with pytest.raises(AsaError, match="cannot be"):
            change()
    (tmp_path / "state").unlink()
    log = tmp_path / "state" / audit.NAME
    for number in range(audit.MOST_AN_HOUR):
        what = {"id": str(number), "what": "trial", "why": "", "old": None, "new": None, "outcome": audit.BEGUN}
        audit.append(log, audit.Line(at_ns=time.time_ns(), client="c", version="", session="", **what))
    with pytest.raises(AsaError, match="clients have begun 12 changes in the last hour"):
        changes.trial(BOT, TRY)
    file.close()


def test_the_log_keeps_what_it_has_after_a_line_that_was_cut_off(tmp_path, monkeypatch):
    log = tmp_path / audit.NAME
    what = {"client": "c", "version": "", "session": "", "what": "hold", "why": "", "old": None, "new": None}
    first, second = (audit.Line(at_ns=n, id=str(n), outcome="held", **what) for n in (1, 2))
    audit.append(log, first)
    with log.open("ab") as file:
        file.write(b'{"at_ns": 5, "cl')
    audit.append(log, second)
    assert audit.read(log) == [first, second]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 5):  # a full disk takes nothing, or a part
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + room, before[1]))
        with pytest.raises(AsaError, match=r"the disk is full|cannot be written"):
            audit.append(log, first)
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert audit.read(log) == [first, second]
    monkeypatch.setattr(audit, "_MOST_BYTES", 10)
    audit.append(log, first)
    assert (audit.read(log), len(audit.read(log.with_name(audit.OLDER)))) == ([first], 2)
    log.unlink()
    log.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AsaError, match="every change needs its line there"):
        audit.append(log, first)
