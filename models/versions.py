# SPDX-License-Identifier: GPL-2.0-only
"""The models of this machine: artefacts by their hash with what is known of each, and which one is in use.

Keeps `<hash>.npz` and `<hash>.json` in a folder of the agent's state, and the choice in `chosen.json`, which is
replaced as a whole. The model that the package ships is version `base`; it is always there, and in use when nothing is
chosen. A file that does not hash to its name is damaged: it is named, and never used.
"""

import errno
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from asa import files, paths
from asa.core.errors import ModelError
from models import artefact
from models.artefact import Artefact

BASE = "base"
FOLDER = "models"  # below paths.Places.state
_CHOICE = "chosen.json"
_SHOWN = 12  # digits of a hash that people see
_LEAST = 4  # and have to give
_Read = TypeVar("_Read")


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept beside an artefact."""

    sha256: str  # of the artefact's file
    kind: str  # base, tuned or taught
    made: str  # ISO 8601 date and time, UTC
    asa_version: str
    parent: str = ""  # SHA-256 of the model that was tuned, "" for a base
    seed: int = 0
    schema: int = 0
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    data: dict[str, str] = {}  # what it was trained on: base and own data, rows, sessions, hashes
    figures: dict[str, float] = {}  # by name, as they were when it was made


class _Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One model. `wrong` says why it cannot be used, "" when it can."""

    path: Path
    facts: Facts
    in_use: bool
    shipped: bool
    wrong: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return BASE if self.shipped else self.facts.sha256[:_SHOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What another model has and lacks beside one."""

    figures: tuple[tuple[str, float | None, float | None], ...]  # name, of the one, of the other
    classes_gone: tuple[str, ...]
    classes_new: tuple[str, ...]
    features_gone: tuple[str, ...]
    features_new: tuple[str, ...]
    schemas: tuple[int, int]


def folder(places: paths.Places) -> Path:
    """Where an agent with these places keeps its models."""
    return places.state / FOLDER


def in_use(where: Path) -> Path:
    """The artefact to load: the chosen one, else the package's. Raises ModelError when the chosen one is damaged."""
    chosen = _chosen(where)
    if not chosen:
        return paths.base_model()
    path = where / f"{chosen}.npz"
    wrong = _differs(path, chosen)
    if wrong:
        raise ModelError(f"{path}: the model in use is damaged: {wrong}; `asa model use {BASE}` goes back")
    return path


def hash_of(path: Path) -> str:
    """SHA-256 of an artefact's file, by which journals name it. Raises ModelError when it cannot be read."""
    try:
        return _sha256(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}; train one or name another") from error


def by_hash(where: Path, sha256: str, named: str | None = None) -> Path | None:
    """The artefact with this hash: the one that the settings name, the package's, or one that is kept; else None.

    Raises ModelError for a damaged choice.
    """
    candidates = [Path(named)] if named else []
    candidates += [version.path for version in versions(where) if not version.wrong]
    return next((path for path in candidates if not _differs(path, sha256)), None)


def versions(where: Path, named: str | None = None) -> tuple[Version, ...]:
    """The package's model first, then all others by age; also those that cannot be used. Raises ModelError.

    `named`: the model that the settings name, which comes before the choice; none is in use when it is none of these.
    """
    chosen = _chosen(where)
    others = []
    for path in sorted(where.glob("[!.]*.npz")) if where.is_dir() else ():  # not what `add` was killed over
        facts, wrong = _kept(path)
        others.append(Version(path=path, facts=facts, in_use=path.stem == chosen, shipped=False, wrong=wrong))
    if chosen and not any(one.in_use for one in others):
        lost = Facts(sha256=chosen, kind="", made="", asa_version="")
        others.append(
            Version(path=where / f"{chosen}.npz", facts=lost, in_use=True, shipped=False, wrong="its file is gone")
        )
    found = (_base(in_use=not chosen), *sorted(others, key=lambda one: (one.facts.made, one.facts.sha256)))
    return tuple(_as_named(one, named) for one in found)


def find(where: Path, word: str, named: str | None = None) -> Version:
    """By `base`, or a hash of which at least four digits are given. Raises ModelError for none and for several.

    `named`: as for `versions`.
    """
    if word == BASE:  # the way out of a damaged choice, so without looking at it
        return _as_named(_base(in_use=not _is_there(where / _CHOICE)), named)
    known = versions(where, named)
    matching = [one for one in known[1:] if len(word) >= _LEAST and one.facts.sha256.startswith(word)]
    if len(matching) != 1:
        names = ", ".join(one.name for one in (matching or known))
        what = f"{len(matching)} models are called so" if matching else "no such model"
        raise ModelError(f"{where}: {word!r}: {what}; there are {names} (at least {_LEAST} digits)")
    return matching[0]


def add(where: Path, model: Artefact, facts: Facts) -> Version:
    """Keep a model; its hash, schema, classes and features in `facts` are filled in here. Raises ModelError."""
    fresh = where / f".new-{os.getpid()}.npz"
    try:
        where.mkdir(parents=True, exist_ok=True)
        artefact.save(model, fresh)
        sha256 = _sha256(fresh)
        header = model.header
        facts = msgspec.structs.replace(
            facts, sha256=sha256, schema=header.schema, classes=header.classes, features=header.features
        )
        _write(where / f"{sha256}.json", msgspec.json.format(msgspec.json.encode(facts)))
        files.move(fresh, where / f"{sha256}.npz")
    except OSError as error:
        raise ModelError(
            f"{where}: a model cannot be kept here: {error.strerror}; make room or check who owns it"
        ) from error
    finally:
        with suppress(OSError):
            fresh.unlink()
    return Version(path=where / f"{sha256}.npz", facts=facts, in_use=False, shipped=False)


def use(where: Path, version: Version) -> None:
    """Choose a model: the agent loads it when it reads its settings again. Checks all of it first; raises ModelError.

    Replaced as a whole: a reader finds the old choice or the new one.
    """
    if version.wrong:
        raise ModelError(f"{version.path}: {version.name} cannot be used: {version.wrong}")
    artefact.load(version.path)
    try:
        if version.shipped:
            (where / _CHOICE).unlink(missing_ok=True)
            return
        _write(where / _CHOICE, msgspec.json.encode(_Choice(sha256=version.facts.sha256)))
    except OSError as error:
        raise ModelError(f"{where}: the choice cannot be written: {error.strerror}; check who owns it") from error


def diff(one: Version, other: Version) -> Difference:
    """What `other` has and lacks beside `one`. Raises ModelError when one of them is damaged."""
    for version in (one, other):
        if version.wrong:
            raise ModelError(f"{version.path}: {version.name} cannot be compared: {version.wrong}")
    old, new = one.facts, other.facts
    names = (*old.figures, *(name for name in new.figures if name not in old.figures))
    return Difference(
        figures=tuple((name, old.figures.get(name), new.figures.get(name)) for name in names),
        classes_gone=_without(old.classes, new.classes),
        classes_new=_without(new.classes, old.classes),
        features_gone=_without(old.features, new.features),
        features_new=_without(new.features, old.features),
        schemas=(old.schema, new.schema),
    )


def base_facts_file(shipped: Path) -> Path:
    """Where the figures of the package's model stand, if it has any: beside it."""
    return shipped.with_suffix(".json")


def _as_named(version: Version, named: str | None) -> Version:
    # by the contents too: the settings may name a copy
    if not named:
        return version
    path = Path(named)
    return replace(version, in_use=path == version.path or not _differs(path, version.facts.sha256))


def _base(*, in_use: bool) -> Version:
    shipped = paths.base_model()
    facts, wrong = _facts_of_base(shipped)
    return Version(path=shipped, facts=facts, in_use=in_use, shipped=True, wrong=wrong)


def _facts_of_base(shipped: Path) -> tuple[Facts, str]:
    nothing = Facts(sha256="", kind=BASE, made="", asa_version="")
    try:
        header = artefact.load(shipped).header
        sha256 = hash_of(shipped)
    except ModelError as error:
        return nothing, str(error)
    return Facts(
        sha256=sha256,
        kind=BASE,
        made=header.trained,
        asa_version=header.versions.get("asa", ""),
        seed=header.seed,
        schema=header.schema,
        classes=header.classes,
        features=header.features,
        data={"base": header.dataset_sha256},
        figures=_figures(base_facts_file(shipped)),
    ), ""


def _figures(path: Path) -> dict[str, float]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except (OSError, msgspec.MsgspecError):
        return {}  # a comfort, not part of the model


def _kept(path: Path) -> tuple[Facts, str]:
    nothing = Facts(sha256=path.stem, kind="", made="", asa_version="")
    beside = path.with_suffix(".json")
    try:
        facts = _decoded(beside, Facts)
    except ModelError as error:
        return nothing, str(error)
    if facts.sha256 != path.stem:
        return nothing, f"{beside} speaks of another model"
    return facts, _differs(path, facts.sha256)


def _differs(path: Path, sha256: str) -> str:
    try:
        found = _sha256(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if found == sha256 else "its contents do not hash to its name"


def _sha256(path: Path) -> str:
    if not path.is_file() and path.exists():  # a pipe or a device may have no end
        raise OSError(errno.EINVAL, "it is no file")
    with path.open("rb") as file:  # piece by piece: what is read is not known to be a model yet
        return hashlib.file_digest(file, "sha256").hexdigest()


def _chosen(where: Path) -> str:
    path = where / _CHOICE
    if not _is_there(path):
        return ""
    sha256 = _decoded(path, _Choice).sha256
    if len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):  # it becomes a file's name
        raise ModelError(f"{path}: {sha256!r} is not a SHA-256; `asa model use {BASE}` chooses anew")
    return sha256


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # for a folder that may not be looked into, as one that is another user's
        raise ModelError(f"{path}: cannot be read: {error.strerror}; check who owns its folders") from error


def _decoded(path: Path, into: type[_Read]) -> _Read:
    try:
        return msgspec.json.decode(path.read_bytes(), type=into)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: damaged: {error}; `asa model use {BASE}` chooses anew") from error


def _write(path: Path, body: bytes) -> None:
    with files.fresh(path, durable=True) as file:
        file.write(body)


def _without(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    known = set(others)
    return tuple(one for one in some if one not in known)
