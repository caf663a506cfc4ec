# SPDX-License-Identifier: GPL-2.0-only
"""Desktops whose readers are run for real, by tests that start each of them without a screen (`desktops.yaml`)."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asa import debian, yamlfile
from calibration.users.faults import failed

DESKTOPS = Path(__file__).with_name("desktops.yaml")


class Desktop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One desktop. Tests are named as pytest names them; all of them start the real one, or are skipped."""

    name: str
    packages: tuple[str, ...]
    tests: Annotated[tuple[str, ...], Meta(min_length=1)]


def desktops() -> tuple[Desktop, ...]:
    """All of `desktops.yaml`. Raises InputError."""
    return yamlfile.load(DESKTOPS, tuple[Desktop, ...])


def install(every: Iterable[Desktop]) -> None:
    """Install what is missing of their packages, by apt as root. Raises SetupError."""
    names = sorted({name for one in every for name in one.packages})
    debian.install(names, report=lambda words: print(words, file=sys.stderr))


def ran(every: Iterable[Desktop]) -> tuple[str, ...]:
    """Names of those whose tests passed here, none of them skipped; a minute. Raises AsaError where none ran."""
    return tuple(one.name for one in every if not failed(one.tests))
