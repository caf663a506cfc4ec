# SPDX-License-Identifier: GPL-2.0-only
"""Samples and decisions on disk: SQLite in WAL mode, batched commits, bounded size.

A journal holds sessions (one run of the agent or one recording). Samples are stored raw, as MessagePack, so that
frames and decisions can be derived again; a recording carries the workload's true label. A shadow session (`asa run
--shadow`) also has what each tick cost. Nothing is thinned out: when the file passes its bound the oldest samples go
first.

`asa.journal_file` has the tables and their versions. An older file is brought up to date when it is opened for writing.
"""

import lzma
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from asa import files, journal_file, paths, wire
from asa.core.decision import Decision, Order, SchedulerName, SwitchEvent
from asa.core.errors import JournalError, JournalLostError
from asa.core.mark import Mark
from asa.core.sample import RawSample

_Row = TypeVar("_Row")
COMMIT_S = 10.0
"""How often it is written to the disk, which has to wake for it: what is lost when the power fails. A first choice."""


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
    parameters: str = ""  # its programs as they were started; of a scenario: application -> parameters, as JSON
    tier: str = ""  # of a scenario: real or lab
    programs: dict[str, str] = {}  # of a scenario: program -> version
    mode: str = ""  # of the agent at the start: switching, observing or shadow; "" in recordings, before version 2
    # What the agent went by at its start, so that a replay comes to the same decisions; empty before version 3.
    settings: str = ""  # asa.config.Settings as JSON
    table: str = ""  # the mapping table's path
    model: str = ""  # SHA-256 of the artefact
    versions: dict[str, str] = {}  # scheduler -> hash of its file
    standing: str = ""  # asa.decide.penalties.Bars as JSON
    stand_by: bool = False  # schedulers may be kept loaded for their turn
    learning: str = ""  # asa.decide.learning.Learning as JSON
    hints: str = ""  # asa.decide.hints.Hints as JSON
    known: str = ""  # asa.decide.knowledge.KnowledgeFile as JSON, without its key

    @property
    def played(self) -> tuple[str, ...]:
        """Names of the programs of a scenario's recording, the interactive one first; () in other sessions."""
        try:
            return tuple(wire.from_json(self.parameters, dict[str, Any]))
        except msgspec.DecodeError:  # none, a workload's command lines, or a sequence's list
            return ()


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What one tick took of the agent's own time: microseconds that passed, while other tasks may have run between."""

    monotonic_ns: int  # of the tick's sample
    collection_us: float  # reading all sources
    sources_us: dict[str, float] = {}  # each of them, the median of its last reads
    inference_us: float | None  # the model; None when there was nothing to judge by
    decision_us: float  # the rest of the pure step: features, voting, policy
    action_us: float  # ordering a switch: checking the binary and starting its process
    journal_us: float | None  # writing sample and decision; None without a journal
    cpu_ns: int  # processor time of the agent's process since its start, all threads, without its children's
    resident_bytes: int | None  # of the agent's process at the end of the tick


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the pure step was given in one tick beside the sample and the news, or what it went by from then on."""

    monotonic_ns: int  # of the tick's sample
    order: Order | None = None  # the user's word
    sizes: dict[str, int] | None = None  # scheduler that stood by -> bytes; None: as before
    settings: str = ""  # this and the next three as in the header, after they were read again; "": as before
    table: str = ""
    model: str = ""
    versions: dict[str, str] | None = None
    hints: str = ""  # as in the header, after settings were read again
    may_switch: bool | None = None  # from then on, as the next one; None: as before
    may_stand_by: bool | None = None

    def setup_changed(self) -> bool:
        """Whether anything but an order or sizes is in it."""
        given = (self.versions, self.may_switch, self.may_stand_by)
        return bool(self.settings or self.table or self.model) or any(one is not None for one in given)


@dataclass(frozen=True, slots=True)
class Session:
    """One stored session."""

    number: int
    header: SessionHeader


class Journal:
    """A journal file, opened for writing (and reading) or from a packed recording for reading only."""

    def __init__(
        self,
        db: sqlite3.Connection,
        *,
        size_bytes: int,
        commit_ns: int,
        version: int = journal_file.NEWEST_VERSION,
        path: Path | None = None,
    ) -> None:
        self._db = db
        self._path = path  # None: packed
        self._version = version
        self._size_bytes = size_bytes
        self._commit_ns = commit_ns
        self._last_commit_ns: int | None = None
        self._encoder = wire.packer()
        self._session = 0
        self._sample = 0  # id of the last one
        self._sizes: Mapping[str, int] = {}

    @classmethod
    def open(cls, path: Path, *, size_mb: float = 64.0, commit_s: float = COMMIT_S) -> Self:
        """Open or create. Raises JournalError: JournalLostError for a foreign, newer or damaged file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(path, isolation_level=None)
        except (*journal_file.ERRORS, OSError) as error:
            raise _failed(f"{path}: cannot be opened as a journal", error) from error
        try:
            if journal_file.prepare(db):
                return cls(db, size_bytes=int(size_mb * 1e6), commit_ns=int(commit_s * 1e9), path=path)
            found = journal_file.version(db)
        except journal_file.ERRORS as error:
            db.close()  # an open one looks after what SQLite keeps beside a file of this name, whosever that is by then
            raise _failed(f"{path}: cannot be opened as a journal", error) from error
        db.close()
        raise JournalLostError(f"{path}: not a journal of this version ({found})")

    @classmethod
    def look(cls, path: Path) -> Self:
        """Open for reading only, also while an agent writes; the file stays as it is. Raises JournalError."""
        try:
            if not paths.there(path) or not stat.S_ISREG(path.stat().st_mode):
                raise JournalError(f"{path}: there is no such journal")
        except OSError as error:
            raise JournalError(f"{path}: cannot be read as a journal: {error.strerror}") from error
        # What SQLite keeps beside a journal cannot be made in a folder without write permission; a journal that was
        # closed in order does not need it.
        alone = not path.with_name(path.name + "-wal").exists() and not os.access(path.parent, os.W_OK)
        option = "mode=ro&immutable=1" if alone else "mode=ro"
        try:
            db = sqlite3.connect(f"file:{quote(os.fsencode(path))}?{option}", uri=True, isolation_level=None)
            version, ours = journal_file.version(db), journal_file.ours(db)
        except journal_file.ERRORS as error:
            raise JournalError(f"{path}: cannot be read as a journal: {error}") from error
        if not ours:
            db.close()
            raise JournalError(f"{path}: not a journal of this version ({version})")
        return cls(db, size_bytes=1 << 62, commit_ns=0, version=version, path=path)

    @classmethod
    def unpack(cls, path: Path) -> Self:
        """Read a packed recording (`pack`) in memory. Raises JournalError when it is damaged."""
        db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            db.deserialize(lzma.decompress(path.read_bytes()))
            version = journal_file.version(db)
            if not journal_file.readable(version):
                raise JournalError(f"{path}: not a recording of this version; record again")
        except (OSError, lzma.LZMAError, *journal_file.ERRORS) as error:
            raise JournalError(f"{path}: not a packed recording: {error}") from error
        return cls(db, size_bytes=1 << 62, commit_ns=0, version=version)

    def pack(self, path: Path) -> None:
        """Write everything to one compressed file, for keeping or shipping. Raises OSError, JournalError."""
        self.commit()
        try:
            self._db.execute("PRAGMA journal_mode = DELETE")
            self._db.execute("VACUUM")
            packed = lzma.compress(self._db.serialize(), preset=9 | lzma.PRESET_EXTREME)
            self._db.execute("PRAGMA journal_mode = WAL")
        except journal_file.ERRORS as error:
            raise JournalError(f"{path}: the journal cannot be packed now: {error}; end who else uses it") from error
        files.replace(path, packed)

    def begin(self, header: SessionHeader) -> int:
        """Start a session; what is added from now on belongs to it. Returns its number."""
        self.commit()
        self._last_commit_ns, self._sizes = None, {}
        try:
            cursor = self._db.execute("INSERT INTO session (header) VALUES (?)", (self._encoder.encode(header),))
        except sqlite3.Error as error:
            raise _failed("journal: cannot be written", error) from error
        self._session = int(cursor.lastrowid or 0)
        return self._session

    def add(
        self,
        sample: RawSample,
        decision: Decision | None = None,
        events: tuple[SwitchEvent, ...] = (),
        orders: tuple[Order, ...] = (),
        sizes: Mapping[SchedulerName, int] | None = None,
    ) -> None:
        """Append one tick: what the pure step was given, and its decision; written to disk with the batch.

        Raises JournalError when the disk does not take it, and for an integer that MessagePack has no room for (2**64
        and more).
        """
        at_ns = sample.monotonic_ns
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
            self._sample = self._insert("sample", sample)
            if decision is not None:
                self._insert("decision", decision)
            for event in events:
                self._insert("event", event, heard_ns=at_ns)
            for order in orders:
                self._insert("told", Told(monotonic_ns=at_ns, order=order), sample=self._sample)
            if sizes is not None and sizes != self._sizes:
                self._sizes = {str(name): size for name, size in sizes.items()}
                self._insert("told", Told(monotonic_ns=at_ns, sizes=dict(self._sizes)), sample=self._sample)
            if self._last_commit_ns is None:
                self._last_commit_ns = at_ns
            if at_ns - self._last_commit_ns >= self._commit_ns:
                self.commit()
                self._last_commit_ns = at_ns
        except sqlite3.Error as error:
            raise _failed("journal: cannot be written", error) from error
        except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
            raise JournalError(f"journal: sample at {at_ns} ns cannot be encoded: {error}") from error

    def add_costs(self, costs: Costs) -> None:
        """Append what the tick just added has cost; written to disk with its batch. Raises JournalError."""
        self._append("cost", (costs,))

    def add_events(self, events: tuple[SwitchEvent, ...]) -> None:
        """Append what came after the last tick; written to disk with its batch. Raises JournalError."""
        self._append("event", events)

    def tell(self, told: Told) -> None:
        """Append what the next ticks go by, kept with the session; written with its batch. Raises JournalError."""
        self._append("told", (told,))

    def mark(self, marks: Iterable[Mark]) -> None:
        """Append the marks of a recorded scenario; written to disk with the batch. Raises JournalError."""
        self._append("mark", marks)

    def commit(self) -> None:
        """Write the batch out and keep the size bound. Raises JournalError when the disk does not take it."""
        try:
            self._commit()
        except sqlite3.Error as error:
            raise _failed("journal: cannot be written", error) from error

    def _commit(self) -> None:
        if self._db.in_transaction:
            self._db.execute("COMMIT")
        journal_file.trim(self._db, self._size_bytes)

    def sessions(self) -> list[Session]:
        """All sessions, oldest first. Raises JournalError for one that this version cannot read."""
        with self._reading():
            rows = self._db.execute("SELECT id, header FROM session ORDER BY id").fetchall()
        return [Session(number, _decoded("session", number, header, SessionHeader)) for number, header in rows]

    def samples(self, session: int) -> Iterator[RawSample]:
        """Samples of one session in order."""
        yield from self.read("sample", session, RawSample)

    def decisions(self, session: int) -> Iterator[Decision]:
        """Decisions of one session in order."""
        yield from self.read("decision", session, Decision)

    def events(self, session: int) -> Iterator[SwitchEvent]:
        """Switch events of one session in order."""
        yield from self.read("event", session, SwitchEvent)

    def costs(self, session: int) -> Iterator[Costs]:
        """What the ticks of one session cost, in order: one in `journal.costs_every`, each in shadow mode."""
        if self._version >= 2:
            yield from self.read("cost", session, Costs)

    def told(self, session: int) -> Iterator[Told]:
        """What the agent was told in one session, in order."""
        if self._version >= 3:
            yield from self.read("told", session, Told)

    def marks(self, session: int) -> Iterator[Mark]:
        """The marks of one session, in order; nothing but for recorded scenarios."""
        if self._version >= 4:
            yield from self.read("mark", session, Mark)

    def heard(self, session: int) -> Iterator[tuple[int | None, SwitchEvent]]:
        """Events of one session, each with the time of the sample in whose tick it was heard, if that is known.

        Raises JournalError as `read`.
        """
        column = "heard_ns" if self._version >= 3 else "NULL"
        query = f"SELECT {column}, id, body FROM event WHERE session = ? ORDER BY id"  # noqa: S608
        with self._reading():
            for at_ns, number, body in self._db.execute(query, (session,)):
                yield at_ns, _decoded("event", number, body, SwitchEvent)

    def ticks(self, session: int) -> int:
        """How many samples a session has. Raises JournalError for a damaged file."""
        with self._reading():
            return int(self._db.execute("SELECT count(*) FROM sample WHERE session = ?", (session,)).fetchone()[0])

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

    def read(self, table: str, session: int, into: type[_Row]) -> Iterator[_Row]:
        """Rows of one of the file's tables in one session, in order; `into` may have fewer fields than were written.

        Raises JournalError for a row that this version cannot read, and for a damaged file.
        """
        query = f"SELECT id, body FROM {table} WHERE session = ? ORDER BY id"  # noqa: S608
        with self._reading():
            for number, body in self._db.execute(query, (session,)):
                yield _decoded(table, number, body, into)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except journal_file.ERRORS as error:
            text = f"{self._path or 'journal'}: cannot be read as a journal: {error}"
            lost = self._path is not None and journal_file.lost(error)
            raise JournalLostError(text) if lost else JournalError(text) from error

    def _append(self, table: str, bodies: Iterable[object], **columns: int) -> None:
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
            for body in bodies:
                self._insert(table, body, **columns)
        except sqlite3.Error as error:
            raise _failed("journal: cannot be written", error) from error
        except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
            raise JournalError(f"journal: {table} cannot be encoded: {error}") from error

    def _insert(self, table: str, body: object, **columns: int) -> int:
        names, values = ", ".join(("session", "body", *columns)), ", ".join("?" * (2 + len(columns)))
        row = (self._session, self._encoder.encode(body), *columns.values())
        return int(self._db.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", row).lastrowid or 0)  # noqa: S608


def _decoded(table: str, number: int, body: bytes, into: type[_Row]) -> _Row:
    try:
        return wire.from_msgpack(body, into)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:  # in a damaged file it may be no bytes
        raise JournalError(f"journal: {table} {number} is not of this version: {error}") from error


def _failed(what: str, error: Exception) -> JournalError:
    text = f"{what}: {error}"
    return JournalLostError(text) if journal_file.lost(error) else JournalError(f"{text}; is the disk full?")
