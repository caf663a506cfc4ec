# SPDX-License-Identifier: GPL-2.0-only
"""`asa journal`, its replay and `asa report` over journals that the shipped model and the real policy have made."""

import argparse
import csv
import hashlib
import io
import json
import sqlite3
import sys
from dataclasses import fields, replace
from types import SimpleNamespace

import msgspec
import pytest
from tried_here import tried

from asa import paths, replay, wire
from asa.act.portfolio import Portfolio
from asa.cli import explain_features
from asa.cli import journal as journal_command
from asa.cli import replay as replay_command
from asa.cli import report as report_command
from asa.config import PolicySettings, Settings
from asa.core.decision import EEVDF, Permit, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError, InputError, JournalError
from asa.core.kinds import Kind
from asa.core.sample import DesktopEntry, HintState, SchedExtState
from asa.decide import table
from asa.decide.hints import Hints
from asa.decide.learning import Learning
from asa.decide.penalties import Bars, Cause, Mark
from asa.decide.trial_pairs import Verdict
from asa.journal import Journal, SessionHeader, Told
from asa.pipeline import Setup, State, step
from collectors.rates import Rates
from models import artefact, versions
from models.runtime import Ensemble
from scenarios import planted
from scenarios.demo import SERVED

RECORDINGS = sorted((paths.base_model().parents[1] / "recordings").glob("*.journal.xz"))
S = 10**9


def asa(*words):
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for module in (journal_command, report_command, replay_command):
        module.register(commands)
    arguments = parser.parse_args([str(word) for word in words])
    return arguments.run(arguments)


@pytest.fixture(autouse=True)
def of_nobody(monkeypatch, tmp_path):
    """This machine's own settings and journal are no part of these tests; its table switches."""
    places = replace(paths.default(), state=tmp_path / "state", config=tmp_path / "none.yaml")
    monkeypatch.setattr(paths, "default", lambda: places)
    planted.write(places.state / table.NAME, SERVED)


@pytest.fixture(scope="module")
def recorded():
    """Samples of a session of `wakeup`."""
    with Journal.unpack(next(path for path in RECORDINGS if "host" in path.name)) as journal:
        number = next(one.number for one in journal.sessions() if one.header.label == "wakeup")
        return list(journal.samples(number))


def setup_by(settings, portfolio):
    return Setup(
        classifier=Ensemble.load(paths.base_model()),
        table=table.for_this_machine(portfolio.modes()),
        voting=settings.voting,
        policy=settings.policy,
        name_of_ops=portfolio.name_of_ops,
        permit=Permit(switch=True),
        versions={name: record.sha256 for name, record in portfolio.records().items()},
    )


def header_by(settings, setup):
    return SessionHeader(
        started_ns=1,
        asa_version="0",
        host="here\x1b[2J",
        kernel="6",
        cpus=2,
        mode="switching",
        settings=wire.json_text(settings),
        table=setup.table.path,
        model=hashlib.sha256(paths.base_model().read_bytes()).hexdigest(),
        versions=dict(setup.versions),
    )


