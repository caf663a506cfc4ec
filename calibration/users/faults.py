# SPDX-License-Identifier: GPL-2.0-only
"""Faults that users of neighbouring projects reported, and the tests that hold what is right (`faults.yaml`)."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asa import yamlfile
from asa.core.errors import AsaError

FAULTS = Path(__file__).with_name("faults.yaml")
ROOT = Path(__file__).parents[2]
_LIMIT_S = 1800.0
_FAILED = ("FAILED ", "ERROR ", "SKIPPED ")


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault. Tests are named as pytest names them."""

    number: Annotated[int, Meta(ge=1)]
    report: str
    right: str
    tests: Annotated[tuple[str, ...], Meta(min_length=1)]


def faults() -> tuple[Fault, ...]:
    """All of `faults.yaml`. Raises InputError."""
    return yamlfile.load(FAULTS, tuple[Fault, ...])


def mended(every: Iterable[Fault], failed: Iterable[str]) -> Iterator[Fault]:
    """Those none of whose tests is among `failed`: names as pytest reports them, with parameters, or whole files."""
    broken = {name.partition("[")[0] for name in failed}
    return (
        fault for fault in every if broken.isdisjoint(fault.tests + tuple(one.split("::")[0] for one in fault.tests))
    )


def failed(names: Iterable[str]) -> tuple[str, ...]:
    """Run tests by their names; those that failed or were skipped. Raises AsaError where pytest did not run."""
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfEs", *names]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(  # noqa: PLW1510  # a failed test is an answer
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_LIMIT_S
    )
    return of_report(done)


def of_report(done: subprocess.CompletedProcess[str]) -> tuple[str, ...]:
    """The tests that failed or were skipped, by what `pytest -rfEs` printed. Raises AsaError where it did not run."""
    if done.returncode not in (0, 1):
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise AsaError(f"pytest could not run these tests: {' '.join(last)!r}")
    return tuple(named(done.stdout))


def named(report: str) -> Iterator[str]:
    """Tests that the summary of `pytest -rfEs` names; of one that was skipped its file."""
    for line in report.splitlines():
        if line.startswith(_FAILED):
            words = line.split()
            yield words[2].split(":")[0] if words[0] == "SKIPPED" else words[1]
