# SPDX-License-Identifier: GPL-2.0-only
"""The portfolio: what the manifest names, what of it is installed here, and the one way to open a scheduler's binary.

Reads the manifest (`asa.act.manifest`), the policies (`asa.act.policies`) and `installed.json`, the record of each
installed file's SHA-256. Nothing is trusted by its name: a binary is opened once, checked and hashed through that
descriptor, and the caller runs the descriptor. Does not build (that is `asa.act.build`) and does not start anything.
"""

import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec

from asa import files, paths, wire
from asa.act import manifest as manifests
from asa.act import policies
from asa.act.manifest import COMPOSED, Composed, Host, Kernel, SchedulerEntry
from asa.act.policies import Policy, Tuned
from asa.act.tokens import SOURCE, STAGES, Tokens
from asa.config import SwitchSettings
from asa.core.decision import DEFAULT_MODE, EEVDF, SchedulerName, bar
from asa.core.errors import InputError, SchedulerError

INSTALL = "asa schedulers install"
_SETTLED_NS = 2_000_000_000


class Origin(StrEnum):
    """Where a usable scheduler comes from."""

    PATH = "path"  # the host's own, such as a distribution's package
    BUILT = "built"
    KERNEL = "kernel"


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `installed.json` says of one scheduler."""

    path: str  # absolute, without a symlink in it
    origin: Origin
    version: str | None  # None: it does not tell
    sha256: str
    flags: tuple[str, ...] | None  # None: it does not tell, `flags_reason` says why
    flags_reason: str = ""
    source: str = ""  # what it was built from, as the manifest had it then
    installed: str  # UTC, ISO 8601


class _Installed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schedulers: dict[SchedulerName, Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """A scheduler that can be used: everything but `entry` and `origin` is None for the kernel's own."""

    entry: SchedulerEntry
    path: Path | None
    origin: Origin
    version: str | None
    sha256: str | None
    flags: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """A scheduler that cannot be used now; `reason` says why and what to do."""

    entry: SchedulerEntry
    reason: str
    on_path: bool = False  # it is here, and only not recorded
    installable: bool = False  # it is not on this machine, and `asa schedulers install` would build it


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A checked binary. Run /proc/self/fd/`fd` with `argv`, which includes the name; the caller closes `fd`."""

    fd: int
    path: Path
    argv: tuple[str, ...]


class Portfolio:
    """The manifest and the record of what is installed. The record is read anew by each question."""

    def __init__(
        self,
        *,
        entries: tuple[SchedulerEntry, ...],
        policies: dict[SchedulerName, Policy],
        folder: Path,
        search: str,
        owners: frozenset[int],
        never: Collection[str] = (),
    ) -> None:
        self.folder = folder
        self.never = frozenset(never)
        self._entries = {SchedulerName(entry.name): entry for entry in entries}
        self.policies = policies
        self._search = search
        self._owners = owners
        self.tokens: Tokens | None = None  # None: offline work, such as the laboratory's, needs no token
        self._hashed: dict[tuple[int, ...], str] = {}

    @classmethod
    def load(cls, manifest: Path, folder: Path, search: str | None = None, owners: Collection[int] = ()) -> Self:
        """The manifest, with installed files in `folder`; `search` is a PATH, None for the environment's.

        Binaries must belong to root, to the effective user, or to one of the further user ids `owners`.
        Raises InputError for a manifest or a policy that is wrong.
        """
        entries = manifests.in_use(manifest).schedulers
        search = os.environ.get("PATH", os.defpath) if search is None else search
        return cls(
            entries=entries,
            policies=policies.in_use(manifest, entries),
            folder=folder,
            search=search,
            owners=frozenset({0, os.geteuid(), *owners}),
        )

    @classmethod
    def of_host(
        cls, limits: SwitchSettings, folder: Path, owners: Collection[int] = (), *, state: Path | None = None
    ) -> Self:
        """The manifest in use by the settings, with installed files in `folder`. Raises InputError.

        `state`: below it are the tokens, without which nothing composed or tuned is opened; None: none is asked for.
        """
        found = cls.load(paths.manifest(), folder, owners=(*limits.trusted_owners, *owners))
        found.never = frozenset(limits.never)
        found.tokens = None if state is None else Tokens(state)
        for index, name in enumerate(limits.never):
            full = SchedulerName(name)
            modes = found.modes().get(full.bare, ())
            if full.bare == EEVDF or full.mode not in modes:
                known = [one for one in found.names() if one != EEVDF]
                allowed = f"one of {', '.join(known)}, or one of its modes, as `{known[0]}:performance`"
                if full.bare in known:
                    allowed = ", ".join([full.bare, *(f"{full.bare}:{mode}" for mode in modes)])
                raise InputError(path="settings", key=f"switch.never[{index}]", value=name, allowed=allowed)
        return found

    def entries(self) -> tuple[SchedulerEntry, ...]:
        """The manifest's, in its order."""
        return tuple(self._entries.values())

    def names(self) -> tuple[SchedulerName, ...]:
        """All schedulers, in the manifest's order."""
        return tuple(self._entries)

    def entry(self, name: SchedulerName) -> SchedulerEntry:
        """The manifest's entry. Raises SchedulerError for a name it does not have."""
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(self._entries)
            raise SchedulerError(scheduler=name, reason=f"not in the manifest, which has {known}") from None

    def add(self, more: Iterable[Policy]) -> None:
        """Policies besides those of files, for offline work. Raises InputError for one with flags that cannot be."""
        for policy in more:
            policies.check(policy, policy.id, self._entries)
            self.policies[policy.name] = policy

    def modes(self) -> dict[str, tuple[str, ...]]:
        """Each scheduler's modes by name, `default` first: what a mapping table may say."""
        found: dict[str, tuple[str, ...]] = {str(name): (DEFAULT_MODE,) for name in self._entries}
        for name in self.policies:
            if name.mode != DEFAULT_MODE:
                found[name.bare] += (name.mode,)
        return found

    def arguments(self, name: SchedulerName) -> tuple[str, ...]:
        """What the program of a scheduler in a mode is called with. Raises SchedulerError where it may not be run."""
        self.entry(name.bare)
        if barred := self.barred(name):
            raise SchedulerError(scheduler=name, reason=barred)
        policy = self.policies.get(SchedulerName.of(name.bare, name.mode))
        if policy is None and name.mode != DEFAULT_MODE:
            known = ", ".join(self.modes()[name.bare])
            raise SchedulerError(scheduler=name.bare, reason=f"has no mode {name.mode!r}, only {known}")
        return policy.arguments if policy else ()

    def barred(self, name: SchedulerName) -> str:
        """Why the settings never have it brought up, "" when they may."""
        one = bar(name, self.never)
        return f"switch.never in the settings names {one}" if one else ""

    def guarded(self, name: SchedulerName) -> bool:
        """Is it composed or tuned, by the manifest and the policies? Then it needs a token, and begins as a trial."""
        policy = self.policies.get(SchedulerName.of(name.bare, name.mode))
        composed = isinstance(self.entry(name.bare).source, Composed) or name.startswith(COMPOSED)
        return composed or (policy is not None and isinstance(policy.provenance, Tuned))

    def canaries(self) -> frozenset[SchedulerName]:
        """All that are `guarded`, in each mode: none serves before a trial on this machine found it better."""
        found = (SchedulerName.of(name, mode) for name, modes in self.modes().items() for mode in modes)
        return frozenset(name for name in found if self.guarded(name))

    def stages(self, name: SchedulerName) -> tuple[str, ...]:
        """What the verifier has to have passed for it to get a token: of composed ones their source, too."""
        return (*STAGES, SOURCE) if name.startswith(COMPOSED) else STAGES

    def untrusted(self, name: SchedulerName) -> str:
        """Why it has no good token although it needs one, "" when it may run. Raises SchedulerError, InputError."""
        if self.tokens is None or not self.guarded(name):
            return ""
        try:
            os.close(self.open(name).fd)
        except SchedulerError as error:
            return error.reason
        return ""

    def file_of(self, name: SchedulerName) -> tuple[str, tuple[str, ...]]:
        """SHA-256 of the program that `open` would give, and its flags; asks for no token. Raises as `open` does."""
        fd, _, sha256, given = self._opened(name)
        os.close(fd)
        return sha256, given

    def name_of_ops(self, ops: str) -> SchedulerName | None:
        """The scheduler that reports `ops` in /sys/kernel/sched_ext/root/ops, None for a stranger or ""."""
        matching = [
            (len(entry.ops), name)
            for name, entry in self._entries.items()
            if entry.ops is not None and (ops == entry.ops or ops.startswith(f"{entry.ops}_"))
        ]
        return max(matching)[1] if matching else None  # `p2dq_x` is not `p2dq` where the manifest has both

    def look(self, name: SchedulerName) -> Available | Unavailable:
        """Can it be used, and from where? The file's hash is left to `open`. Raises SchedulerError, InputError."""
        entry = self.entry(name)
        if isinstance(entry.source, Kernel):
            return Available(entry=entry, path=None, origin=Origin.KERNEL, version=None, sha256=None, flags=None)
        record = self.records().get(name)
        if record is None:
            here = self.find_on_path(SchedulerName(entry.name)) is not None
            builds = not here and not isinstance(entry.source, Host | Composed)
            return Unavailable(entry=entry, reason=self._why_not(entry), on_path=here, installable=builds)
        path = Path(record.path)
        if not path.is_file():
            return Unavailable(entry=entry, reason=f"{path} is gone; run `{INSTALL} {name}`")
        return Available(
            entry=entry,
            path=path,
            origin=record.origin,
            version=record.version,
            sha256=record.sha256,
            flags=record.flags,
        )

    def open(self, name: SchedulerName) -> Opened:
        """Open the binary of a mode and check what was opened: regular, executable, in safe hands, the recorded hash.

        A policy that is composed or tuned needs a token for that file, too. Raises SchedulerError on each failure,
        InputError for a damaged record.
        """
        fd, path, sha256, given = self._opened(name)
        if self.tokens is not None and self.guarded(name):
            wrong = self.tokens.wrong(name, sha256, given, self.stages(name))
            if wrong:
                os.close(fd)
                raise SchedulerError(scheduler=name, reason=wrong)
        return Opened(fd=fd, path=path, argv=(name.bare, *given))

    def _opened(self, name: SchedulerName) -> tuple[int, Path, str, tuple[str, ...]]:
        scheduler = name.bare
        entry = self.entry(scheduler)
        if isinstance(entry.source, Kernel):
            raise SchedulerError(scheduler=scheduler, reason="it is the kernel's own; there is nothing to start")
        given = self.arguments(name)
        record = self.records().get(scheduler)
        if record is None:
            raise SchedulerError(scheduler=scheduler, reason=self._why_not(entry))
        path = Path(record.path)
        fd = self._open_trusted(scheduler, path)
        try:
            found = self._hash(fd)
        except OSError as error:
            os.close(fd)
            raise SchedulerError(scheduler=scheduler, reason=f"{path} cannot be read: {error.strerror}") from error
        if found != record.sha256:
            os.close(fd)
            reason = f"{path} is not the recorded file: SHA-256 {found!r}, recorded {record.sha256!r}; run `{INSTALL}`"
            raise SchedulerError(scheduler=scheduler, reason=reason)
        return fd, path, found, given

    def hash_of(self, name: SchedulerName, path: Path) -> str:
        """SHA-256 of a binary that passes every other check of `open`. Raises SchedulerError."""
        fd = self._open_trusted(name, path)
        try:
            return self._hash(fd)
        finally:
            os.close(fd)

    def find_on_path(self, name: SchedulerName) -> Path | None:
        """The host's own binary: the first trustworthy one on PATH, symlinks resolved; None without one.

        Our own folder does not count, and neither do relative entries of PATH.
        """
        ours = self.folder.resolve()
        for place in self._search.split(os.pathsep):
            if not place.startswith("/"):
                continue
            with suppress(SchedulerError, OSError):  # a folder that this user may not look into has nothing for us
                path = (Path(place) / name).resolve()
                if path.is_relative_to(ours) or not path.is_file():
                    continue
                os.close(self._open_trusted(name, path))
                return path
        return None

    def records(self) -> dict[SchedulerName, Record]:
        """What is recorded as installed. Raises InputError for a damaged record or one in foreign hands."""
        path = self.folder / "installed.json"
        allowed = f"the record that `{INSTALL}` writes; run it again"
        try:
            with path.open("rb") as file:
                wrong = self._distrust(os.fstat(file.fileno()))
                if wrong:
                    raise InputError(path=str(path), key="", value=wrong, allowed=allowed)
                return wire.from_json(file.read(), _Installed).schedulers
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InputError(path=str(path), key="", value=error.strerror, allowed=allowed) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(path=str(path), key="", value=str(error), allowed=allowed) from error

    def versions(self, kernel: str, cpu: str) -> dict[str, str]:
        """What each installed file is known by on this kernel and CPU. Raises InputError.

        What failed, was slow or was found on one kernel or machine may be otherwise on the next.
        """
        return {str(name): f"{one.sha256} on {kernel}, {cpu}" for name, one in self.records().items()}

    def write_records(self, records: dict[SchedulerName, Record]) -> None:
        """Replace the record as a whole: a reader sees the old one or the new one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = msgspec.json.format(wire.json_bytes(_Installed(schedulers=records)), indent=2)
        # whatever the umask: a group-writable record would be refused
        files.replace(self.folder / "installed.json", text + b"\n", mode=0o644, durable=True)

    def _why_not(self, entry: SchedulerEntry) -> str:
        found = self.find_on_path(SchedulerName(entry.name))
        if found is not None:
            return f"{found} is not recorded yet; run `{INSTALL} {entry.name}`"
        if isinstance(entry.source, Host | Composed):
            return f"not on PATH, and {entry.source.reason}; put a binary on PATH and run `{INSTALL} {entry.name}`"
        return f"not installed; run `{INSTALL} {entry.name}`"

    def _open_trusted(self, name: SchedulerName, path: Path) -> int:
        try:
            # O_NONBLOCK: a fifo in the binary's place must not hold us up
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            reason = f"{path}: {error.strerror}; run `{INSTALL} {name}`"
            raise SchedulerError(scheduler=name, reason=reason) from error
        facts = os.fstat(fd)
        wrong = self._distrust(facts)
        if not wrong and not facts.st_mode & 0o111:
            wrong = f"not executable (mode {stat.S_IMODE(facts.st_mode):04o})"
        if wrong:
            os.close(fd)
            raise SchedulerError(scheduler=name, reason=f"{path} is {wrong}; run `{INSTALL} {name}`")
        return fd

    def _hash(self, fd: int) -> str:
        # Hashing 10 MB takes a second or more in an emulated guest. Every change of a file moves its ctime, which
        # nobody can set back; a ctime within the clock's own grain of now could still hide one, so that is not kept.
        facts = os.fstat(fd)
        identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_ctime_ns)
        if identity in self._hashed:
            return self._hashed[identity]
        with os.fdopen(fd, "rb", closefd=False) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
        if time.time_ns() - facts.st_ctime_ns > _SETTLED_NS:
            self._hashed[identity] = digest
        return digest

    def _distrust(self, facts: os.stat_result) -> str:
        if not stat.S_ISREG(facts.st_mode):
            return "not a regular file"
        if facts.st_uid not in self._owners:
            return f"owned by user {facts.st_uid}, neither root nor the user that runs this"
        if facts.st_mode & 0o022:
            return f"writable by others (mode {stat.S_IMODE(facts.st_mode):04o})"
        return ""
