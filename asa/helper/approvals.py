# SPDX-License-Identifier: GPL-2.0-only
"""Which schedulers need no administrator: what an administrator has said of them, kept in one file.

Whoever is not named there counts as the caller has it: the installed ones of the manifest are approved. Does not ask
polkit, and does not know the manifest.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from asa import wire
from asa.core.decision import SCHEDULER_PATTERN, SchedulerName
from asa.core.errors import AsaError, InputError
from asa.helper import statefile

_NAME = re.compile(SCHEDULER_PATTERN)
_MOST_NAMES = 256


class _Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    added: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()


class Approvals:
    """The file at `path`, which is read anew each time: nobody waits for these answers."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def approved(self, known: Iterable[str]) -> frozenset[str]:
        """Of `known`, which are approved unless revoked; and those that were added.

        A mode (`scx_lavd:performance`) that is not named itself counts as its scheduler does. Raises AsaError
        (InputError for what it says) when the file cannot be believed: then nothing is approved.
        """
        said = self._read()
        added, revoked = frozenset(said.added), frozenset(said.revoked)
        free = {name for name in known if name not in revoked and SchedulerName(name).bare not in revoked}
        return frozenset(free | added)

    def set(self, name: str, approved: bool) -> None:
        """Keep what an administrator says. To revoke a scheduler revokes each of its modes.

        Raises AsaError when `name` is none, or when the file cannot be believed or written; nothing has changed then.
        """
        if _NAME.fullmatch(name) is None:
            raise AsaError(f"{name!r} is no name of a scheduler")
        said = self._read()
        added, revoked = set(said.added) - {name}, set(said.revoked) - {name}
        if approved:
            added.add(name)
        else:
            added = {one for one in added if SchedulerName(one).bare != name}
            revoked.add(name)
        if len(added) + len(revoked) > _MOST_NAMES:
            raise AsaError(f"{self._path}: has {_MOST_NAMES} names already")
        fresh = _Said(added=tuple(sorted(added)), revoked=tuple(sorted(revoked)))
        try:
            statefile.write(self._path, wire.json_bytes(fresh) + b"\n")
        except OSError as error:
            raise AsaError(f"{self._path}: cannot be written: {error.strerror}") from error

    def _read(self) -> _Said:
        body = statefile.read(self._path)
        if body is None:
            return _Said()
        try:
            said = wire.from_json(body, _Said)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._refused(body.decode("utf-8", "replace")[:40], f"what `asa` writes there ({error})") from error
        for name in (*said.added, *said.revoked):
            if _NAME.fullmatch(name) is None:
                raise self._refused(name, "names of schedulers")
        return said

    def _refused(self, value: str, allowed: str) -> InputError:
        return InputError(path=str(self._path), key="", value=value, allowed=f"{allowed}; mend or remove the file")