@pytest.fixture
def file(tmp_path, recorded):
    """A journal as an agent leaves it: it saw `wakeup` for the time of two recordings, and switched for it."""
    settings = Settings(policy=PolicySettings(dwell_s=4.0))
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    setup = setup_by(settings, portfolio)
    length_ns = recorded[-1].monotonic_ns - recorded[0].monotonic_ns + S
    path = tmp_path / "agent.sqlite"
    state, attached, due, news = State(), EEVDF, None, []
    with Journal.open(path) as journal:
        journal.begin(header_by(settings, setup))
        for part in range(2):
            for sample in recorded:
                if due is not None:
                    news = [confirmed(sample.monotonic_ns + part * length_ns - S // 10, attached, due)]
                    attached, due = due, None
                entry = portfolio.entry(attached.partition(":")[0])
                kernel = SchedExtState(
                    state="enabled" if entry.ops else "disabled", ops=entry.ops or "", enable_seq=part
                )
                later_ns = part * length_ns
                at_ns = {"monotonic_ns": sample.monotonic_ns + later_ns, "wall_ns": sample.wall_ns + later_ns}
                shown = replace(sample, **at_ns, sched_ext=kernel)
                state = step(setup, state, shown, news)
                journal.add(shown, state.decision, tuple(news))
                news, due = [], state.decision.switch_to
    return path


def confirmed(at_ns, old, new):
    return SwitchEvent(
        monotonic_ns=at_ns, outcome=SwitchOutcome.CONFIRMED, old=old, new=new, elapsed_ns=S // 5, detail="", undo=""
    )


def test_the_list_and_one_session(file, capsys):
    assert asa("journal", "list", file) == 0
    told = capsys.readouterr().out
    assert "switching" in told
    assert "1 switch," in told
    assert "wakeup" in told
    assert "\x1b" not in told
    assert asa("journal", "show", file) == 0
    assert "eevdf -> scx_" in capsys.readouterr().out
    assert asa("journal", "list", file, "--json") == 0
    (session,) = json.loads(capsys.readouterr().out)["sessions"]
    assert session["outcomes"] == {"confirmed": 1}
    assert asa("journal", "show", file, "--json", "--session", 1) == 0
    assert json.loads(capsys.readouterr().out)["ticks"] == session["ticks"]
    with pytest.raises(AsaError, match="there is no session 7; it has 1 to 1"):
        asa("journal", "show", file, "--session", 7)


def test_packed_recordings_are_read_too(capsys):
    assert asa("journal", "list", RECORDINGS[0], "--json") == 0
    sessions = json.loads(capsys.readouterr().out)["sessions"]
    with Journal.unpack(RECORDINGS[0]) as journal:
        assert [one["number"] for one in sessions] == [one.number for one in journal.sessions()]
    assert {one["mode"] for one in sessions} == {"recording"}


def test_while_an_agent_writes(file, recorded, capsys):
    with Journal.open(file) as writing:
        number = writing.begin(SessionHeader(started_ns=2, asa_version="0", host="here", kernel="6", cpus=2))
        for sample in recorded[:5]:
            writing.add(sample)
        writing.commit()
        writing.add(recorded[5])
        assert asa("journal", "list", file, "--json") == 0
        assert [one["ticks"] for one in json.loads(capsys.readouterr().out)["sessions"]][1:] == [5]
        writing.add(recorded[6])
        writing.commit()
        assert len(list(writing.samples(number))) == 7


def test_ticks_as_csv(file, tmp_path, capsys):
    assert asa("journal", "export", file) == 0
    told = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(told)))
    with Journal.look(file) as journal:
        samples, decisions = list(journal.samples(1)), list(journal.decisions(1))
    assert len(rows) == len(samples)
    assert {field.name for field in fields(Rates)} < set(rows[0])
    assert rows[0]["cpu_idle_share"] == rows[0]["p_wakeup"] == ""  # unknown
    for row, sample, decision in zip(rows, samples, decisions, strict=True):
        assert (row["session"], int(row["monotonic_ns"])) == ("1", sample.monotonic_ns)
        assert row["sentence"] == decision.sentence
        assert row["switch_to"] == (decision.switch_to or "")
        if decision.probabilities is not None:
            assert float(row["p_wakeup"]) == decision.probabilities.of("wakeup")
    assert 0.0 <= float(rows[3]["cpu_idle_share"]) <= 1.0
    assert asa("journal", "export", file, "--out", tmp_path / "t.csv", "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["rows"], body["columns"]) == (len(rows), list(rows[0]))
    assert (tmp_path / "t.csv").read_text() == told


def test_without_pyarrow_parquet_is_one_line(file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(AsaError, match="install asa's extra `export`, or use --format csv"):
        asa("journal", "export", file, "--format", "parquet", "--out", tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


def test_ticks_as_parquet(file, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed; asa's extra `export` has it")
    assert asa("journal", "export", file, "--format", "parquet", "--out", tmp_path / "t.parquet") == 0
    assert asa("journal", "export", file, "--out", tmp_path / "t.csv") == 0
    found = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    with (tmp_path / "t.csv").open() as text:
        rows = list(csv.DictReader(text))
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in found] == rows
    assert found[0]["p_wakeup"] is None


def test_export_says_where_it_cannot_write(file, tmp_path):
    with pytest.raises(AsaError, match="--out FILE is needed"):
        asa("journal", "export", file, "--format", "parquet")
    with pytest.raises(AsaError, match="cannot be written"):
        asa("journal", "export", file, "--out", tmp_path / "none/t.csv")


@pytest.mark.parametrize("words", [("report",), ("journal", "export"), ("journal", "export", "--format", "parquet")])
def test_what_is_made_never_takes_the_journal_s_place(file, tmp_path, words):
    body, link = file.read_bytes(), tmp_path / "link.csv"
    link.symlink_to(file)
    for out in (file, link):
        with pytest.raises(AsaError, match="is the journal that is read, and would be lost; name another file"):
            asa(*words, file, "--out", out)
    assert file.read_bytes() == body


def test_an_export_that_fails_leaves_the_older_file(file, tmp_path):
    out, link = tmp_path / "t.csv", tmp_path / "link.csv"
    out.write_text("older")
    out.chmod(0o640)
    link.symlink_to(out)
    assert asa("journal", "export", file, "--out", link) == 0
    assert link.is_symlink()
    assert (out.read_text()[:7], out.stat().st_mode & 0o777) == ("session", 0o640)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE sample SET body = x'00' WHERE id = 20")
    body = out.read_bytes()
    with pytest.raises(JournalError, match="sample 20 is not of this version"):
        asa("journal", "export", file, "--out", out)
    assert out.read_bytes() == body
    assert list(tmp_path.glob(".*")) == []


def test_a_device_is_written_itself(file):
    assert asa("report", file, "--out", "/dev/null") == 0
    assert asa("journal", "export", file, "--out", "/dev/null") == 0


def test_a_report_is_a_page_and_figures(file, tmp_path, capsys):
    assert asa("report", file, "--out", tmp_path / "r.html") == 0
    assert "1 session" in capsys.readouterr().out
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert asa("report", file, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outcomes"] == {"confirmed": 1}
    assert found["workloads"]["wakeup"] > 10
    with pytest.raises(AsaError, match="cannot be written"):
        asa("report", file, "--out", tmp_path / "none/r.html")
    with pytest.raises(JournalError, match=r"daemon\.sqlite: there is no such journal; the agent of your session"):
        asa("report")


def with_header(file, **changes):
    with Journal.look(file) as journal:
        header = msgspec.structs.replace(journal.sessions()[0].header, **changes)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE session SET header = ?", (msgspec.msgpack.encode(header),))


def test_a_replay_by_what_was_recorded_differs_in_nothing(file, capsys):
    assert asa("journal", "replay", file) == 0
    told = capsys.readouterr().out
    assert "by the recorded settings" in told
    assert "0 differ" in told
    assert "1 recorded, 1 replayed: 1 the same, 0 moved, 0 saved, 0 added" in told
    assert "another one" not in told


def test_a_table_of_then_that_cannot_be_looked_at_is_not_taken(file):
    with_header(file, table="/" + "x" * 300)
    assert asa("journal", "replay", file) == 0


def test_a_replay_of_an_older_journal_goes_by_the_settings_of_now(file, capsys):
    with_header(file, settings="", table="", model="", versions={})
    assert asa("journal", "replay", file) == replay_command.DIFFERS
    told = capsys.readouterr().out
    assert "by the settings of now: the recording has none" in told
    assert "differ: reason" in told


def test_a_replay_begins_with_the_standing_of_then(file, capsys):
    with Journal.look(file) as journal:
        target = next(event.new for event in journal.events(1))
    mark = Mark(scheduler=target, cause=Cause.FAILED, version="", count=3, at_ns=0, until_ns=None, why="it failed")
    with_header(file, standing=wire.json_text(Bars(marks=(mark,))), model="0")
    assert asa("journal", "replay", file) == replay_command.DIFFERS
    told = capsys.readouterr().out
    assert "saved       " in told
    assert "another one than the recording's" in told


def test_a_replay_begins_with_what_had_been_learned_then(file, capsys):
    with Journal.look(file) as journal:
        decision = next(one for one in journal.decisions(1) if one.switch_to is not None)
    own = tried(EEVDF, Verdict.ALIKE, in_force=decision.switch_to, use=decision.workload)
    with_header(file, learning=wire.json_text(Learning(asked=(own,))))
    assert asa("journal", "replay", file) == replay_command.DIFFERS
    assert "1 saved" in capsys.readouterr().out


PLAYS = HintState(
    front="one",
    entries=(DesktopEntry("one", ("Game",)),),
    playing=(),
    game_clients=1,
    idle_inhibited=None,
    sound_played=None,
    sound_recorded=True,
)


@pytest.fixture
def hinted(tmp_path, recorded):
    """A journal of an agent whose hints counted, and the weight of which it was told anew in the middle."""
    settings, portfolio = Settings(), Portfolio.load(paths.manifest(), paths.default().schedulers)
    path, state = tmp_path / "hinted.sqlite", State()
    setup = replace(setup_by(settings, portfolio), hints=Hints(categories={"Game": {Kind.PLAY: 1.0}}, weight=4.0))
    begun = msgspec.structs.replace(header_by(settings, setup), hints=wire.json_text(setup.hints))
    with Journal.open(path) as journal:
        journal.begin(begun)
        for number, sample in enumerate(recorded):
            if number == len(recorded) // 2:
                setup = replace(setup, hints=replace(setup.hints, weight=2.0))
                went_by = {"settings": begun.settings, "hints": wire.json_text(setup.hints)}
                journal.tell(Told(monotonic_ns=state.sample.monotonic_ns, **went_by))
            seen = replace(sample, hints=PLAYS)
            state = step(setup, state, seen)
            journal.add(seen, state.decision)
    return path


@pytest.fixture
def exactly(monkeypatch):
    monkeypatch.setattr(replay, "_CLOSE", 0.0)  # the model is so sure of `wakeup` that hints move it by millionths


@pytest.mark.usefixtures("exactly")
def test_a_replay_goes_by_the_hints_of_then(hinted, capsys):
    assert asa("journal", "replay", hinted) == 0
    assert "0 differ" in capsys.readouterr().out
    with Journal.look(hinted) as journal:
        assert {sample.hints for sample in journal.samples(1)} == {PLAYS}
    with_header(hinted, hints="")
    assert asa("journal", "replay", hinted) == replay_command.DIFFERS
    assert "differ: probabilities" in capsys.readouterr().out


@pytest.mark.usefixtures("exactly")
def test_a_replay_with_other_settings_goes_by_the_hints_beside_them(hinted, tmp_path, capsys):
    (tmp_path / "asa.yaml").write_text("")
    (tmp_path / "hints.yaml").write_text("weight: 4\n")
    assert asa("journal", "replay", hinted, "--settings", tmp_path / "asa.yaml") == replay_command.DIFFERS
    capsys.readouterr()
    (tmp_path / "hints.yaml").write_text("weight: 9\n")
    with pytest.raises(InputError, match=r"hints\.yaml: weight: 9"):
        asa("journal", "replay", hinted, "--settings", tmp_path / "asa.yaml")


@pytest.fixture
def renewed(tmp_path, recorded):
    """A journal of an agent that took another model in the middle of it, and that model."""
    base = artefact.load(paths.base_model())
    facts = versions.Facts(sha256="", kind="tuned", made="", asa_version="")
    other = versions.add(versions.folder(paths.default()), replace(base, fill=base.fill + 1), facts)
    settings, portfolio = Settings(), Portfolio.load(paths.manifest(), paths.default().schedulers)
    setup, path = setup_by(settings, portfolio), tmp_path / "renewed.sqlite"
    begun, state = header_by(settings, setup), State()
    with Journal.open(path) as journal:
        journal.begin(begun)
        for number, sample in enumerate(recorded):
            if number == len(recorded) // 2:
                went_by = {"settings": begun.settings, "table": begun.table, "model": other.facts.sha256}
                journal.tell(Told(monotonic_ns=state.sample.monotonic_ns, versions=dict(setup.versions), **went_by))
                setup = replace(setup, classifier=Ensemble.load(other.path))
            state = step(setup, state, sample)
            journal.add(sample, state.decision)
    return path, other


def test_a_replay_takes_the_model_that_the_agent_took_meanwhile(renewed, capsys):
    path, other = renewed
    assert asa("journal", "replay", path) == 0
    told = capsys.readouterr().out
    assert "0 differ" in told
    assert "another one" not in told
    other.path.unlink()
    assert asa("journal", "replay", path) == replay_command.DIFFERS
    told = capsys.readouterr().out
    assert "probabilities" in told
    assert f"another one than the recording's, {other.facts.sha256[:12]}" in told


def test_explain_takes_it_too(renewed, capsys):
    path, other = renewed
    folder = versions.folder(paths.default())
    found = explain_features.recognition(path, folder)
    assert (found.note, found.wrong) == ("", "")
    assert found.regime == "regime:heavy-waking"  # the recording is of `wakeup`
    other.path.unlink()
    assert other.facts.sha256[:12] in explain_features.recognition(path, folder).wrong


def test_recorded_settings_of_another_version_are_one_line(file, tmp_path):
    with_header(file, settings='{"interval_s": "often"}')
    with pytest.raises(JournalError, match="the recorded settings are not of this version"):
        asa("journal", "replay", file, "--session", 1)


@pytest.mark.parametrize("changes", [{"learning": '{"version": 9}'}, {"standing": "{"}, {"hints": '{"weight": []}'}])
def test_what_is_kept_in_another_version_is_one_line(file, changes):
    with_header(file, **changes)
    with pytest.raises(JournalError, match=f"the recorded {next(iter(changes))} is not of this version.*another"):
        asa("journal", "replay", file)


def test_a_session_that_had_no_schedulers_is_not_compared_with_those_of_now(file, capsys, monkeypatch):
    with Journal.look(file) as journal:
        target = next(event.new for event in journal.events(1))
    mark = Mark(scheduler=target, cause=Cause.FAILED, version="v1", count=3, at_ns=0, until_ns=None, why="it failed")
    with_header(file, standing=wire.json_text(Bars(marks=(mark,))), versions={})
    record = SimpleNamespace(sha256="v2", version="")
    monkeypatch.setattr(Portfolio, "records", lambda _: {target.partition(":")[0]: record})
    assert asa("journal", "replay", file) == replay_command.DIFFERS  # the mark holds, as it did for the agent
    assert "1 saved" in capsys.readouterr().out


def test_a_replay_with_other_settings_says_what_would_have_been(file, tmp_path, capsys):
    (tmp_path / "asa.yaml").write_text("policy: {dwell_s: 3600}\n")
    assert asa("journal", "replay", file, "--settings", tmp_path / "asa.yaml") == replay_command.DIFFERS
    told = capsys.readouterr().out
    assert "1 recorded, 0 replayed: 0 the same, 0 moved, 1 saved, 0 added" in told
    assert asa("journal", "replay", file, "--settings", tmp_path / "asa.yaml", "--json") == replay_command.DIFFERS
    found = json.loads(capsys.readouterr().out)["replay"]
    assert found["differing"] == len({one["at_ns"] for one in found["first"]}) > 20
    assert found["by_field"]["reason"] == found["differing"]
    with pytest.raises(AsaError, match=r"none\.yaml"):
        asa("journal", "replay", file, "--settings", tmp_path / "none.yaml")


def test_a_replay_of_a_recording_decides_what_nobody_had(capsys):
    assert asa("journal", "replay", RECORDINGS[0]) == 0
    assert "no decisions to compare with" in capsys.readouterr().out
