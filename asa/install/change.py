# SPDX-License-Identifier: GPL-2.0-only
"""Puts a payload on a machine and takes it away again: first the list of what would change, then the changes.

Each file is written beside its place and renamed into it; what is to be there is recorded before the first of them, so
that an interrupted installation can be repeated or taken away. Never overwrites what is not ASA's.
"""

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

import msgspec

import asa
from asa import files
from asa.core.errors import SetupError
from asa.install import record
from asa.install.payload import Item, Kind, folders
from asa.install.prefix import Prefix, program
from asa.install.record import Record, below
from asa.install.rollback import Rollback, whole

STATE = (PurePosixPath("/var/lib/asa"), PurePosixPath("/run/asa"))
"""Folders that a running ASA fills."""

# Made by others on ASA's behalf, but gone with ASA where they were not there before.
_BESIDE = (
    PurePosixPath("/etc/systemd/user/graphical-session.target.wants"),
    PurePosixPath("/etc/systemd/system/multi-user.target.wants"),
    PurePosixPath("/var/lib"),
)
_SHARED = PurePosixPath("/run/scx")  # schedulers' sockets, also of those that somebody starts by hand
_PACKAGE = PurePosixPath("/var/lib/dpkg/info/asa.md5sums")  # not asa.list, which stays until a removed one is purged
_LOCKS = Path("/run")  # files of root's alone: a folder, or what others can read, they could lock for ever
_ROOT = 0


class What(StrEnum):
    """What happens to one path."""

    CREATE = "create"
    REPLACE = "replace"
    SAME = "same"
    KEEP = "keep"  # the administrator's
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One path and what happens to it; a folder's ends with a slash."""

    path: str
    what: What


@contextmanager
def alone(root: Path, locks: Path = _LOCKS) -> Iterator[None]:
    """One at a time in each root. Who is not root only looks, and takes no lock.

    Raises SetupError when another installation is under way, or a Debian package is there.
    """
    if below(root, _PACKAGE).exists():
        raise SetupError("the Debian package asa is installed; use apt to upgrade or remove it")
    if not root.is_dir():
        raise SetupError(f"{root}: not a folder; name one that is there")
    if os.geteuid() != _ROOT:
        yield
        return
    lock = locks / f"asa-install-{hashlib.sha256(bytes(root.resolve())).hexdigest()[:16]}.lock"
    descriptor = _locked(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path) -> int:
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SetupError(f"{lock}: {error.strerror}; mend that and run it again") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        except BlockingIOError as error:
            os.close(descriptor)
            raise SetupError("another installation is under way; wait for its end") from error
        os.close(descriptor)  # the one before has just ended, and taken the file along


def plan(root: Path, items: tuple[Item, ...], old: Record | None) -> list[Step]:
    """What an installation would do. Raises SetupError for a file in the way that is not ASA's."""
    beside = {parent for folder in _BESIDE for parent in (folder, *folder.parents) if parent.name}
    missing = sorted(folder for folder in {*folders(items), *beside} if not below(root, folder).is_dir())
    steps = [Step(path=f"{folder}/", what=What.CREATE) for folder in missing]
    steps += [Step(path=str(item.path), what=_fate(root, item, old)) for item in items]
    stale = set(old.files) - {str(item.path) for item in items} if old else set()
    steps += [Step(path=path, what=What.REMOVE) for path in sorted(stale) if os.path.lexists(below(root, path))]
    return steps


def put(
    root: Path, items: tuple[Item, ...], steps: Sequence[Step], old: Record | None, prefix: Prefix = Prefix.USR
) -> None:
    """Do what `plan` said, all of it or nothing. Raises OSError, AsaError."""
    with whole() as rollback:
        _put(root, items, steps, old, rollback, str(program(prefix)))


