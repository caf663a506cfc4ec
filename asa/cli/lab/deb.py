# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab deb`: makes the Debian packages asa and asa-lab of this checkout, or stages asa for another packager's tool.

Stages the files of each package (`asa.install.payload`: the same list as that of `asa install`), puts packaging/debian
beside them, and runs dpkg-buildpackage. The same inputs and SOURCE_DATE_EPOCH give the same bytes.
"""

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.install.payload import Item

PACKAGES = ("debhelper", "dpkg-dev")  # that build a package

_TEXT = """\
Makes the Debian packages asa (what a laptop needs) and asa-lab (calibration, benchmarks, training) of this
checkout. With --stage it puts the files of asa below a folder instead, for the tool of another distribution.
"""
_MORE = """\
environment:
  SOURCE_DATE_EPOCH  date of the packages, in seconds since 1970 (default: now)

examples:
  asa lab deb --out build
      As `make deb` does.
  asa lab deb --stage "$pkgdir"
      As packaging/arch/PKGBUILD and packaging/rpm/asa.spec do.
"""
_MAINTAINER = "ASA maintainers <maintainers@asa.example>"  # who passes packages on puts his own there
_COPYRIGHT = """\
ASA, the Adaptive Scheduling Agent

Copyright: the authors of ASA
License: GPL-2.0-only

On Debian systems, the text of version 2 of the GNU General Public License is in
/usr/share/common-licenses/GPL-2.

What follows comes with it, each under its own licence, whose text and whose authors are named in the folder beside it.

"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("deb", help="make the Debian packages", description=_TEXT, epilog=_MORE)
    command.add_argument("--out", type=Path, metavar="DIR", default=Path("build"), help="where to (default: build)")
    command.add_argument("--stage", type=Path, metavar="DIR", help="put the files of asa below this folder, and end")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Build both, print their paths; or stage one. Raises SetupError."""
    from asa import debian, paths
    from asa.cli.install import texts
    from asa.install import payload, prefix
    from asa.install.system import System

    System(Path("/")).check()
    if arguments.stage is not None:
        _stage(arguments.stage, prefix.below(payload.payload(texts()), prefix.Prefix.USR, arguments.stage))
        return 0
    debian.install(PACKAGES, report=lambda line: print(line, file=sys.stderr), cache=paths.default().cache)
    for path in build(payload.payload(texts()), payload.laboratory(), arguments.out):
        print(path)
    return 0


def build(
    product: "Iterable[Item]", laboratory: "Iterable[Item]", out: Path, environment: Mapping[str, str] = os.environ
) -> list[Path]:
    """The packages, in the folder `out`. Raises SetupError."""
    import asa
    from asa.core.errors import SetupError
    from asa.install.payload import ROOT

    text = environment.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(text), UTC) if text.isascii() and text.isdigit() else datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="asa-deb-") as name:
        source = Path(name) / "source"
        shutil.copytree(ROOT / "packaging/debian", source / "debian")
        for package, items in (("asa", product), ("asa-lab", laboratory)):
            _stage(source / "staged" / package, items)
            (source / f"debian/{package}.copyright").write_text(_copyright() if package == "asa" else _COPYRIGHT)
        entry = f"asa ({asa.__version__}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the source.\n\n"
        (source / "debian/changelog").write_text(f"{entry} -- {_MAINTAINER}  {format_datetime(moment)}\n")
        major, minor = sys.version_info[:2]
        this = f"python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1})"
        words = ["dpkg-buildpackage", "--build=binary", "--no-sign", "--no-check-builddeps"]
        settings = {**os.environ, "SOURCE_DATE_EPOCH": str(int(moment.timestamp())), "ASA_PYTHON": this}
        done = subprocess.run(words, cwd=source, env=settings, capture_output=True, text=True, check=False)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            raise SetupError(f"dpkg-buildpackage ended with {done.returncode}: {' '.join(last)!r}")
        out.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy2(path, out)) for path in sorted(Path(name).glob("*.deb"))]


def _stage(tree: Path, items: "Iterable[Item]") -> None:
    tree.mkdir(parents=True, exist_ok=True)
    for item in items:
        path = tree / item.path.relative_to("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(item.body)
        path.chmod(item.mode)


def _copyright() -> str:
    from asa.install.payload import PROGRAM, distributions

    lines = [_COPYRIGHT]
    for one in distributions():
        licence = one.metadata.json.get("license_expression") or one.metadata.json.get("license") or "see there"
        folder = PROGRAM / f"{_folder(one)}/licenses"
        lines.append(f"{one.metadata['Name']} {one.version}: {' '.join(str(licence).split())[:80]} ({folder})\n")
    return "".join(lines)


def _folder(one: importlib.metadata.Distribution) -> str:
    return next(PurePosixPath(file).parts[0] for file in one.files or () if PurePosixPath(file).name == "METADATA")
