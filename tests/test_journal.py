# SPDX-License-Identifier: GPL-2.0-only
"""The journal: what goes in comes out, it stays within its bound, and foreign files are refused."""

import dataclasses
import lzma
import sqlite3
from pathlib import Path

import msgspec
import pytest

from asa.core.decision import (
    EEVDF,
    Decision,
    Order,
    OrderKind,
    Reason,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Vote,
    Workload,
)
from asa.core.errors import JournalError
from asa.core.mark import Mark, Phase
from asa.core.sample import CpuCounters, RawSample, SchedExtState
from asa.journal import Costs, Journal, SessionHeader, Told

SIMPLE = SchedulerName("scx_simple")
HOLD = Order(kind=OrderKind.HOLD, until_ns=2**62, until="14:30")
RESUME = Order(kind=OrderKind.RESUME, scheduler=SIMPLE)
RECORDINGS = Path(__file__).resolve().parent.parent / "models/recordings"
JOURNALS = Path(__file__).resolve().parent / "journals"
MARK = Mark(monotonic_ns=1, phase=Phase.STARTING, interactive="web")
HEADER = SessionHeader(started_ns=1, asa_version="0", host="test", kernel="6.18", cpus=2, label="cpu", seed=3)


def sample(second):
    ticks = (second, 0, 0, 0, 0, 0, 0, 0)
    cpu = CpuCounters(
        total=ticks,
        cores=((0, ticks), (2, ticks)),
        interrupts=1,
        context_switches=2,
        forks=3,
        softirqs=tuple(range(10)),
        runnable=1,
        blocked=0,
    )
    state = SchedExtState(state="enabled", ops="simple", enable_seq=2**40)
    return RawSample(monotonic_ns=second * 10**9, wall_ns=2**61, cpu=cpu, sched_ext=state)


def decision(second):
    return Decision(
        monotonic_ns=second * 10**9,
        probabilities=None,
        vote=Vote(workload=Workload("cpu"), confidence=0.5),
        workload=Workload("cpu"),
        wanted=EEVDF,
        current=EEVDF,
        switch_to=None,
        reason=Reason.SERVED,
        sentence="…",
    )


EVENT = SwitchEvent(
    monotonic_ns=1,
    outcome=SwitchOutcome.LOST,
    old=EEVDF,
    new=SchedulerName("scx_simple"),
    elapsed_ns=2,
    detail="ended",
    undo="",
)


def costs(second):
    return Costs(
        monotonic_ns=second * 10**9,
        collection_us=900.5,
        sources_us={"cpu": 80.0, "memory": 20.0},
        inference_us=None if second == 0 else 150.0,
        decision_us=30.0,
        action_us=4.0,
        journal_us=12.5,
        cpu_ns=second * 2_000_000,
        resident_bytes=44_000_000,
    )


def old_journal(path):
    """One of version 1, as an agent before the shadow mode wrote it."""
    path.write_bytes(lzma.decompress((JOURNALS / "version-1.journal.xz").read_bytes()))
    return path


def version_of(path):
    db = sqlite3.connect(path)
    try:
        return db.execute("PRAGMA user_version").fetchone()[0]
    finally:
        db.close()


