# SPDX-License-Identifier: GPL-2.0-only
"""Makes a Debian package of the same files that `asa install` puts on a machine, by dpkg-deb.

The same inputs and SOURCE_DATE_EPOCH give the same bytes. Maintainer scripts are in `asa/data/deb`.
"""

import gzip
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path, PurePosixPath

import asa
from asa.core.errors import SetupError
from asa.install.payload import PROGRAM, Item, Kind, distributions, folders

_SCRIPTS = Path(__file__).resolve().parents[1] / "data/deb"
_DOCUMENTS = PurePosixPath("/usr/share/doc/asa")
_OVERRIDES = PurePosixPath("/usr/share/lintian/overrides/asa")
_MAINTAINER = "ASA maintainers <maintainers@asa.example>"  # who passes packages on puts his own there
# What numpy's and the others' compiled parts are linked with (their wheels are made for glibc 2.28); what the program
# loads by name; the bus, polkit and systemd, without which there is no helper. libelf is for the schedulers.
_DEPENDS = (
    "python3 (>= {this})",
    "python3 (<< {next})",
    "libc6 (>= 2.28)",
    "libgcc-s1",
    "libstdc++6",
    "libbpf1",
    "libelf1 | libelf1t64",
    "default-dbus-system-bus | dbus-system-bus",
    "polkitd | policykit-1",
    "systemd (>= 252)",
)
_COPYRIGHT = """\
ASA, the Adaptive Scheduling Agent

Copyright: the authors of ASA
License: GPL-2.0-only

On Debian systems, the text of version 2 of the GNU General Public License is in
/usr/share/common-licenses/GPL-2.

What follows comes with it, each under its own licence, whose text and whose authors are named in the folder beside it.

"""
_DESCRIPTION = """\
keeps the CPU scheduler loaded that serves the present workload best
 ASA, the Adaptive Scheduling Agent, recognises what a machine is being used
 for, and has the kernel run the sched_ext scheduler that serves that best, or
 the kernel's own EEVDF.
 .
 A daemon in the user's session recognises and decides; a small helper of root,
 started by the bus, loads probes and exchanges schedulers. Needs Linux 6.12 or
 newer with CONFIG_SCHED_CLASS_EXT to switch; elsewhere it observes."""


def build(items: tuple[Item, ...], out: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The package, in the folder `out`. Raises SetupError."""
    moment = _moment(environment)
    with tempfile.TemporaryDirectory(prefix="asa-deb-") as name:
        tree = Path(name) / "tree"
        tree.mkdir()
        items = (*items, *_documents(moment))
        for folder in folders(items):
            (tree / folder.relative_to("/")).mkdir()
        for item in items:
            path = tree / item.path.relative_to("/")
            path.write_bytes(item.body)
            path.chmod(item.mode)
        _control(tree, items)
        for path in (tree, *tree.rglob("*")):
            os.utime(path, (moment.timestamp(), moment.timestamp()))
            if path.is_dir():
                path.chmod(0o755)  # whatever the umask
        return _pack(tree, out, moment)


def _pack(tree: Path, out: Path, moment: datetime) -> Path:
    package = out / f"asa_{asa.__version__}_{_architecture()}.deb"
    words = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(tree), str(package)]
    try:
        out.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(int(moment.timestamp()))}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SetupError(f"{error.filename}: {error.strerror}; is this Debian?") from error
    if done.returncode:
        raise SetupError(f"dpkg-deb ended with {done.returncode}: {' '.join(done.stderr.split())!r}")
    return package


def _architecture() -> str:
    tool = shutil.which("dpkg")
    if tool is None:
        raise SetupError("dpkg is missing: packages are made on Debian")
    return subprocess.run([tool, "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def _moment(environment: Mapping[str, str]) -> datetime:
    text = environment.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(text), UTC) if text.isascii() and text.isdigit() else datetime.now(UTC)


def _control(tree: Path, items: tuple[Item, ...]) -> None:
    folder = tree / "DEBIAN"
    folder.mkdir()
    major, minor = sys.version_info[:2]
    depends = ", ".join(_DEPENDS).format(this=f"{major}.{minor}", next=f"{major}.{minor + 1}")
    size_kib = sum((len(item.body) + 1023) // 1024 for item in items)
    fields = {
        "Package": "asa",
        "Version": asa.__version__,
        "Architecture": _architecture(),
        "Maintainer": _MAINTAINER,
        "Installed-Size": str(size_kib),
        "Depends": depends,
        "Recommends": "libpam-systemd",
        "Suggests": "python3-bpfcc, gnome-shell",
        "Section": "admin",
        "Priority": "optional",
        "Description": _DESCRIPTION,
    }
    (folder / "control").write_text("".join(f"{key}: {value}\n" for key, value in fields.items()), encoding="utf-8")
    config = [str(item.path) for item in items if item.kind is Kind.CONFIG]
    (folder / "conffiles").write_text("".join(f"{path}\n" for path in config))
    sums = [
        f"{hashlib.md5(item.body, usedforsecurity=False).hexdigest()}  {item.path.relative_to('/')}\n"
        for item in items
        if item.kind is not Kind.CONFIG
    ]
    (folder / "md5sums").write_text("".join(sums))
    for path in sorted(_SCRIPTS.iterdir()):
        if path.name in ("preinst", "postinst", "prerm", "postrm"):
            shutil.copyfile(path, folder / path.name)
            (folder / path.name).chmod(0o755)


def _documents(moment: datetime) -> tuple[Item, ...]:
    text = f"asa ({asa.__version__}) unstable; urgency=medium\n\n  * See the history of the source.\n\n"
    changes = f"{text} -- {_MAINTAINER}  {format_datetime(moment)}\n"
    return (
        Item(path=_DOCUMENTS / "copyright", body=_copyright().encode()),
        Item(path=_DOCUMENTS / "changelog.gz", body=gzip.compress(changes.encode(), 9, mtime=0)),
        Item(path=_OVERRIDES, body=(_SCRIPTS / "lintian-overrides").read_bytes()),
    )


def _copyright() -> str:
    lines = [_COPYRIGHT]
    for one in distributions():
        licence = one.metadata.json.get("license_expression") or one.metadata.json.get("license") or "see there"
        folder = PROGRAM / f"{_folder(one)}/licenses"
        lines.append(f"{one.metadata['Name']} {one.version}: {' '.join(str(licence).split())[:80]} ({folder})\n")
    return "".join(lines)


def _folder(one: importlib.metadata.Distribution) -> str:
    return next(PurePosixPath(file).parts[0] for file in one.files or () if PurePosixPath(file).name == "METADATA")
