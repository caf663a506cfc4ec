# SPDX-License-Identifier: GPL-2.0-only
"""Where an agent keeps its journal: opened at its start, and once more after it could not be written.

One that was asked for by name is needed: whatever keeps it from opening is an error at the start, and its file is left
alone. The agent's own is not: a damaged or foreign file is moved aside, and where none can be had the agent goes on
without.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import asa
from asa import config, host, paths, wire
from asa.act.kernel import sched_ext_state
from asa.core.errors import JournalError, JournalLostError
from asa.decide import knowledge
from asa.decide.books import Books
from asa.journal import Journal, SessionHeader
from asa.pipeline import Setup

_BESIDE = ("-wal", "-shm")  # ends of what SQLite keeps beside a file in WAL mode (https://sqlite.org/walformat.html)


class Book:
    """The journal of one agent, or none for `path` None. Close it, whatever happened."""

    def __init__(
        self, path: Path | None, limits: config.JournalSettings, say: Callable[[str], None], *, needed: bool
    ) -> None:
        self.journal: Journal | None = None
        self._path = path
        self._limits = limits
        self._say = say
        self._needed = needed

    def begin(self, header: SessionHeader) -> None:
        """At the start. Raises JournalError when a journal that is needed cannot be had."""
        if self._path is None:
            return
        try:
            self.journal = self._opened(self._path, header)
        except JournalError as error:
            if self._needed:
                raise
            self._say(f"{error}; going on without a journal for now")

    def again(self, header: SessionHeader) -> Journal | None:
        """Another session, after the last one failed or never began; None: not yet. Never raises."""
        if self._path is None:
            return None
        with suppress(JournalError):
            self._let_go()  # what still waits to be written may find room by now
        try:
            self.journal = self._opened(self._path, header)
        except JournalError:  # that there is none has been said
            return None
        self._say(f"{self._path}: a journal is kept again")
        return self.journal

    def close(self) -> None:
        """Closed in any case. Raises JournalError when the last batch of a journal that is needed was not written."""
        try:
            self._let_go()
        except JournalError as error:
            if self._needed:
                raise
            self._say(str(error))

    def _let_go(self) -> None:
        journal, self.journal = self.journal, None
        if journal is not None:
            journal.close()

    def _opened(self, path: Path, header: SessionHeader) -> Journal:
        try:
            return self._session(path, header)
        except JournalLostError as error:
            if self._needed:
                raise
            aside = _move_aside(path, error)
            self._say(f"{error.what}; moved to {aside}, starting anew")
        return self._session(path, header)

    def _session(self, path: Path, header: SessionHeader) -> Journal:
        journal = Journal.open(path, size_mb=self._limits.size_mb)
        try:
            journal.begin(header)
        except JournalError:
            with suppress(JournalError):
                journal.close()
            raise
        return journal


def _move_aside(path: Path, error: JournalLostError) -> Path:
    # together: SQLite would take what it kept beside the old file for the new one's
    aside = path.with_suffix(".damaged")
    try:
        for end in ("", *_BESIDE):
            old, new = path.with_name(path.name + end), aside.with_name(aside.name + end)
            if old.exists():
                old.replace(new)
            else:
                new.unlink(missing_ok=True)
    except OSError as failure:
        raise JournalError(f"{error.what}; it cannot be moved away: {failure.strerror}") from failure
    return aside


def session_header(
    places: paths.Places,
    started_ns: int,
    settings: config.Settings,
    setup: Setup,
    model: str,
    books: Books,
) -> SessionHeader:
    """What a session that begins now goes by; `model` is the artefact's SHA-256, `started_ns` CLOCK_REALTIME."""
    state = sched_ext_state(places.sys)
    return SessionHeader(
        started_ns=started_ns,
        asa_version=asa.__version__,
        host=host.cpu_model(),
        kernel=os.uname().release,
        cpus=host.cpus(),
        scheduler=state.ops if state is not None else "",
        mode="shadow" if setup.shadow else "switching" if setup.permit.switch else "observing",
        settings=wire.json_text(settings),
        table=setup.table.path,
        model=model,
        versions=dict(setup.versions),
        standing=wire.json_text(books.bars),
        stand_by=setup.permit.stand_by,
        learning=wire.json_text(books.lessons.kept),
        hints=wire.json_text(setup.hints),
        known=wire.json_text(knowledge.as_file(books.knowledge.known)),
    )
