# SPDX-License-Identifier: GPL-2.0-only
"""Which files an installed ASA consists of: the one list that `asa install` and the Debian packages are made from.

Reads the running program, the distributions that it needs, and `asa/data`. Writes nothing.
"""

import gzip
import hashlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

import asa
from asa.core.errors import SetupError
from asa.paths import LABORATORY, PROGRAM_LOCAL

PROGRAM = PurePosixPath("/usr/lib/asa")
LAUNCHER = PurePosixPath("/usr/bin/asa")
SETTINGS = PurePosixPath("/etc/asa/asa.yaml")
HELPER_UNIT = "asa-helper.service"
USER_UNIT = "asa.service"
SYSTEM_UNIT = "asa-system.service"

DISTRIBUTION = "adaptive-scheduling-agent"
"""Its name for pip (pyproject.toml)."""

PACKAGES = ("asa", "collectors", "mapping_tables", "models", "scx_bin")
"""What the wheel has (pyproject.toml), without what is `LABORATORY`'s."""

ROOT = Path(asa.__file__).resolve().parents[1]
"""The folder that has `PACKAGES`: of the running program."""

NEEDED = ("jeepney", "msgspec", "numpy", "pyyaml")
"""What the agent and the helper need (pyproject.toml, dependencies)."""

LIBRARY_EXTRAS = ("bench", "export", "guests", "train")
"""Extras of asa that asa-lab requires (calibration/pyproject.toml)."""

_EXTRA = re.compile(r"extra\s*==\s*[\"']([^\"']+)")

WELCOME = ("rich", "textual")
"""What is taken along where it is there: the extra `monitor`."""

DATA = Path(__file__).resolve().parents[1] / "data"
_PLACES = {
    HELPER_UNIT: PurePosixPath("/usr/lib/systemd/system"),
    SYSTEM_UNIT: PurePosixPath("/usr/lib/systemd/system"),
    USER_UNIT: PurePosixPath("/usr/lib/systemd/user"),
    "org.asa.Helper1.conf": PurePosixPath("/usr/share/dbus-1/system.d"),
    "org.asa.Helper1.service": PurePosixPath("/usr/share/dbus-1/system-services"),
    "org.asa.helper1.policy": PurePosixPath("/usr/share/polkit-1/actions"),
}
_COMPLETIONS = {
    "bash": PurePosixPath("/usr/share/bash-completion/completions/asa"),
    "zsh": PurePosixPath("/usr/share/zsh/vendor-completions/_asa"),
    "fish": PurePosixPath("/usr/share/fish/vendor_completions.d/asa.fish"),
}
_MANUAL = PurePosixPath("/usr/share/man/man1")
# No site-packages and nothing of the environment or the current folder: the standard library and PROGRAM. What is
# compiled there is for this minor version of Python alone.
_THIS = sys.version_info[:2]
_LAUNCH = f"""\
#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-2.0-only
import sys

if sys.version_info[:2] != {_THIS}:
    sys.exit(
        "asa: installed for Python {_THIS[0]}.{_THIS[1]}, and /usr/bin/python3 is %d.%d now; "
        "run `make setup PYTHON=/usr/bin/python3` in ASA's source, "
        "then `sudo .venv/bin/asa install` there, or `uninstall`" % sys.version_info[:2]
    )

sys.dont_write_bytecode = True
sys.path.append("{PROGRAM}")

from asa.cli.main import main

main()
"""
# What a running program never opens: numpy's own tests and headers are most of its size. Recordings and kept results
# are read by libraries that are not taken along.
_IDLE_FOLDERS = frozenset({"__pycache__", "tests", "recordings", "results", "include", "f2py"})
_IDLE_SUFFIXES = frozenset({".a", ".pyc", ".pyi", ".pxd", ".pyx"})
_IDLE_RECORDS = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "entry_points.txt"})


