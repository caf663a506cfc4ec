# SPDX-License-Identifier: GPL-2.0-only
"""Compiles a composition: a program that loads and attaches it, its BPF object, what it is, and a manifest for it.

Built as the lab's own schedulers (`scenarios.lab.scx_tree`), for the lab's kernel and those that fit its types. The
source's tree stays in `CACHE/lab/compose-…`, so that the next composition takes seconds. Runs nothing that it made.
"""

import fcntl
import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from asa import debian, files, wire
from asa.core.errors import LabError
from calibration.composing.spec import Spec, entry, header
from scenarios.lab import building, scx_tree
from scenarios.lab.building import Report, Tools
from scenarios.lab.kernel import Kernel

_TARGET = "scx_compose"
SOURCES = tuple(Path(__file__).with_name(f"{_TARGET}{end}") for end in (".bpf.c", ".c"))
"""The BPF half and the loader; of both all compositions are made."""

_SLOTS = f"{_TARGET}_slots.h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Files of the folder."""

    program: Path
    object: Path
    spec: Path
    manifest: Path


def compose(spec: Spec, out: Path, cache: Path, kernel: Kernel, report: Report) -> Made:
    """Compile `spec` into `out`, which is made; files of the same name are replaced. Raises LabError, SetupError."""
    made = Made(
        program=out / spec.name,
        object=out / f"{spec.name}.bpf.o",
        spec=out / f"{spec.id}.yaml",
        manifest=out / f"{spec.name}-manifest.yaml",
    )
    with _alone(cache, kernel, report) as tools, _writing(spec.name, out):
        _compile(spec, made, tools, report)
    return made


def other(name: str, sources: Iterable[Path], out: Path, cache: Path, kernel: Kernel, report: Report) -> Path:
    """The program `out/NAME` of NAME.bpf.c and NAME.c, built as compositions are. Raises LabError, SetupError."""
    made = out / name
    with _alone(cache, kernel, report) as tools, _writing(name, out):
        report(f"{name} is compiled")
        files.replace(made, scx_tree.compile_in(tools, name, sources).read_bytes(), mode=0o755)
    return made


@contextmanager
def _alone(cache: Path, kernel: Kernel, report: Report) -> Iterator[Tools]:
    lab = cache / "lab"
    lab.mkdir(parents=True, exist_ok=True)
    with (lab / ".compose.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one tree, one build at a time
        yield tree(cache, kernel, report)


@contextmanager
def _writing(name: str, out: Path) -> Iterator[None]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        where = error.filename or out
        raise LabError(f"{where}: {error.strerror} while building {name}; mend that and run again") from error


def tree(cache: Path, kernel: Kernel, report: Report) -> Tools:
    """The tree that compositions are built in. Raises LabError, SetupError."""
    lab = cache / "lab"
    lab.mkdir(parents=True, exist_ok=True)
    debian.install(scx_tree.PACKAGES, report=report, cache=cache)
    return _tools(lab, cache, kernel, report)


def _tools(lab: Path, cache: Path, kernel: Kernel, report: Report) -> Tools:
    log = cache / "logs/build-compose.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    tree = lab / f"compose-{hashlib.sha256(kernel.version.encode()).hexdigest()[:16]}"
    if not tree.exists():
        with building.folder_of_build(lab, "building-compose-", scx_tree.NEEDED_MB) as part:
            unpacked = part / "tree"
            unpacked.mkdir()
            tools = Tools(what=_TARGET, folder=unpacked, log=log, packages=scx_tree.PACKAGES, env={})
            scx_tree.unpack(tools, cache, kernel, report)
            building.put(unpacked, tree)
    return Tools(what=_TARGET, folder=tree, log=log, packages=scx_tree.PACKAGES, env={})


def _compile(spec: Spec, made: Made, tools: Tools, report: Report) -> None:
    report(f"{spec.name} is compiled")
    with tempfile.TemporaryDirectory() as folder:
        slots = Path(folder) / _SLOTS
        slots.write_text(header(spec), encoding="ascii")
        program = scx_tree.compile_in(tools, _TARGET, (*SOURCES, slots))
    files.replace(made.object, scx_tree.object_of(tools, _TARGET).read_bytes(), mode=0o644)
    files.replace(made.program, program.read_bytes(), mode=0o755)
    files.replace(made.spec, _yaml(spec), mode=0o644)
    files.replace(made.manifest, _yaml({"schedulers": [entry(spec)]}), mode=0o644)


def _yaml(value: msgspec.Struct | dict[str, object]) -> bytes:
    return yaml.safe_dump(wire.plain(value), sort_keys=False, width=120).encode()