def _put(
    root: Path,
    items: tuple[Item, ...],
    steps: Sequence[Step],
    old: Record | None,
    rollback: Rollback,
    place: str,
) -> None:
    made = {step.path.rstrip("/") for step in steps if step.what is What.CREATE and step.path.endswith("/")}
    new = Record(
        version=asa.__version__,
        files={str(item.path): item.sha256 for item in items if item.kind is Kind.PROGRAM},
        config={str(item.path): item.sha256 for item in items if item.kind is Kind.CONFIG},
        folders=tuple(sorted(made | set(old.folders if old else ()))),
        program=place,
    )
    for step in steps:
        if step.path.endswith("/"):
            folder = below(root, step.path)
            rollback.folder(folder)
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # whatever the umask
    stale = dict(old.files) if old else {}
    # also what it has been until now: a run that ends here leaves files of both
    rollback.file(below(root, new.path))
    record.write(root, msgspec.structs.replace(new, files=stale | new.files))
    by_path = {str(item.path): item for item in items}
    for step in steps:
        if step.what in (What.CREATE, What.REPLACE, What.REMOVE) and not step.path.endswith("/"):
            rollback.file(below(root, step.path))
        if step.what in (What.CREATE, What.REPLACE) and not step.path.endswith("/"):
            _place(below(root, step.path), by_path[step.path])
        elif step.what is What.REMOVE:
            below(root, step.path).unlink(missing_ok=True)
    _prune(below(root, place))
    record.write(root, new)


@contextmanager
def taken_back(root: Path) -> Iterator[None]:
    """What fails inside takes along what `put` has just made where nothing was before."""
    try:
        yield
    except BaseException:  # also KeyboardInterrupt
        made = record.read(root)
        if made is not None:
            take_away(root, plan_removal(root, made, purge=False), made)
        raise


def plan_removal(root: Path, old: Record, *, purge: bool) -> list[Step]:
    """What an uninstallation would do."""
    steps = [Step(path=path, what=What.REMOVE) for path in sorted(old.files) if os.path.lexists(below(root, path))]
    for path, shipped in old.config.items():
        found = _sha256(below(root, path))
        if found is not None:
            steps.append(Step(path=path, what=What.REMOVE if purge or found == shipped else What.KEEP))
    steps += [Step(path=f"{path}/", what=What.REMOVE) for path in (*STATE, old.program) if below(root, path).exists()]
    return steps


def take_away(root: Path, steps: Sequence[Step], old: Record) -> list[str]:
    """Do what `plan_removal` said; gives the paths that could not be removed, each with why. The record goes last."""
    left = []
    for step in steps:
        if step.what is not What.REMOVE or step.path == f"{old.program}/":
            continue
        path = below(root, step.path)
        try:
            if step.path.endswith("/"):
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            left.append(f"{path}: {error.strerror}")
    if left:
        return left  # and the record stays, so that it can be tried again
    try:
        shutil.rmtree(below(root, old.program))
    except OSError as error:
        return [f"{error.filename}: {error.strerror}"]
    for folder in (str(_SHARED), *sorted(old.folders, reverse=True)):
        with suppress(OSError):  # somebody else has put something there
            below(root, folder).rmdir()
    return []


def _fate(root: Path, item: Item, old: Record | None) -> What:
    path = below(root, item.path)
    known = old is not None and str(item.path) in (old.files | old.config)
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return What.CREATE
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}; move what is in the way") from error
    found = _sha256(path)
    if item.kind is Kind.CONFIG:
        was = old.config.get(str(item.path)) if old else None
        return What.SAME if found == item.sha256 else What.REPLACE if found and found == was else What.KEEP
    if not known:
        raise SetupError(f"{path} is there and is not ASA's; move it away, or remove the program that it belongs to")
    right = (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (_ROOT, _ROOT, item.mode)
    return What.SAME if right and found == item.sha256 else What.REPLACE


def _sha256(path: Path) -> str | None:
    """Of a regular file; None for anything else."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return (
                hashlib.file_digest(file, "sha256").hexdigest()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                else None
            )
    except OSError:
        return None


def _place(path: Path, item: Item) -> None:
    files.replace(path, item.body, mode=item.mode, owner=(_ROOT, _ROOT))


def _prune(folder: Path) -> None:
    """Take away folders that an older version had, with what Python has compiled in them."""
    for path, _, names in os.walk(folder, topdown=False):
        if Path(path).name == "__pycache__" and not any(Path(path).parent.glob("*.py")):
            shutil.rmtree(path)
        elif not names and Path(path).name != "__pycache__" and path != str(folder):
            with suppress(OSError):  # not empty
                Path(path).rmdir()