class Kind(StrEnum):
    """What becomes of a file when somebody has changed it."""

    PROGRAM = "program"  # put right by an installation, gone with ASA
    CONFIG = "config"  # the administrator's


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file of root's, mode 0644 or 0755."""

    path: PurePosixPath
    body: bytes  # read once: sources may change meanwhile
    executable: bool = False
    kind: Kind = Kind.PROGRAM

    @property
    def sha256(self) -> str:
        """Of its body."""
        return hashlib.sha256(self.body).hexdigest()

    @property
    def mode(self) -> int:
        """Permissions."""
        return 0o755 if self.executable else 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What is made from the command line and the settings: names -> text."""

    pages: Mapping[str, str]  # asa-run.1
    completions: Mapping[str, str]  # bash, zsh, fish
    settings: str


def payload(texts: Texts, own: Path | None = None) -> tuple[Item, ...]:
    """All files, sorted by path. `own`: the folder that has `PACKAGES`; None for the running program's.

    Raises SetupError when something that is needed is missing.
    """
    items = [*_product(own or ROOT), *_distributions(), *_data()]
    items.append(Item(path=LAUNCHER, body=_LAUNCH.encode(), executable=True))
    items.append(Item(path=SETTINGS, body=texts.settings.encode(), kind=Kind.CONFIG))
    for name, text in texts.pages.items():
        items.append(Item(path=_MANUAL / f"{name}.gz", body=gzip.compress(text.encode(), 9, mtime=0)))
    for shell, text in texts.completions.items():
        items.append(Item(path=_COMPLETIONS[shell], body=text.encode()))
    return tuple(sorted(items, key=lambda item: item.path))


def laboratory(own: Path | None = None) -> tuple[Item, ...]:
    """The files of the package asa-lab, sorted by path: beside those of the product, in the same folder.

    The libraries that they need are pinned in a file, which `asa lab setup` reads.
    """
    own = own or ROOT
    items = [item for part in LABORATORY for item in _files(own, part)]
    lock = own / "requirements.lock"
    if lock.exists():
        needed = {_normal(one.metadata["Name"]) for one in distributions(_libraries(), ())}
        body = pinned(lock.read_text(encoding="utf-8"), needed)
        items.append(Item(path=PROGRAM / "calibration" / lock.name, body=body.encode()))
    return tuple(sorted(items, key=lambda item: item.path))


def pinned(lock: str, names: Container[str]) -> str:
    """The entries of a lock file (uv's: an entry begins at the left margin) for the distributions of these names."""
    entries = re.split(r"^(?=\w)", lock, flags=re.MULTILINE)
    return "".join(entry for entry in entries if _normal(re.split(r"[=;\s]", entry, maxsplit=1)[0]) in names)


def _libraries() -> tuple[str, ...]:
    """What asa-lab requires, with the product's extras resolved (calibration/pyproject.toml)."""
    names = []
    for text in importlib.metadata.requires(DISTRIBUTION) or ():
        extra = _EXTRA.search(text)
        if extra is not None and extra[1] in LIBRARY_EXTRAS:
            names.append(re.split(r"[^\w.-]", text, maxsplit=1)[0])
    return tuple(names)


def folders(items: tuple[Item, ...]) -> tuple[PurePosixPath, ...]:
    """All folders above `items`, outer ones first, without the root."""
    found = {parent for item in items for parent in item.path.parents if parent != PurePosixPath("/")}
    return tuple(sorted(found))


def _product(folder: Path) -> Iterator[Item]:
    if folder in (Path(PROGRAM), PROGRAM_LOCAL):
        raise SetupError(f"this is the installed ASA in {folder}; run the one that is to be installed")
    programs = folder / "collectors/ebpf/probes.bpf.o"
    if not programs.exists():
        raise SetupError(f"{programs} is missing: the eBPF programs are not compiled; run `make bpf`")
    for package in PACKAGES:
        for item in _files(folder, package):
            if not any(item.path.is_relative_to(PROGRAM / part) for part in LABORATORY):
                yield item


def _files(folder: Path, part: str) -> Iterator[Item]:
    for path in sorted((folder / part).rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not _idle(relative):
            yield Item(path=PROGRAM / relative, body=path.read_bytes(), executable=os.access(path, os.X_OK))


def _idle(relative: PurePosixPath | Path) -> bool:
    name = relative.name
    hidden = name.startswith(".") or name.endswith("~") or "_tests." in name
    return hidden or relative.suffix in _IDLE_SUFFIXES or not _IDLE_FOLDERS.isdisjoint(relative.parts)


def _distributions() -> Iterator[Item]:
    for distribution in distributions():
        for file in distribution.files or ():
            relative = PurePosixPath(file)
            source = Path(str(distribution.locate_file(file)))
            if ".." in relative.parts or _idle(relative) or relative.name in _IDLE_RECORDS or not source.is_file():
                continue
            yield Item(path=PROGRAM / relative, body=source.read_bytes())


def distributions(
    names: Iterable[str] = NEEDED, welcome: Iterable[str] = WELCOME
) -> list[importlib.metadata.Distribution]:
    """Distributions of these names, of `welcome` where they are there, and what they need. Raises SetupError."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [(name, "", True) for name in names] + [(name, "", False) for name in welcome]
    while waiting:
        name, extra, needed = waiting.pop()
        try:
            one = found.setdefault(_normal(name), importlib.metadata.distribution(name))
        except importlib.metadata.PackageNotFoundError:
            if needed:
                raise SetupError(f"{name} is missing from the running Python; run `make setup`") from None
            continue
        for text in one.requires or ():
            requirement, _, marker = text.partition(";")
            wanted = _EXTRA.search(marker)
            parts = re.match(r"\s*([\w.-]+)\s*(?:\[([\w.,\s-]+)\])?", requirement)
            if parts is None or (wanted and wanted[1] != extra):
                continue
            if _normal(parts[1]) not in found or parts[2]:
                waiting.append((parts[1], parts[2] or "", needed and not marker))
    return [found[name] for name in sorted(found)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _data() -> Iterator[Item]:
    for name, folder in _PLACES.items():
        yield Item(path=folder / name, body=(DATA / name).read_bytes())
