# SPDX-License-Identifier: GPL-2.0-only
"""Policies: a scheduler with flags, one file each, known by an id such as `scx_lavd:powersave` wherever a scheduler is.

Reads the folder `policies` beside the manifest, and over it the administrator's own `/etc/asa/policies`, whose files
root alone may write. Each flag and value is checked against the scheduler's knobs (`asa.act.knobs`). A scheduler
without flags needs no file. Whether a binary has the flags is found when it is installed (`asa.act.build`).
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from asa import paths, yamlfile
from asa.act.knobs import Flag, Value, arguments
from asa.act.manifest import Kernel, SchedulerEntry, check_owner
from asa.core.decision import SCHEDULER_PATTERN, SchedulerName
from asa.core.errors import InputError

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Id = Annotated[str, msgspec.Meta(pattern=SCHEDULER_PATTERN)]
_Day = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class Author(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="author"):
    """The scheduler's own author offers it."""

    source: _Text  # where it says so


class Own(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="own"):
    """An administrator wants it."""

    source: str = ""


class Tuned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="tuned"):
    """Found by experiment, and confirmed on seeds that did not find it."""

    method: _Text
    machine: _Text
    workload: _Text
    effect_pct: float  # against the same scheduler without flags; more is better
    interval_pct: tuple[float, float]  # of 95 %
    date: _Day
    seeds: tuple[int, ...]  # of the confirmation
    trials: int  # played until it was found


class Verified(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One check that it passed."""

    stage: _Text
    kernel: _Text
    by: _Text  # what shows it


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file."""

    id: _Id  # a SchedulerName: the scheduler alone for flags of its default mode
    version: _Text  # of the scheduler that it was made with
    purpose: _Text
    flags: dict[Flag, Value]
    provenance: Author | Own | Tuned
    verified: tuple[Verified, ...] = ()

    @property
    def name(self) -> SchedulerName:
        """As the id, with the parts told apart."""
        return SchedulerName(self.id)

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the scheduler's program is called with."""
        return arguments(self.flags)


def in_use(manifest: Path, entries: Iterable[SchedulerEntry]) -> dict[SchedulerName, Policy]:
    """All policies of a manifest's schedulers, by name. Raises InputError for a file that is wrong."""
    entries = tuple(entries)
    found = read(manifest.with_name("policies"), entries)
    own = paths.own_manifest().with_name("policies")
    if manifest == paths.manifest() and paths.there(own):
        for path in _files(own):
            check_owner(path)
        found |= read(own, entries)
    return found


def read(folder: Path, entries: Iterable[SchedulerEntry]) -> dict[SchedulerName, Policy]:
    """Those of one folder; none where there is no such folder. Raises InputError."""
    known = {SchedulerName(entry.name): entry for entry in entries}
    found = {}
    for path in _files(folder):
        policy = yamlfile.load(path, Policy)
        check(policy, str(path), known)
        if path.name != file_name(policy.name):
            allowed = f"what the file's name says: this one belongs into {file_name(policy.name)}"
            raise InputError(path=str(path), key="id", value=policy.id, allowed=allowed)
        found[policy.name] = policy
    return found


def file_name(name: SchedulerName) -> str:
    """What its file is called."""
    return f"{name.replace(':', '-')}.yaml"


def check(policy: Policy, path: str, known: Mapping[SchedulerName, SchedulerEntry]) -> None:
    """Raises InputError, which tells `path`, where it is of no scheduler that is `known`, or its flags cannot be."""
    name = policy.name
    entry = known.get(name.bare)
    if entry is None or isinstance(entry.source, Kernel):
        some = ", ".join(one.name for one in known.values() if not isinstance(one.source, Kernel))
        raise InputError(path=path, key="id", value=policy.id, allowed=f"one of {some}, alone or with `:mode`")
    if name != SchedulerName.of(name.bare, name.mode):
        raise InputError(path=path, key="id", value=policy.id, allowed=f"{name.bare}, which is its default mode")
    if wrong := entry.knobs.wrong(policy.flags):
        flag, value, allowed = wrong
        raise InputError(path=path, key=f"flags.{flag}", value=value, allowed=allowed)
    tuned = policy.provenance
    if isinstance(tuned, Tuned):
        low, high = tuned.interval_pct
        if not all(map(math.isfinite, (low, tuned.effect_pct, high))) or not low <= tuned.effect_pct <= high:
            allowed = f"two numbers around effect_pct, {tuned.effect_pct:g}"
            raise InputError(path=path, key="provenance.interval_pct", value=[low, high], allowed=allowed)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".yaml")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(path=str(folder), key="", value=error.strerror, allowed="a folder of policies") from error
