# SPDX-License-Identifier: GPL-2.0-only
"""Samples and decisions on disk: SQLite in WAL mode, batched commits, bounded size.

A journal holds sessions (one run of the agent or one recording). Samples are stored raw, as MessagePack, so that
frames and decisions can be derived again; a recording carries the workload's true label. Nothing is thinned out:
when the file passes its bound the oldest samples go first.
"""

import lzma
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from asa.core.decision import Decision, SwitchEvent
from asa.core.errors import JournalError
from asa.core.sample import RawSample

_Row = TypeVar("_Row")
_SCHEMA_VERSION = 1
_APPLICATION_ID = 0x41534131  # "ASA1": sqlite3 "PRAGMA application_id", so that file(1) and we know our own
_TABLES = """
CREATE TABLE session (id INTEGER PRIMARY KEY, header BLOB NOT NULL);
CREATE TABLE sample (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE decision (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE event (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX sample_session ON sample (session);
CREATE INDEX decision_session ON decision (session);
CREATE INDEX event_session ON event (session);
"""


class SessionHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a session was: the machine, the versions, and for recordings the truth."""

    started_ns: int  # CLOCK_REALTIME
    asa_version: str
    host: str  # where: "host" and the CPU model, or the lab with its CPUs
    kernel: str
    cpus: int
    scheduler: str = ""  # in force at the start
    label: str = ""  # the true workload of a recording, "" in live sessions
    seed: int | None = None  # parameters of the recorded workload
    parameters: str = ""  # its programs as they were started


@dataclass(frozen=True, slots=True)
class Session:
    """One stored session."""

    number: int
    header: SessionHeader


class Journal:
    """A journal file, opened for writing (and reading) or from a packed recording for reading only."""

    def __init__(self, connection: sqlite3.Connection, *, size_bytes: int, commit_ns: int) -> None:
        self._db = connection
        self._size_bytes = size_bytes
        self._commit_ns = commit_ns
        self._last_commit_ns: int | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._session = 0

    @classmethod
    def open(cls, path: Path, *, size_mb: float = 64.0, commit_s: float = 10.0) -> Self:
        """Open or create. Raises JournalError for a foreign, newer or unreadable file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(path, isolation_level=None)
            version = db.execute("PRAGMA user_version").fetchone()[0]
            owner = db.execute("PRAGMA application_id").fetchone()[0]
            fresh = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if fresh:
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
                db.execute("PRAGMA journal_mode = WAL")
                db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
                db.executescript(_TABLES)
            db.execute("PRAGMA synchronous = NORMAL")
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"{path}: cannot be opened as a journal: {error}; move it away to start anew") from error
        if not fresh and (owner != _APPLICATION_ID or version != _SCHEMA_VERSION):
            db.close()
            raise JournalError(f"{path}: not a journal of this version ({version}); move it away to start anew")
        return cls(db, size_bytes=int(size_mb * 1e6), commit_ns=int(commit_s * 1e9))

    @classmethod
    def unpack(cls, path: Path) -> Self:
        """Read a packed recording (`pack`) in memory. Raises JournalError when it is damaged."""
        db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            db.deserialize(lzma.decompress(path.read_bytes()))
            if db.execute("PRAGMA user_version").fetchone()[0] != _SCHEMA_VERSION:
                raise JournalError(f"{path}: not a recording of this version; record again")
        except (OSError, lzma.LZMAError, sqlite3.Error) as error:
            raise JournalError(f"{path}: not a packed recording: {error}") from error
        return cls(db, size_bytes=1 << 62, commit_ns=0)

    def pack(self, path: Path) -> None:
        """Write everything to one compressed file, for keeping or shipping."""
        self.commit()
        self._db.execute("PRAGMA journal_mode = DELETE")
        self._db.execute("VACUUM")
        path.write_bytes(lzma.compress(self._db.serialize(), preset=9 | lzma.PRESET_EXTREME))
        self._db.execute("PRAGMA journal_mode = WAL")

    def begin(self, header: SessionHeader) -> int:
        """Start a session; what is added from now on belongs to it. Returns its number."""
        self.commit()
        self._last_commit_ns = None
        try:
            cursor = self._db.execute("INSERT INTO session (header) VALUES (?)", (self._encoder.encode(header),))
        except sqlite3.Error as error:
            raise _unwritable(error) from error
        self._session = int(cursor.lastrowid or 0)
        return self._session

    def add(self, sample: RawSample, decision: Decision | None = None, events: tuple[SwitchEvent, ...] = ()) -> None:
        """Append one tick; written to disk with the batch. Raises JournalError when the disk does not take it.

        Also for an integer that MessagePack has no room for (2**64 and more).
        """
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
            self._insert("sample", sample)
            if decision is not None:
                self._insert("decision", decision)
            for event in events:
                self._insert("event", event)
            if self._last_commit_ns is None:
                self._last_commit_ns = sample.monotonic_ns
            if sample.monotonic_ns - self._last_commit_ns >= self._commit_ns:
                self.commit()
                self._last_commit_ns = sample.monotonic_ns
        except sqlite3.Error as error:
            raise _unwritable(error) from error
        except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
            raise JournalError(f"journal: sample at {sample.monotonic_ns} ns cannot be encoded: {error}") from error

    def commit(self) -> None:
        """Write the batch out and keep the size bound. Raises JournalError when the disk does not take it."""
        try:
            self._commit()
        except sqlite3.Error as error:
            raise _unwritable(error) from error

    def _commit(self) -> None:
        if self._db.in_transaction:
            self._db.execute("COMMIT")
        page_bytes = self._db.execute("PRAGMA page_size").fetchone()[0]
        while self._db.execute("PRAGMA page_count").fetchone()[0] * page_bytes > self._size_bytes:
            oldest = self._db.execute("SELECT min(id), max(id) FROM sample").fetchone()
            if oldest[0] is None:
                break
            for table in ("sample", "decision", "event"):
                first, last = self._db.execute(f"SELECT min(id), max(id) FROM {table}").fetchone()  # noqa: S608
                if first is not None:  # a tenth at a time, so that this is rare
                    bound = first + max(1, (last - first + 1) // 10)
                    self._db.execute(f"DELETE FROM {table} WHERE id < ?", (bound,))  # noqa: S608
            self._db.execute("DELETE FROM session WHERE id < (SELECT min(session) FROM sample)")
            self._db.executescript("PRAGMA incremental_vacuum")  # execute() would free one page and stop

    def sessions(self) -> list[Session]:
        """All sessions, oldest first."""
        rows = self._db.execute("SELECT id, header FROM session ORDER BY id").fetchall()
        return [Session(number, msgspec.msgpack.decode(header, type=SessionHeader)) for number, header in rows]

    def samples(self, session: int) -> Iterator[RawSample]:
        """Samples of one session in order."""
        yield from self._read("sample", session, RawSample)

    def decisions(self, session: int) -> Iterator[Decision]:
        """Decisions of one session in order."""
        yield from self._read("decision", session, Decision)

    def events(self, session: int) -> Iterator[SwitchEvent]:
        """Switch events of one session in order."""
        yield from self._read("event", session, SwitchEvent)

    def close(self) -> None:
        """Commit and close; closed in any case. Raises JournalError when the last batch could not be written."""
        try:
            self.commit()
        finally:
            self._db.close()  # what was not committed is rolled back

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, table: str, session: int, into: type[_Row]) -> Iterator[_Row]:
        # a row that this version cannot read is a JournalError too
        query = f"SELECT id, body FROM {table} WHERE session = ? ORDER BY id"  # noqa: S608
        for number, body in self._db.execute(query, (session,)):
            try:
                yield msgspec.msgpack.decode(body, type=into)
            except msgspec.MsgspecError as error:
                raise JournalError(f"journal: {table} {number} is not of this version: {error}") from error

    def _insert(self, table: str, body: object) -> None:
        self._db.execute(
            f"INSERT INTO {table} (session, body) VALUES (?, ?)",  # noqa: S608
            (self._session, self._encoder.encode(body)),
        )


def _unwritable(error: sqlite3.Error) -> JournalError:
    return JournalError(f"journal: cannot be written: {error}; is the disk full?")
