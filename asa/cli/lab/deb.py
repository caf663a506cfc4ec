# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab deb`: makes a Debian package of this ASA."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_TEXT = """\
Makes a Debian package of this ASA, with the files that `asa install` would put on a machine. It is for the
Python of this machine: Debian 12 and 13 need one each.
"""
_MORE = """\
environment:
  SOURCE_DATE_EPOCH  the date of all files in the package, in seconds since 1970 (default: now)

examples:
  asa lab deb --out build
      As `make deb` does.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("deb", help="make a Debian package", description=_TEXT, epilog=_MORE)
    command.add_argument("--out", type=Path, metavar="DIR", default=Path("build"), help="where to (default: build)")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Build it, print its path. Raises SetupError."""
    from asa.cli.install import texts
    from asa.install import deb
    from asa.install.payload import payload
    from asa.install.system import System

    System(Path("/")).check()
    print(deb.build(payload(texts()), arguments.out))
    return 0
