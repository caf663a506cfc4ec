# SPDX-License-Identifier: GPL-2.0-only
"""A mapping table as a file: what may stand in it, what is wrong with one, reading, and writing whole or not at all.

Which table serves a machine, and what it wants for a class of use, is `asa.decide.table`.
"""

import datetime
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import yaml
from msgspec import Meta

from asa import files, wire, yamlfile
from asa.core.decision import DEFAULT_MODE, REGIME, SchedulerName
from asa.core.errors import AsaError, InputError
from asa.core.regime import REGIMES
from asa.decide import grounds
from asa.decide.fingerprint import Machine
from asa.decide.grounds import Evidence
from asa.yamlfile import Fault, FaultKind

VERSION: Literal[2] = 2
"""Of the format that is written. Version 1 had neither figures nor a whole fingerprint, and is read as well."""

_WIDTH = 120
_FINITE = "a finite number"
_SCORE = "a score, from 0 to 1"
_Text = Annotated[str, Meta(min_length=1)]
_Runs = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Piece = TypeVar("_Piece")


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One scheduler in a class's ranking, and why it stands there (a measurement or a reason).

    `score` is the mean of `runs` scores of the scenario (`calibration.scoring`), `low` and `high` its interval, `error`
    the standard error of what it has above EEVDF's; None where it was not measured. What each is, the table's
    provenance says. `evidence` is what the entry rests on; None is an opinion.
    """

    scheduler: str
    mode: str = DEFAULT_MODE
    why: _Text
    evidence: Evidence | None = None
    score: float | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    runs: _Runs | None = None
    efficient: bool = False  # may serve while the battery is to be saved

    @property
    def name(self) -> SchedulerName:
        """`scx_lavd`, or `scx_lavd:performance` where the mode is not the default."""
        return SchedulerName.of(self.scheduler, self.mode)


class Measured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the figures came about, and what they are of."""

    date: datetime.date
    command: _Text
    tier: Literal["real", "lab"]  # real programs, or the lab's stand-ins
    clock: str | None = None  # of the lab's guests, and the tick of their kernel; without: icount, 250 Hz
    tick_hz: Annotated[int, Meta(ge=1)] | None = None
    seed: int | None = None
    kernel: _Text  # release
    schedulers: dict[str, str]  # scheduler, without a mode -> its version, or the SHA-256 of its file


class Cost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a scheduler costs beside what it does for a class. None is unknown."""

    switch_ms: Annotated[float, Meta(ge=0.0)] | None = None  # processor time of one to it, ms of the whole machine
    overhead_pct: Annotated[float, Meta(ge=-100.0, le=100.0)] | None = None  # processor time of the agent under it
    runs: _Runs


class TableFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A mapping table as it is written. Without `measured` nothing in it was measured by the table's own campaign."""

    version: Literal[1, 2]
    machine: Machine
    measured: Measured | None = None
    provenance: _Text
    costs: dict[str, Cost] = {}  # scheduler, with or without a mode
    classes: dict[str, Annotated[list[Entry], Meta(min_length=1)]]


def read(path: Path) -> TableFile:
    """The file as it is, its names not compared with any manifest. Raises InputError."""
    return yamlfile.load(path, TableFile)


def read_checked(path: Path, known: Mapping[str, Collection[str]]) -> TableFile:
    """The file, with names that the manifest knows (scheduler -> its modes). Raises InputError for the first fault."""
    file = read(path)
    for fault in faults(file, known):
        raise InputError(path=str(path), key=fault.key, value=yamlfile.brief(fault.value), allowed=fault.allowed)
    return file


