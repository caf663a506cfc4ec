# SPDX-License-Identifier: GPL-2.0-only
"""`asa setup`: everything that runs, tests and recordings need on this machine; what is there already is left alone."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("setup", help="install schedulers, the lab, and the programs of the workloads")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001  # every command gets them
    """Set everything up. Exit code 1 when a scheduler could not be built."""
    return ensure(lab=True, workloads=True)


def ensure(*, lab: bool, workloads: bool) -> int:
    """Install what is missing, with progress; 1 when a scheduler could not be built. Raises SetupError, LabError."""
    from asa import debian, paths
    from asa.cli import schedulers
    from scenarios.lab import guest
    from scenarios.workloads import PACKAGES

    cache = paths.default().cache
    if workloads:
        debian.install(PACKAGES, report=print, cache=cache)
    if lab:
        guest.ready(cache, print)
    return schedulers.install_missing()
