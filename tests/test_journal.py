# SPDX-License-Identifier: GPL-2.0-only
"""The journal: what goes in comes out, it stays within its bound, and foreign files are refused."""

import dataclasses
import sqlite3

import pytest

from asa.core.decision import EEVDF, Decision, Reason, SchedulerName, SwitchEvent, SwitchOutcome, Vote, Workload
from asa.core.errors import JournalError
from asa.core.sample import CpuCounters, RawSample, SchedExtState
from asa.journal import Journal, SessionHeader

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


def test_round_trip_and_pack(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        number = journal.begin(HEADER)
        for second in range(5):
            journal.add(sample(second), decision(second), (EVENT,))
        journal.pack(tmp_path / "j.journal.xz")
        for opened in (journal, Journal.unpack(tmp_path / "j.journal.xz")):
            assert [session.header for session in opened.sessions()] == [HEADER]
            assert list(opened.samples(number)) == [sample(second) for second in range(5)]
            assert list(opened.decisions(number)) == [decision(second) for second in range(5)]
            assert list(opened.events(number)) == [EVENT] * 5


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
        journal.commit()
        newest = list(journal.samples(number))
        assert len(newest) > 500
        assert newest[-1] == sample(3999)
    pages = sqlite3.connect(path).execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    assert pages.fetchone()[0] <= 1_000_000


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
