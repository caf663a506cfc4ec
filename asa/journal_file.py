# SPDX-License-Identifier: GPL-2.0-only
"""The file of a journal (`asa.journal`): its tables, its versions, and how it is kept within its bound.

Version 2 has the table `cost`, version 3 what a replay needs besides (what the agent was told, which tick heard of an
event), version 4 the marks of a recorded scenario. Everything here raises ERRORS.
"""

import sqlite3

import msgspec

from asa import wire

NEWEST_VERSION = 4
_OLDEST_VERSION = 1
_APPLICATION_ID = 0x41534131  # "ASA1": sqlite3 "PRAGMA application_id", so that file(1) and we know our own
_BEYOND = 1 << 62  # any row's number
ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter when SQLite's message has words of a damaged file in it


def _rows(name: str, more: str = "") -> tuple[str, str]:
    # a table of what sessions have, and its index
    columns = f"id INTEGER PRIMARY KEY, session INTEGER NOT NULL, body BLOB NOT NULL{more}"
    return f"CREATE TABLE {name} ({columns})", f"CREATE INDEX {name}_session ON {name} (session)"


_STEPS = {  # version -> what made it of the one before
    1: (
        "CREATE TABLE session (id INTEGER PRIMARY KEY, header BLOB NOT NULL)",
        *(statement for name in ("sample", "decision", "event") for statement in _rows(name)),
    ),
    2: _rows("cost"),
    3: (*_rows("told", ", sample INTEGER"), "ALTER TABLE event ADD COLUMN heard_ns INTEGER"),
    4: _rows("mark"),
}


class _Timed(msgspec.Struct):
    monotonic_ns: int


def version(db: sqlite3.Connection) -> int:
    """Of the file; 0 for one that is none of ours, or has no tables yet."""
    db.execute("SELECT count(*) FROM sqlite_master")  # or a list of tables that is damaged would be told later
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def readable(found: int) -> bool:
    """Whether this version of asa reads files of that one."""
    return _OLDEST_VERSION <= found <= NEWEST_VERSION


def ours(db: sqlite3.Connection) -> bool:
    """Whether this is a journal, of a version that can be read."""
    owner = db.execute("PRAGMA application_id").fetchone()[0]
    return bool(owner == _APPLICATION_ID and readable(version(db)))


def lost(error: Exception) -> bool:
    """Whether a file that gave this error is beyond use: damaged, no database, or without what its version has."""
    if isinstance(error, UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)  # https://sqlite.org/rescode.html
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def prepare(db: sqlite3.Connection) -> bool:
    """Make the tables in a new file, or bring an older one to this version. False: it is not ours, and stays as is."""
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        db.execute("PRAGMA user_version = 0")  # whatever it was of: it has no tables
    elif not ours(db):
        return False
    _migrate(db)
    db.execute("PRAGMA synchronous = NORMAL")
    return True


def trim(db: sqlite3.Connection, size_bytes: int) -> None:
    """Delete the oldest ticks, and all that came of them, until the file is within its bound; the newest tick stays."""
    page_bytes = db.execute("PRAGMA page_size").fetchone()[0]
    while db.execute("PRAGMA page_count").fetchone()[0] * page_bytes > size_bytes:
        first, last = db.execute("SELECT min(id), max(id) FROM sample").fetchone()
        if first == last:  # also when there is none
            break
        db.execute("BEGIN")
        try:
            _drop(db, first + max(1, (last - first + 1) // 10))  # a tenth at a time, so that this is rare
            db.execute("COMMIT")
        except sqlite3.Error:
            _roll_back(db)
            raise
        db.executescript("PRAGMA incremental_vacuum")  # execute() would free one page and stop


def _drop(db: sqlite3.Connection, bound: int) -> None:
    """Delete the samples before number `bound`, and what belongs to no tick that is left."""
    db.execute("DELETE FROM sample WHERE id < ?", (bound,))
    session, oldest = db.execute("SELECT session, body FROM sample ORDER BY id LIMIT 1").fetchone()
    oldest_ns = _time_ns(oldest)
    for table, heard in (("decision", "NULL"), ("event", "heard_ns"), ("cost", "NULL")):
        db.execute(f"DELETE FROM {table} WHERE session < ?", (session,))  # noqa: S608
        rows = db.execute(f"SELECT id, {heard}, body FROM {table} WHERE session = ? ORDER BY id", (session,))  # noqa: S608
        times_ns = ((number, _time_ns(body) if at_ns is None else at_ns) for number, at_ns, body in rows)
        kept = next((number for number, time_ns in times_ns if time_ns >= oldest_ns), _BEYOND)
        rows.close()
        db.execute(f"DELETE FROM {table} WHERE session = ? AND id < ?", (session, kept))  # noqa: S608
    db.execute("DELETE FROM told WHERE sample < ?", (bound,))
    for table, column in (("session", "id"), ("mark", "session"), ("told", "session")):
        db.execute(f"DELETE FROM {table} WHERE {column} < ?", (session,))  # noqa: S608


def _time_ns(body: bytes) -> int:
    """CLOCK_MONOTONIC of a sample and the like; what cannot be read counts as the oldest."""
    try:
        return wire.from_msgpack(body, _Timed).monotonic_ns
    except msgspec.MsgspecError:
        return 0


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:  # a full disk ends it by itself
        db.execute("ROLLBACK")


def _migrate(db: sqlite3.Connection) -> None:
    """Bring a new or older journal to this version, in place and as a whole; nothing in it changes."""
    if version(db) == NEWEST_VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        found = version(db)  # again: another agent may have been faster
        for number, statements in _STEPS.items():
            for statement in statements if number > found else ():
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {NEWEST_VERSION}")
        db.execute("COMMIT")
    except sqlite3.Error:
        _roll_back(db)
        raise
