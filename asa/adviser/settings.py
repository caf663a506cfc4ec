# SPDX-License-Identifier: GPL-2.0-only
"""`adviser.yaml` beside the settings, and the shipped table of well-known programs. Reads YAML, asks nobody."""

import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from asa import paths, yamlfile
from asa.core.errors import InputError
from asa.core.kinds import Kind
from asa.decide.table import PROGRAMS

NAME = "adviser.yaml"

_VERSION = re.compile(r"[-.]?[0-9][0-9.]*$")
_ASKABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}")
_LOCAL = "localhost"


class Use(StrEnum):
    """Who advises."""

    OFF = "off"
    TABLE = "table"  # the shipped table of well-known programs alone
    SERVER = "server"  # and, of what has no line there, a server with OpenAI's interface


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    version: Literal[1] = 1
    use: Use = Use.OFF
    url: Annotated[str, Meta(max_length=200)] = "http://127.0.0.1:8080/v1"
    model: Annotated[str, Meta(pattern="^[A-Za-z0-9._:/+-]{0,80}$")] = ""
    """"": the one that the server names first."""
    remote: bool = False
    """Whether names of programs may leave this machine."""
    per_hour: Annotated[int, Meta(ge=1, le=60)] = 20
    keep_days: Annotated[int, Meta(ge=1, le=365)] = 30


class _TableFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1] = 1
    kinds: dict[Kind, tuple[str, ...]]
    nothing: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Well-known programs: the kind by the name; None: the name says nothing. `first` has one of each kind."""

    kinds: Mapping[str, Kind | None]
    first: tuple[tuple[str, Kind], ...] = ()

    def find(self, name: str) -> tuple[bool, Kind | None]:
        """Whether there is a line of this file's name, and what it says."""
        for one in (name, _VERSION.sub("", name)):
            if one in self.kinds:
                return True, self.kinds[one]
        return False, None


def load(beside: Path) -> Settings:
    """Of the file beside the settings `beside`; without one all is off. Raises InputError."""
    path = beside.with_name(NAME)
    if not paths.there(path):
        return Settings()
    found = yamlfile.load(path, Settings)
    if why := _wrong(found):
        raise InputError(path=str(path), key="url", value=found.url, allowed=why)
    return found


def table(path: Path | None = None) -> Table:
    """The shipped one. Raises InputError."""
    path = path or paths.mapping_tables() / PROGRAMS
    body = yamlfile.load(path, _TableFile)
    kinds: dict[str, Kind | None] = {}
    for key, names in (*body.kinds.items(), (None, body.nothing)):
        for name in names:
            if name in kinds:
                raise InputError(path=str(path), key=key or "nothing", value=name, allowed="each name once")
            kinds[name] = key
    return Table(kinds=kinds, first=tuple((names[0], kind) for kind, names in body.kinds.items() if names))


def askable(name: str) -> bool:
    """Whether a file's name may be put into a question: up to 40 letters, digits and `._+-`."""
    return _ASKABLE.fullmatch(name) is not None


def _wrong(found: Settings) -> str:
    # what the address has to be like, "" where it is
    try:
        parts = urlsplit(found.url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "an address such as http://127.0.0.1:8080/v1"
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
        return "an address such as http://127.0.0.1:8080/v1, without user or query"
    if found.remote or host == _LOCAL or _is_loopback(host):
        return ""
    return f"a server on this machine (127.0.0.1, ::1, {_LOCAL}); `remote: true` lets names of programs leave it"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
