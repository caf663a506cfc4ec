# SPDX-License-Identifier: GPL-2.0-only
"""The agent's own journal keeps it from nothing; one that was asked for by name and cannot be had is an error."""

import sqlite3
from contextlib import contextmanager

import pytest

from asa.book import Book
from asa.config import JournalSettings
from asa.core.errors import JournalError
from asa.core.sample import RawSample
from asa.journal import Journal, SessionHeader

HEADER = SessionHeader(started_ns=1, asa_version="0", host="h", kernel="6", cpus=1)


@pytest.fixture
def said():
    return []


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "daemon.sqlite"


@pytest.fixture
def book(path, said):
    with_it = Book(path, JournalSettings(), said.append, needed=False)
    yield with_it
    with_it.close()


@contextmanager
def opened(path):
    db = sqlite3.connect(path, isolation_level=None)
    try:
        yield db
    finally:
        db.close()


def fill(journal):
    for second in range(100_000):
        journal.add(RawSample(monotonic_ns=second, wall_ns=1))


def text(path):
    path.write_text("not a database, but long enough to look like one " * 50)


def newer(path):
    with Journal.open(path) as journal:
        journal.begin(HEADER)
    with opened(path) as db:
        db.execute("PRAGMA user_version = 5")


def foreign(path):
    with opened(path) as db:
        db.execute("CREATE TABLE mine (x)")


def without_its_tables(path):
    Journal.open(path).close()
    with opened(path) as db:
        db.execute("DROP TABLE session")


def damaged_inside(path):
    with Journal.open(path) as journal:
        journal.begin(HEADER)
    with opened(path) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'session'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize("spoil", [text, newer, foreign, without_its_tables, damaged_inside])
def test_a_damaged_or_foreign_file_is_moved_aside(book, path, said, spoil):
    path.parent.mkdir()
    spoil(path)
    before = path.read_bytes()
    path.with_name("daemon.sqlite-wal").write_bytes(b"kept beside it")
    path.with_name("daemon.damaged-shm").write_bytes(b"of one that was moved earlier")
    book.begin(HEADER)
    assert book.journal is not None
    book.journal.add(RawSample(monotonic_ns=1, wall_ns=1))
    assert [one.header for one in book.journal.sessions()] == [HEADER]
    (line,) = said
    assert line.startswith(str(path) if spoil in (text, newer, foreign) else "journal: cannot be written: ")
    assert line.endswith(f"; moved to {path.with_name('daemon.damaged')}, starting anew")
    assert path.with_name("daemon.damaged").read_bytes() == before
    assert not path.with_name("daemon.damaged-shm").exists()


@pytest.mark.parametrize("spoil", [text, newer, foreign, without_its_tables, damaged_inside])
def test_one_that_was_asked_for_is_an_error_and_stays(path, said, spoil):
    path.parent.mkdir()
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="move it away to start anew"):
        Book(path, JournalSettings(), said.append, needed=True).begin(HEADER)
    assert path.read_bytes() == before
    assert said == []


def test_where_none_can_be_had_it_goes_on_without_and_tries_again(book, path, said):
    path.parent.write_text("a file where the folder should be")
    book.begin(HEADER)
    assert book.journal is None
    (line,) = said
    assert "cannot be opened as a journal" in line
    assert line.endswith("going on without a journal for now")
    assert book.again(HEADER) is None
    assert len(said) == 1, "that there is none has been said"
    path.parent.unlink()
    assert book.again(HEADER) is book.journal is not None
    assert said[1:] == [f"{path}: a journal is kept again"]
    with pytest.raises(JournalError, match="cannot be opened"):
        Book(path / "below", JournalSettings(), said.append, needed=True).begin(HEADER)


def test_what_cannot_be_moved_aside_is_done_without(book, path, said):
    path.parent.mkdir()
    text(path)
    path.with_name("daemon.damaged").mkdir()
    book.begin(HEADER)
    assert book.journal is None
    (line,) = said
    assert "it cannot be moved away: Is a directory; going on without a journal for now" in line


def test_after_a_full_disk_another_session_is_begun(book, path, said):
    book.begin(HEADER)
    failing = book.journal
    (pages,) = failing._db.execute("PRAGMA page_count").fetchone()
    failing._db.execute(f"PRAGMA max_page_count = {pages}")  # as a disk without room
    with pytest.raises(JournalError, match="database or disk is full"):
        fill(failing)
    journal = book.again(HEADER)
    assert journal is not failing
    journal.add(RawSample(monotonic_ns=1, wall_ns=1))
    assert [session.number for session in journal.sessions()] == [1, 2]
    assert journal.ticks(2) == 1
    assert said == [f"{path}: a journal is kept again"]


def test_without_a_path_there_is_none(said):
    book = Book(None, JournalSettings(), said.append, needed=False)
    book.begin(HEADER)
    assert book.journal is book.again(HEADER) is None
    book.close()
    assert said == []
