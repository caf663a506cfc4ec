# SPDX-License-Identifier: GPL-2.0-only
"""Verifies one subject: a file of source, an object, or a program of the portfolio, through the stages that it has."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from asa.core.errors import AsaError
from calibration.verify import objects, source
from calibration.verify.objects import Kernel
from calibration.verify.report import Report, Stage, stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is verified. At least one of `object` and `source` is there.

    `object`: a BPF object, or a program with one in itself. `loader`: its program's source in user space.
    """

    name: str
    object: Path | None = None
    source: Path | None = None
    loader: Path | None = None
    composed: bool = False
    flags: tuple[str, ...] = ()  # that its program is called with


def of_files(files: list[Path], *, composed: bool) -> Subject:
    """One scheduler's files, told apart by their ends. Raises AsaError for two of a kind, or none."""
    kinds: dict[str, Path] = {}
    for path in files:
        kind = "source" if path.name.endswith(".bpf.c") else "loader" if path.suffix == ".c" else "object"
        if kind in kinds:
            raise AsaError(f"{path}: {kinds[kind]} is a scheduler's {kind} already; name the files of one scheduler")
        kinds[kind] = path
    if not kinds.keys() & {"object", "source"}:
        raise AsaError("name a scheduler's .bpf.c, its object, or its program")
    beside = (
        kinds["source"].with_name(kinds["source"].name.removesuffix(".bpf.c") + ".c") if "source" in kinds else None
    )
    if beside is not None and "loader" not in kinds and beside.is_file():
        kinds["loader"] = beside
    return Subject(
        name=files[0].name,
        object=kinds.get("object"),
        source=kinds.get("source"),
        loader=kinds.get("loader"),
        composed=composed,
    )


def verify(subject: Subject, kernels: tuple[Kernel, ...] = ()) -> Report:
    """The stages that its files allow. Raises AsaError for a file that cannot be read."""
    files = {path: _read(path) for path in (subject.object, subject.source, subject.loader) if path is not None}
    stages = []
    if subject.object is not None:
        data = files[subject.object]
        stages.append(stage(Stage.OBJECT, lambda: objects.check(data, kernels, composed=subject.composed)))
    if subject.source is not None:
        text = files[subject.source].decode("utf-8", "replace")
        loader = files[subject.loader].decode("utf-8", "replace") if subject.loader is not None else ""
        stages.append(stage(Stage.SOURCE, lambda: source.check(text, loader=loader, composed=subject.composed)))
    hashes = {str(path): hashlib.sha256(data).hexdigest() for path, data in files.items()}
    return Report(subject=subject.name, sha256=hashes, stages=tuple(stages))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AsaError(f"{path}: cannot be read: {error.strerror}") from error
