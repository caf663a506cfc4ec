# SPDX-License-Identifier: GPL-2.0-only
"""The file of a journal (`asa.journal`): its tables, its versions, and how it is kept within its bound.

Version 2 has the table `cost`, version 3 what a replay needs besides (what the agent was told, which tick heard of an
event), version 4 the marks of a recorded scenario. Everything here raises sqlite3.Error.
"""

import sqlite3

NEWEST_VERSION = 4
_OLDEST_VERSION = 1
_APPLICATION_ID = 0x41534131  # "ASA1": sqlite3 "PRAGMA application_id", so that file(1) and we know our own


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
_OF_A_TICK = ("sample", "decision", "event", "cost")


def version(db: sqlite3.Connection) -> int:
    """Of the file; 0 for one that is none of ours, or has no tables yet."""
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
    """Delete the oldest ticks until the file is within its bound."""
    page_bytes = db.execute("PRAGMA page_size").fetchone()[0]
    while db.execute("PRAGMA page_count").fetchone()[0] * page_bytes > size_bytes:
        oldest = db.execute("SELECT min(id), max(id) FROM sample").fetchone()
        if oldest[0] is None:
            break
        for table in _OF_A_TICK:
            first, last = db.execute(f"SELECT min(id), max(id) FROM {table}").fetchone()  # noqa: S608
            if first is not None:  # a tenth at a time, so that this is rare
                bound = first + max(1, (last - first + 1) // 10)
                db.execute(f"DELETE FROM {table} WHERE id < ?", (bound,))  # noqa: S608
        db.execute("DELETE FROM told WHERE sample < (SELECT min(id) FROM sample)")
        for table, column in (("session", "id"), ("mark", "session"), ("told", "session")):
            db.execute(f"DELETE FROM {table} WHERE {column} < (SELECT min(session) FROM sample)")  # noqa: S608
        db.executescript("PRAGMA incremental_vacuum")  # execute() would free one page and stop


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
        if db.in_transaction:  # a full disk ends it by itself
            db.execute("ROLLBACK")
        raise