def faults(file: TableFile, known: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    """All that the types cannot say. `known`: each scheduler's modes, from the manifest."""
    rankings = {name: list(enumerate(ranking)) for name, ranking in file.classes.items()}
    yield from _name_faults(rankings, known, head=file.measured is not None)
    yield from _cost_faults(file.costs, known)
    yield from _version_faults({} if file.measured is None else file.measured.schedulers, known)
    memory_gb = file.machine.memory_gb
    if memory_gb is not None and not math.isfinite(memory_gb):
        yield _fault("machine.memory_gb", memory_gb, _FINITE)


def check(path: Path, known: Mapping[str, Collection[str]]) -> tuple[Fault, ...]:
    """Every fault of a file with its key and line, by line; empty exactly where `read_checked` takes it."""
    examined = yamlfile.examine(path, TableFile)
    if not examined.faults:
        found = list(faults(read(path), known))
    else:  # what stands beside the faults has its names looked at all the same
        data = examined.data if isinstance(examined.data, dict) else {}
        rankings = {
            str(name): [(place, one) for place, value in enumerate(ranking) if (one := _as(Entry, value)) is not None]
            for name, ranking in _mapping(data.get("classes")).items()
            if isinstance(ranking, list)
        }
        costs = {str(name): cost for name, value in _mapping(data.get("costs")).items() if (cost := _as(Cost, value))}
        versions = _mapping(_mapping(data.get("measured")).get("schedulers"))
        head = data.get("measured") is not None
        found = [
            *_name_faults(rankings, known, head=head),
            *_cost_faults(costs, known),
            *_version_faults(versions, known),
        ]
    whole = [*examined.faults, *(replace(fault, line=_line(fault.key, examined.lines)) for fault in found)]
    return tuple(sorted(whole, key=lambda fault: fault.line or 0))


def text(file: TableFile) -> str:
    """The file's text, of the present version."""
    plain = wire.plain(msgspec.structs.replace(file, version=VERSION))
    machine = plain["machine"]
    plain["machine"] = {"name": machine.pop("name"), **machine}
    written: str = yaml.dump(
        plain, Dumper=yaml.CSafeDumper, default_flow_style=None, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    return written


def write(path: Path, file: TableFile) -> None:
    """Replace the file as a whole, or leave the old one as it is; on the disk when this returns. Raises AsaError.

    What was written is read back before it takes the old one's place.
    """
    put(path, text(file).encode(), expected=msgspec.structs.replace(file, version=VERSION))


def write_keeping(path: Path, file: TableFile) -> Path | None:
    """`write`, with the old one kept beside it, as of `put_keeping`. Raises AsaError; then it is at `path`, or kept."""
    return _put_keeping(path, text(file).encode(), msgspec.structs.replace(file, version=VERSION))


def put(path: Path, body: bytes, *, expected: TableFile | None = None) -> None:
    """`write` for the bytes of a file; with `expected` they have to say that. Raises AsaError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # whatever the umask: an agent of another user may have to read it
        with files.fresh(path, mode=0o644) as written:
            written.write(body)
            written.flush()
            os.fsync(written.fileno())
            if expected is not None and read(Path(written.name)) != expected:
                still = "the old one is in its place still"
                raise AsaError(f"{path}: the table does not read back as it was written; {still}")
    except OSError as error:
        raise AsaError(f"{path}: cannot write the mapping table: {error.strerror}") from error
    try:
        files.sync_folder(path.parent)
    except OSError as error:
        may = "a power cut may bring the old table back"
        raise AsaError(f"{path}: the new table is there, but {may}: {error.strerror}") from error


def put_keeping(path: Path, new: Path, known: Mapping[str, Collection[str]]) -> Path | None:
    """Put a copy of the table `new` at `path`, as it stands there, and keep the old one beside it.

    Gives the place of the old one (`table.yaml.1`, `.2`, the first that is free); None when there was none, or it was
    the same. `known`: each scheduler's modes, from the manifest. Raises AsaError; then the
    old one is at `path`, or kept.
    """
    expected = read_checked(new, known)
    return _put_keeping(path, _content(new), expected)


def _put_keeping(path: Path, body: bytes, expected: TableFile) -> Path | None:
    old = _content(path) if path.exists() else None
    if old is None or old == body:
        put(path, body, expected=expected)
        return None
    kept = next(place for number in count(1) if not (place := path.with_name(f"{path.name}.{number}")).exists())
    put(kept, old)
    try:
        put(path, body, expected=expected)
    except BaseException:  # also KeyboardInterrupt
        with suppress(OSError):
            if path.read_bytes() == old:  # else it has been replaced, and this is the only one
                kept.unlink()
        raise
    return kept


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AsaError(f"{path}: cannot be read: {error.strerror}") from error


def _name_faults(
    rankings: Mapping[str, Sequence[tuple[int, Entry]]], known: Mapping[str, Collection[str]], *, head: bool
) -> Iterator[Fault]:
    for workload, ranking in rankings.items():
        if workload.startswith(REGIME) and workload not in REGIMES:  # a class may have any name
            yield _fault(f"classes.{workload}", workload, ", ".join(REGIMES))
        seen: set[SchedulerName] = set()
        for place, entry in ranking:
            key = f"classes.{workload}[{place}]"
            if entry.scheduler not in known:
                yield _fault(f"{key}.scheduler", entry.scheduler, ", ".join(sorted(known)))
            elif entry.mode not in known[entry.scheduler]:
                yield _fault(f"{key}.mode", entry.mode, ", ".join(sorted(known[entry.scheduler])))
            if entry.name in seen:
                yield _fault(key, entry.name, "each scheduler once in a ranking")
            seen.add(entry.name)
            yield from _figure_faults(key, entry)
            if entry.evidence is not None:
                yield from _evidence_faults(f"{key}.evidence", entry.evidence, known, head=head)


def _evidence_faults(
    key: str, evidence: Evidence, known: Mapping[str, Collection[str]], *, head: bool
) -> Iterator[Fault]:
    if SchedulerName(evidence.than).bare not in known:
        yield _fault(f"{key}.than", evidence.than, ", ".join(sorted(known)))
    for part, value, allowed in grounds.faults(evidence, head=head):
        yield _fault(f"{key}.{part}", value, allowed)


def _figure_faults(key: str, entry: Entry) -> Iterator[Fault]:
    given = {name: value for name in ("score", "low", "high") if (value := getattr(entry, name)) is not None}
    odd = [_fault(f"{key}.{name}", value, _SCORE) for name, value in given.items() if not 0.0 <= value <= 1.0]
    yield from odd
    if entry.error is not None and not (math.isfinite(entry.error) and entry.error > 0.0):
        yield _fault(f"{key}.error", entry.error, "a standard error, above 0")
    if entry.score is None and (given or entry.runs is not None or entry.error is not None):
        yield _fault(f"{key}.score", None, "the mean that low, high, error and runs are of")
    elif given and not odd and not given.get("low", -math.inf) <= given["score"] <= given.get("high", math.inf):
        yield _fault(f"{key}.score", entry.score, "a mean that lies between low and high")


def _cost_faults(costs: Mapping[str, Cost], known: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    for name, cost in costs.items():
        full = SchedulerName(name)
        if full.bare not in known:
            yield _fault(f"costs.{name}", name, ", ".join(sorted(known)))
        elif full.mode not in {DEFAULT_MODE, *known[full.bare]}:
            yield _fault(f"costs.{name}", name, ", ".join(f"{full.bare}:{one}" for one in sorted(known[full.bare])))
        for field in ("switch_ms", "overhead_pct"):
            value = getattr(cost, field)
            if value is not None and not math.isfinite(value):
                yield _fault(f"costs.{name}.{field}", value, _FINITE)


def _version_faults(schedulers: Iterable[object], known: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    allowed = ", ".join(sorted(known))
    yield from (_fault(f"measured.schedulers.{name}", name, allowed) for name in schedulers if name not in known)


def _fault(key: str, value: object, allowed: str) -> Fault:
    return Fault(key=key, line=None, value=value, allowed=allowed, kind=FaultKind.WRONG)


def _line(key: str, lines: Mapping[str, int]) -> int | None:
    """Of the key, else of the nearest one above it that stands in the file."""
    while key and key not in lines:
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return lines.get(key)


def _as(kind: type[_Piece], value: object) -> _Piece | None:
    try:
        return wire.shaped(value, kind)
    except msgspec.ValidationError:
        return None


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}
