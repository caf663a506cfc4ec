# SPDX-License-Identifier: GPL-2.0-only
"""What a client may read by an address: `asa://status` and others, each one JSON object."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from asa import host, wire
from asa.cli.journal import JOURNAL, session_of
from asa.core.decision import SCHEDULER_PATTERN
from asa.mcp import asked, audit, reading
from asa.mcp.machine import Machine
from asa.report.gathering import gather
from asa.report.proof import of_host
from asa.report.reading import opened

_MOST_SHOWN = 50  # sessions, of the newest
_MOST_EVENTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One address. With `part` it is a template: what fits `part` follows the address and a slash."""

    name: str
    description: str
    read: Callable[..., Any]
    part: str = ""  # a regular expression
    label: str = ""  # of the part, in the template

    @property
    def uri(self) -> str:
        """The address, or the template of addresses (RFC 6570)."""
        return f"asa://{self.name}" + (f"/{{{self.label}}}" if self.part else "")


class Resources:
    """The addresses of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.all = (
            Resource(name="status", description="The agent's status, as the tool of that name", read=self._status),
            Resource(name="machine", description="What tells this machine from another", read=self._facts),
            Resource(name="table", description="Who serves which class, best first, and why", read=self._table),
            Resource(name="policies", description="All schedulers that the manifest has", read=self._policies),
            Resource(
                name="policies",
                description="One scheduler, as the tool `policies` with its id",
                read=self._policy,
                part=SCHEDULER_PATTERN.strip("^$"),
                label="id",
            ),
            Resource(name="reports", description="What was found on this machine, by use", read=self._proof),
            Resource(name="changes", description="What clients changed by this server", read=self._changes),
            Resource(name="journal", description="The sessions of the agent's own journal", read=self._sessions),
            Resource(
                name="journal",
                description="One session: times by class and scheduler, and its last switches",
                read=self._session,
                part=r"[1-9][0-9]{0,8}",
                label="session",
            ),
        )

    def read(self, uri: str) -> dict[str, Any] | None:
        """What is at an address, None where nothing is. Raises AsaError for what cannot be read now."""
        for one in self.all:
            found = re.fullmatch(f"asa://{one.name}" + (f"/({one.part})" if one.part else ""), uri, re.ASCII)
            if found is not None:
                body: Mapping[str, Any] = wire.plain(one.read(*found.groups()[:1]) if one.part else one.read())
                return dict(body)
        return None

    def _status(self) -> object:
        return reading.status(self._machine, asked.Nothing())

    def _facts(self) -> object:
        return host.facts(self._machine.places.proc, self._machine.places.sys)

    def _table(self) -> object:
        found = self._machine.host().table
        rankings = {str(name): found.ranked(name, saver=False) for name in found.listed}
        classes = {name: [{"scheduler": one, "why": why} for one, why in ranked] for name, ranked in rankings.items()}
        return {"machine": found.machine, "provenance": found.provenance, "stale": found.stale, "classes": classes}

    def _policies(self) -> object:
        return reading.policies(self._machine, asked.Policies(usable=False, limit=50))

    def _policy(self, name: str) -> object:
        return reading.policy(self._machine, name)

    def _proof(self) -> object:
        return of_host(self._machine.places)

    def _changes(self) -> object:
        return {"changes": audit.read(self._machine.places.state / audit.NAME)[-_MOST_EVENTS:]}

    def _sessions(self) -> object:
        with opened(self._machine.places.state / JOURNAL) as journal:
            found = [
                {
                    "session": one.number,
                    "started_ns": one.header.started_ns,
                    "mode": one.header.mode,
                    "ticks": journal.ticks(one.number),
                }
                for one in journal.sessions()[-_MOST_SHOWN:]
            ]
        return {"sessions": found}

    def _session(self, text: str) -> object:
        path = self._machine.places.state / JOURNAL
        number = session_of(path, int(text))
        with opened(path) as journal:
            found = gather(journal, JOURNAL, number)
        sessions = tuple(msgspec.structs.replace(one, timeline=None) for one in found.sessions)
        return msgspec.structs.replace(found, sessions=sessions, events=found.events[-_MOST_EVENTS:])