def test_round_trip_and_pack(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        number = journal.begin(HEADER)
        for second in range(5):
            journal.add(sample(second), decision(second), (EVENT,))
            journal.add_costs(costs(second))
        journal.add_events((EVENT, EVENT))
        journal.pack(tmp_path / "j.journal.xz")
        for opened in (journal, Journal.unpack(tmp_path / "j.journal.xz")):
            assert [session.header for session in opened.sessions()] == [HEADER]
            assert list(opened.samples(number)) == [sample(second) for second in range(5)]
            assert list(opened.decisions(number)) == [decision(second) for second in range(5)]
            assert list(opened.events(number)) == [EVENT] * 7
            assert list(opened.costs(number)) == [costs(second) for second in range(5)]


def test_a_journal_that_somebody_reads_is_not_packed_and_stays(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        journal.begin(HEADER)
        journal.add(sample(0), decision(0), ())
        journal.commit()
        reader = sqlite3.connect(tmp_path / "j.sqlite")
        try:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
            with pytest.raises(JournalError, match=r"x\.journal\.xz: the journal cannot be packed now: .*locked"):
                journal.pack(tmp_path / "x.journal.xz")
        finally:
            reader.close()
        assert not (tmp_path / "x.journal.xz").exists()
        journal.pack(tmp_path / "x.journal.xz")
        assert [one.header for one in Journal.unpack(tmp_path / "x.journal.xz").sessions()] == [HEADER]


def test_what_the_agent_was_told_and_when_it_heard(tmp_path):
    went_by = Told(monotonic_ns=3 * 10**9, settings="{}", table="t.yaml", versions={"scx_simple": "v2"})
    header = msgspec.structs.replace(HEADER, settings="{}", versions={"scx_simple": "v1"}, stand_by=True)
    with Journal.open(tmp_path / "j.sqlite") as journal:
        number = journal.begin(header)
        journal.add(sample(0), decision(0), (EVENT, EVENT), (), {})
        journal.add(sample(1), decision(1), (), (HOLD, RESUME), {SIMPLE: 5})
        journal.add(sample(2), decision(2), (EVENT,), (), {SIMPLE: 5})
        journal.add(sample(3), decision(3), (), (), {SIMPLE: 6})
        journal.tell(went_by)
        journal.add_events((EVENT,))
        journal.pack(tmp_path / "j.journal.xz")
        for opened in (journal, Journal.unpack(tmp_path / "j.journal.xz")):
            assert opened.sessions()[0].header == header
            assert list(opened.told(number)) == [
                Told(monotonic_ns=10**9, order=HOLD),
                Told(monotonic_ns=10**9, order=RESUME),
                Told(monotonic_ns=10**9, sizes={"scx_simple": 5}),
                Told(monotonic_ns=3 * 10**9, sizes={"scx_simple": 6}),
                went_by,
            ]
            assert [at_ns for at_ns, _ in opened.heard(number)] == [0, 0, 2 * 10**9, None]
            assert all(event == EVENT for _, event in opened.heard(number))
            assert opened.ticks(number) == 4
        assert journal.begin(header) == number + 1
        journal.add(sample(4), None, (), (), {SIMPLE: 6})  # a session of its own: told anew
        assert [told.sizes for told in journal.told(number + 1)] == [{"scx_simple": 6}]


def test_marks_of_a_recorded_scenario(tmp_path):
    marks = [MARK, Mark(monotonic_ns=2, phase=Phase.RUNNING, interactive="web", background="blender")]
    header = msgspec.structs.replace(HEADER, tier="real", programs={"blender": "3.4"})
    with Journal.open(tmp_path / "j.sqlite") as journal:
        number = journal.begin(header)
        journal.add(sample(0))
        journal.mark(marks)
        journal.begin(HEADER)
        journal.pack(tmp_path / "j.journal.xz")
        for opened in (journal, Journal.unpack(tmp_path / "j.journal.xz")):
            assert list(opened.marks(number)) == marks
            assert list(opened.marks(number + 1)) == []
            assert opened.sessions()[0].header == header


def test_a_journal_of_version_3_gets_the_marks_when_it_is_written_to(tmp_path):
    path = tmp_path / "old.sqlite"
    with Journal.open(path) as journal:
        first = journal.begin(HEADER)
        journal.add(sample(0))
    with sqlite3.connect(path) as db:
        db.executescript("DROP TABLE mark; PRAGMA user_version = 3")
    with Journal.look(path) as journal:
        assert list(journal.marks(first)) == []
        assert len(list(journal.samples(first))) == 1
    with Journal.open(path) as journal:
        journal.mark((MARK,))
    assert version_of(path) == 4


def test_what_was_told_goes_with_its_ticks(tmp_path):
    with Journal.open(tmp_path / "j.sqlite", size_mb=1.0, commit_s=1e5) as journal:
        number = journal.begin(HEADER)
        for second in range(4000):
            journal.add(sample(second), decision(second), (), (HOLD,) if second in (0, 3999) else ())
        journal.commit()
        assert [told.monotonic_ns for told in journal.told(number)] == [3999 * 10**9]


def test_only_the_fields_that_are_asked_for(tmp_path):
    class Brief(msgspec.Struct):
        sentence: str

    with Journal.open(tmp_path / "j.sqlite") as journal:
        number = journal.begin(HEADER)
        journal.add(sample(0), decision(0))
        assert list(journal.read("decision", number, Brief)) == [Brief("…")]


def test_what_was_committed_survives_a_kill(tmp_path):
    path = tmp_path / "j.sqlite"
    journal = Journal.open(path, commit_s=2.0)
    number = journal.begin(HEADER)
    for second in range(6):
        journal.add(sample(second))
    with Journal.open(path) as other:  # as after a SIGKILL: nobody closed the first one
        assert len(list(other.samples(number))) == 5  # committed at 2 s and 4 s; the last sample was not yet


def test_the_bound_holds_and_the_newest_stay(tmp_path):
    path = tmp_path / "j.sqlite"
    with Journal.open(path, size_mb=1.0, commit_s=1e5) as journal:
        for _ in range(3):
            number = journal.begin(HEADER)
            for second in range(4000):  # commits that are rare (one a session here) must catch up as well
                journal.add(sample(second), decision(second))
                journal.add_costs(costs(second))
        journal.commit()
        newest = list(journal.samples(number))
        assert len(newest) > 500
        assert newest[-1] == sample(3999)
    pages = sqlite3.connect(path).execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    assert pages.fetchone()[0] <= 1_000_000


def test_what_came_of_a_tick_goes_and_stays_with_it(tmp_path):
    event_every, costs_every = 600, 60
    with Journal.open(tmp_path / "j.sqlite", size_mb=1.0, commit_s=100.0) as journal:
        first, last = journal.begin(HEADER), 0
        for second in range(12_000):
            if second == 4000:  # the next session is of the next boot: its clock begins anew
                last = journal.begin(HEADER)
            now = second if second < 4000 else second - 4000
            events = (dataclasses.replace(EVENT, monotonic_ns=now * 10**9 - 1),) if now % event_every == 0 else ()
            journal.add(sample(now), decision(now), events)
            if now % costs_every == 0:
                journal.add_costs(costs(now))
            if second % 500 == 499:
                for number in (first, last) if last else (first,):
                    _all_of_its_ticks(journal, number, event_every, costs_every)
        journal.add_events((dataclasses.replace(EVENT, monotonic_ns=8000 * 10**9),))
        journal.commit()
        assert next(journal.samples(last)).monotonic_ns > 0, "some are gone"
        assert [one.monotonic_ns for one in journal.events(last)][-2:] == [7800 * 10**9 - 1, 8000 * 10**9]


def _all_of_its_ticks(journal, number, event_every, costs_every):
    journal.commit()
    ticks = [one.monotonic_ns // 10**9 for one in journal.samples(number)]
    assert [one.monotonic_ns // 10**9 for one in journal.decisions(number)] == ticks
    heard = [at_ns // 10**9 for at_ns, _ in journal.heard(number)]
    assert heard == [tick for tick in ticks if tick % event_every == 0]
    spent = [one.monotonic_ns // 10**9 for one in journal.costs(number)]
    assert spent == [tick for tick in ticks if tick % costs_every == 0]


def test_what_a_session_goes_by_outlives_its_first_ticks(tmp_path):
    renewed = Told(monotonic_ns=10**9, settings="{}", model="ab" * 32)
    with Journal.open(tmp_path / "j.sqlite", size_mb=1.0, commit_s=1e5) as journal:
        first = journal.begin(HEADER)
        journal.add(sample(1), decision(1))
        journal.tell(renewed)
        last = journal.begin(HEADER)
        journal.add(sample(1), decision(1), orders=(HOLD,))
        journal.tell(renewed)
        for second in range(2, 12_000):
            journal.add(sample(second), decision(second))
        journal.commit()
        assert next(journal.samples(last)).monotonic_ns > 2 * 10**9
        assert list(journal.told(last)) == [renewed]  # the word of a tick went with it
        assert list(journal.told(first)) == []


def test_foreign_files_are_refused_and_kept(tmp_path):
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to look like one " * 50)
    with pytest.raises(JournalError, match="text"):
        Journal.open(text)
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    with pytest.raises(JournalError, match="not a journal"):
        Journal.open(other)
    (tmp_path / "cut.xz").write_bytes(b"\xfd7zXZ\x00 cut")
    with pytest.raises(JournalError, match="packed"):
        Journal.unpack(tmp_path / "cut.xz")


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_an_integer_too_wide_is_a_journal_error_and_keeps_the_rest(tmp_path, value):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        number = journal.begin(HEADER)
        journal.add(sample(1))
        with pytest.raises(JournalError, match="sample at 2000000000 ns cannot be encoded"):
            journal.add(dataclasses.replace(sample(2), suspended_ns=value), decision(2))
        journal.add(dataclasses.replace(sample(3), suspended_ns=2**64 - 1))
        assert [found.monotonic_ns for found in journal.samples(number)] == [10**9, 3 * 10**9]
        assert list(journal.decisions(number)) == []


def test_recordings_of_version_1_are_read_as_they_are():
    packed = sorted(RECORDINGS.glob("*.journal.xz"))
    assert packed
    for path in packed:
        with Journal.unpack(path) as journal:
            number = journal.sessions()[0].number
            assert journal.sessions()[0].header.mode == ""
            assert next(journal.samples(number)).cpu is not None
            assert list(journal.costs(number)) == []


def test_a_journal_of_version_1_gets_the_costs_when_it_is_written_to(tmp_path):
    path = old_journal(tmp_path / "old.sqlite")
    with Journal.look(path) as journal:
        sessions = journal.sessions()
        samples = [len(list(journal.samples(session.number))) for session in sessions]
        assert list(journal.costs(sessions[0].number)) == []
        assert list(journal.told(sessions[0].number)) == []
        assert list(journal.heard(sessions[0].number)) == []
        assert list(journal.marks(sessions[0].number)) == []
    assert version_of(path) == 1  # a look changes nothing
    for second in range(2):  # the second time it is of this version already
        with Journal.open(path) as journal:
            number = journal.begin(HEADER)
            journal.add(sample(second))
            journal.add(sample(second + 1), None, (EVENT,), (HOLD,))
            journal.add_costs(costs(second))
            journal.mark((MARK,))
            assert list(journal.marks(number)) == [MARK]
            assert list(journal.costs(number)) == [costs(second)]
            assert list(journal.told(number)) == [Told(monotonic_ns=(second + 1) * 10**9, order=HOLD)]
            assert list(journal.heard(number)) == [((second + 1) * 10**9, EVENT)]
            assert [len(list(journal.samples(session.number))) for session in sessions] == samples
    assert version_of(path) == 4


def test_a_journal_of_version_1_that_cannot_be_changed_stays_whole(tmp_path):
    path = old_journal(tmp_path / "old.sqlite")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE cost_session (x)")  # takes the index's name: the second statement of the change fails
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal.open(path)
    assert version_of(path) == 1
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'cost'").fetchone()[0] == 0
    db.close()


def test_a_file_whose_making_was_cut_short_is_made_anew(tmp_path):
    path = tmp_path / "cut.sqlite"
    with sqlite3.connect(path) as db:  # what stays of it where there was no room for a table
        db.executescript("PRAGMA application_id = 0x41534131; PRAGMA user_version = 4")
    with Journal.open(path) as journal:
        number = journal.begin(HEADER)
        journal.add(sample(0))
        assert journal.ticks(number) == 1


def test_a_look_while_another_writes(tmp_path):
    path = tmp_path / "j ?%.sqlite"  # no part of a URI
    with Journal.open(path, commit_s=0.0) as journal:
        number = journal.begin(HEADER)
        journal.add(sample(0))
        journal.add(sample(1))
        with Journal.look(path) as other:
            assert len(list(other.samples(number))) == 2
            with pytest.raises(JournalError, match="cannot be written"):
                other.begin(HEADER)
        journal.add(sample(2))


def test_a_look_in_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    path = old_journal(tmp_path / "old.sqlite")
    monkeypatch.setattr("asa.journal.os.access", lambda *_: False)  # root may write anywhere
    with Journal.look(path) as journal:
        assert journal.sessions()
    assert [file.name for file in tmp_path.iterdir()] == ["old.sqlite"]


def test_a_look_at_what_is_no_journal(tmp_path):
    with pytest.raises(JournalError, match="there is no such journal"):
        Journal.look(tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    (tmp_path / "text").write_text("not a database, but long enough to look like one " * 50)
    with pytest.raises(JournalError, match="cannot be read as a journal"):
        Journal.look(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other.sqlite") as db:
        db.execute("CREATE TABLE mine (x)")
    with pytest.raises(JournalError, match="not a journal of this version"):
        Journal.look(tmp_path / "other.sqlite")
    with sqlite3.connect(old_journal(tmp_path / "newer.sqlite")) as db:
        db.execute("PRAGMA user_version = 5")
    for way in (Journal.look, Journal.open):
        with pytest.raises(JournalError, match=r"not a journal of this version \(5\)"):
            way(tmp_path / "newer.sqlite")
