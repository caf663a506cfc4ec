# SPDX-License-Identifier: GPL-2.0-only
"""Copies schedulers that root has installed to where an installed ASA looks, each with its record.

A binary is opened, checked and hashed by the portfolio; the copy is hashed while it is written, and counts only if it
is the recorded one. Schedulers of the host's own stay where they are, and their record is taken over.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa import files, paths
from asa.act.portfolio import Origin, Portfolio, Record
from asa.core.decision import SchedulerName
from asa.core.errors import SchedulerError
from asa.install.change import What
from asa.install.record import below

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One scheduler; `fault` says why it could not be taken along, "" when it could."""

    name: SchedulerName
    path: str
    what: What
    fault: str = ""


def copy(root: Path, source: Portfolio, *, dry: bool) -> tuple[Copy, ...]:
    """Take over all that `source` has a record of and the manifest knows. Raises InputError for a damaged record."""
    target = Portfolio.load(paths.manifest(), below(root, str(paths.installed().schedulers)))
    given, records = source.records(), dict(target.records())
    done = []
    for name in source.names():
        if name in given:
            try:
                done.append(_one(source, target, name, dry=dry))
            except SchedulerError as error:
                done.append(Copy(name=name, path=given[name].path, what=What.KEEP, fault=error.reason))
                continue
            records[name] = _moved(given[name], name)
    if not dry and any(one.what in (What.CREATE, What.REPLACE) for one in done):
        _folder(target.folder)
        target.write_records(records)
    return tuple(done)


def _moved(record: Record, name: SchedulerName) -> Record:
    path = record.path if record.origin is Origin.PATH else str(paths.installed().schedulers / name)
    return msgspec.structs.replace(record, path=path)


def _one(source: Portfolio, target: Portfolio, name: SchedulerName, *, dry: bool) -> Copy:
    given, old = source.records()[name], target.records().get(name)
    new = _moved(given, name)
    what = What.CREATE if old is None else What.SAME if old == new else What.REPLACE
    if given.origin is Origin.PATH:
        return Copy(name=name, path=new.path, what=what)
    there = target.folder / name
    try:
        right = target.hash_of(name, there) == given.sha256
    except SchedulerError:
        right = False
    if right:
        return Copy(name=name, path=new.path, what=what)
    opened = source.open(name)
    try:
        if not dry:
            _folder(target.folder)
            _write(opened.fd, there, given.sha256)
    except OSError as error:
        raise SchedulerError(scheduler=name, reason=f"{there}: {error.strerror}") from error
    finally:
        os.close(opened.fd)
    return Copy(name=name, path=new.path, what=What.CREATE if old is None else What.REPLACE)


def _folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in (folder, folder.parent):
        one.chmod(0o755)  # whatever the umask: users' daemons read what there is


def _write(descriptor: int, path: Path, sha256: str) -> None:
    digest = hashlib.sha256()
    with files.fresh(path, mode=0o755, owner=(0, 0)) as file:
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
        if digest.hexdigest() != sha256:
            raise SchedulerError(scheduler=path.name, reason="was changed while it was copied; run it again")
