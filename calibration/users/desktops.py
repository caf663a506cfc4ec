# SPDX-License-Identifier: GPL-2.0-only
"""Desktops whose readers are run for real, by tests that start each of them without a screen (`desktops.yaml`).

Those of this machine's own release run here. Those of another release of Debian run in a root of it, which stays: the
checkout is copied into it each time, and its tests are run by the Python of that release. Needs root.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asa import debian, files, yamlfile
from asa.core.errors import AsaError
from asa.debian import Codename
from calibration.users import roots
from calibration.users.faults import failed, of_report
from calibration.users.packages import run

DESKTOPS = Path(__file__).with_name("desktops.yaml")
_LIBRARIES = ("dbus-fast", "hypothesis", "jeepney", "msgspec", "numpy", "psutil", "pytest", "yaml")
_PYTHON = ("python3", *(f"python3-{name}" for name in _LIBRARIES))
_CALL = "import os, sys, pytest; os.chdir('/src'); sys.exit(pytest.main(sys.argv[1:]))"
_VERSION = ("dpkg-query", "--show", "--showformat", "${source:Upstream-Version}")


class Desktop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One desktop. Tests are named as pytest names them; all of them start the real one, or are skipped."""

    name: str
    packages: Annotated[tuple[str, ...], Meta(min_length=1)]  # the desktop's own is the first
    tests: Annotated[tuple[str, ...], Meta(min_length=1)]
    also: tuple[Codename, ...] = ()  # other releases, whose version of it is run, too


def desktops() -> tuple[Desktop, ...]:
    """All of `desktops.yaml`. Raises InputError."""
    return yamlfile.load(DESKTOPS, tuple[Desktop, ...])


def tried(every: Sequence[Desktop]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which ran, with their versions, and which did not, with the reason. Minutes; the first time a root is made.

    One ran where its tests passed, none of them skipped. Raises SetupError where apt cannot serve this machine.
    """
    debian.install(_packages(every), report=lambda words: print(words, file=sys.stderr))
    found = list(_tried(every, None))
    for suite in sorted({suite for one in every for suite in one.also}):
        those = [one for one in every if suite in one.also]
        try:
            root = _root(suite, _packages(those))
            found += _tried(those, root)
        except AsaError as error:
            found += [(f"{one.name} of {suite}", str(error)) for one in those]
    ran = tuple(name for name, fault in found if not fault)
    return ran, tuple(f"{name}: {fault}" for name, fault in found if fault)


def _tried(every: Iterable[Desktop], root: Path | None) -> Iterator[tuple[str, str]]:
    for one in every:
        wrong = failed(one.tests) if root is None else _failed_in(root, one.tests)
        version = run("asking dpkg", [*_VERSION, one.packages[0]]) if root is None else _version_in(root, one)
        yield f"{one.name} {version}", ", ".join(wrong)


def _packages(every: Iterable[Desktop]) -> tuple[str, ...]:
    return tuple(sorted({name for one in every for name in one.packages}))


def _root(suite: Codename, packages: Sequence[str]) -> Path:
    made = roots.PLACES / f"{suite}-desktops"
    if not made.exists():
        part = roots.PLACES / f".part-{suite}-desktops"
        shutil.rmtree(part, ignore_errors=True)
        roots.copy(roots.base(suite), part)
        files.move(part, made)
    roots.install(made, (*_PYTHON, *packages))
    roots.copy_tests(made)
    return made


def _failed_in(root: Path, tests: Sequence[str]) -> tuple[str, ...]:
    words = ["env", "PYTHONPATH=/src", "/usr/bin/python3", "-P", "-c", _CALL, "-q", "-rfEs", "-W", "ignore"]
    return of_report(roots.inside(root, [*words, "-p", "no:cacheprovider", *tests]))


def _version_in(root: Path, one: Desktop) -> str:
    return roots.inside(root, (*_VERSION, one.packages[0])).stdout.strip()
