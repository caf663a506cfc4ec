# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.users.packages --out DIR`: builds all packages of this checkout, and checks what is in them.

The list of files is `asa.install.payload`'s, as `asa lab deb --stage` puts it below a folder. What a package has beyond
it, or lacks, is a fault. The tools are Debian's. Nothing is installed here but those: `calibration.users.roots` does.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from asa import debian
from asa.core.errors import AsaError, SetupError
from asa.install.payload import DISTRIBUTION, PACKAGES, PROGRAM

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("debhelper", "dpkg-dev", "fakeroot", "libarchive-tools", "lintian", "makepkg", "pacman-package-manager", "rpm")
ASA = (sys.executable, "-P", "-c", "from asa.cli.main import main; main()")
COMPILED = ("collectors/ebpf/probes.bpf.o", "models/members.so")
"""By `make bpf`; no sdist has them."""

_FILE = DISTRIBUTION.replace("-", "_")  # as wheels and sdists begin
_NOBODY = "65534"  # makepkg refuses to run as root
_LIMIT_S = 1800.0
_BESIDE = {  # what a tool adds to the list
    "deb": ("usr/share/doc/asa/*", "usr/share/lintian/overrides/asa"),
    "rpm": ("*.pyc", "usr/share/licenses/asa/LICENSE"),
    "PKGBUILD": ("*.pyc", "usr/share/licenses/asa/LICENSE", "usr/share/libalpm/hooks/asa.hook", ".[A-Z]*"),
    "wheel": (f"{_FILE}-*.dist-info/*",),
    "sdist": ("packaging/*", "*.md", ".gitignore", "LICENSE", "PKG-INFO", "pyproject.toml", "requirements.lock"),
}


class Kind(StrEnum):
    """A form in which ASA is passed on."""

    DEB = "deb"
    RPM = "rpm"
    WHEEL = "wheel"
    SDIST = "sdist"
    PKGBUILD = "PKGBUILD"


def staged(folder: Path) -> frozenset[str]:
    """The list of files, without the leading slash; `folder` gets them. Raises SetupError."""
    run("staging the files", [*ASA, "lab", "deb", "--stage", str(folder)])
    return frozenset(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def build(kind: Kind, out: Path) -> Path:
    """Make one package in `out`, which is there. Raises SetupError."""
    return _BUILDERS[kind](out)


def names(kind: Kind, package: Path) -> frozenset[str]:
    """The files in a package, as its own tool unpacks them: below /, or below the folder of Python's packages."""
    if kind is Kind.WHEEL:
        with zipfile.ZipFile(package) as wheel:
            return frozenset(wheel.namelist())
    if kind is Kind.RPM:
        listed = run("listing the RPM", ["rpm", "-qp", "--qf", "[%{FILEMODES:perms} %{FILENAMES}\n]", str(package)])
        rows = (line.partition(" /") for line in listed.splitlines())
        return frozenset(name for mode, _, name in rows if not mode.startswith("d"))
    if kind is Kind.DEB:
        with tempfile.TemporaryFile() as whole:
            done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=whole, check=False)
            if done.returncode:
                raise SetupError(f"{package}: dpkg-deb cannot read it; build it again")
            whole.seek(0)
            return _members(tarfile.open(fileobj=whole), 1)
    return _members(tarfile.open(package), 1 if kind is Kind.SDIST else 0)


def faults(kind: Kind, there: Iterable[str], listed: Iterable[str]) -> Iterator[str]:
    """What a package lacks of the list, and what it has beyond it; a line each."""
    wanted = frozenset(_of(kind, listed))
    found = frozenset(there)
    yield from (f"{kind}: {name} is missing" for name in sorted(wanted - found))
    for name in sorted(found - wanted):
        if not any(fnmatchcase(name, pattern) for pattern in _BESIDE[kind]):
            yield f"{kind}: {name} is in no list"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and check all of them; 1 with a line on stderr for each fault, 2 where one cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m calibration.users.packages", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="DIR", default=Path("build"), help="where to (default: build)")
    try:
        found = checked(parser.parse_args(arguments).out)
    except AsaError as error:
        print(f"asa: {error}", file=sys.stderr)
        return 2
    for kind, lines in found.items():
        print(f"{kind}: {'wrong' if lines else 'built and checked'}")
        for line in lines:
            print(f"asa: {line}", file=sys.stderr)
    return int(any(found.values()))


def checked(out: Path) -> Mapping[Kind, Sequence[str]]:
    """Build all in `out`; the faults of each. Raises SetupError where one cannot be built."""
    debian.install(TOOLS, report=lambda line: print(line, file=sys.stderr))
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="asa-staged-") as name:
        listed = staged(Path(name))
    found: dict[Kind, Sequence[str]] = {}
    for kind in Kind:
        package = build(kind, out)
        said = _COMPLAINTS[kind](package) if kind in _COMPLAINTS else ()
        found[kind] = [*faults(kind, names(kind, package), listed), *said]
    return found


def run(step: str, words: Sequence[str], folder: Path = ROOT, more: Mapping[str, str] | None = None) -> str:
    """What a program prints. Raises SetupError with its last line."""
    settings = os.environ | {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **(more or {})}
    try:
        done = subprocess.run(
            words, cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{step} failed: {error}") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise SetupError(f"{step}: {words[0]} ended with {done.returncode}: {' '.join(last)!r}")
    return done.stdout


def _of(kind: Kind, listed: Iterable[str]) -> Iterator[str]:
    if kind not in (Kind.WHEEL, Kind.SDIST):
        # zsh looks there on Debian and its kin alone (asa.install.prefix)
        there = "vendor-completions" if kind is Kind.DEB else "site-functions"
        yield from (name.replace("zsh/site-functions", f"zsh/{there}") for name in listed)
        return
    below = f"{PROGRAM}/".lstrip("/")
    for name in listed:
        own = name.removeprefix(below)
        compiled = own in COMPILED or own.endswith((".bpf.o", ".so"))
        if own != name and own.split("/")[0] in PACKAGES and not (kind is Kind.SDIST and compiled):
            yield own


def _members(archive: tarfile.TarFile, above: int) -> frozenset[str]:
    # all names begin with a folder, "." or that of the version, that is no part of them where `above` is 1
    with archive:
        return frozenset("/".join(one.name.split("/")[above:]) for one in archive if not one.isdir())


def _deb(out: Path) -> Path:
    made = run("building Debian packages", [*ASA, "lab", "deb", "--out", str(out)]).split()
    return next(Path(path) for path in made if Path(path).name.startswith("asa_"))


def _rpm(out: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix="asa-rpm-") as name:
        places = {"checkout": str(ROOT), "_topdir": name, "_builddir": name, "_rpmdir": str(out)}
        defined = [word for key, value in places.items() for word in ("--define", f"{key} {value}")]
        run("building the RPM", ["rpmbuild", "-bb", *defined, "packaging/rpm/asa.spec"])
    return _newest(out, "*/asa-*.rpm")


def _hatch(target: str, pattern: str) -> Callable[[Path], Path]:
    def build(out: Path) -> Path:
        run(f"building the {target}", [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)])
        return _newest(out, pattern)

    return build


def _pkgbuild(out: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix="asa-arch-") as name:
        words = ["makepkg", "--repackage", "--nodeps", "--force"]
        if os.geteuid() == 0:
            Path(name).chmod(0o777)
            words = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *words]
        places = dict.fromkeys(("HOME", "PKGDEST", "BUILDDIR", "SRCDEST", "LOGDEST"), name)
        run("building Arch's package", words, ROOT / "packaging/arch", places)
        return Path(shutil.copy(_newest(Path(name), "asa-*.pkg.tar*"), out))


def _newest(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SetupError(f"{folder}: no {pattern} was made there")
    return found[-1]


def _lintian(package: Path) -> Iterator[str]:
    words = ["lintian", "--allow-root", "--fail-on", "error", str(package)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    yield from (f"deb: {line}" for line in done.stdout.splitlines() if line.startswith("E:"))


def _wheel_of(package: Path) -> Iterator[str]:
    # an sdist is as good as the wheel that pip builds of it
    with tempfile.TemporaryDirectory(prefix="asa-wheel-") as name:
        words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", name]
        run("building a wheel of the sdist", [sys.executable, *words, str(package)])
        with zipfile.ZipFile(_newest(Path(name), f"{_FILE}-*.whl")) as wheel:
            made = frozenset(wheel.namelist())
    sources = {one for one in names(Kind.SDIST, package) if one.split("/")[0] in PACKAGES}
    yield from (f"sdist: its wheel lacks {one}" for one in sorted(sources - made))


_BUILDERS: Mapping[Kind, Callable[[Path], Path]] = {
    Kind.DEB: _deb,
    Kind.RPM: _rpm,
    Kind.WHEEL: _hatch("wheel", f"{_FILE}-*.whl"),
    Kind.SDIST: _hatch("sdist", f"{_FILE}-*.tar.gz"),
    Kind.PKGBUILD: _pkgbuild,
}
_COMPLAINTS: Mapping[Kind, Callable[[Path], Iterator[str]]] = {Kind.DEB: _lintian, Kind.SDIST: _wheel_of}

if __name__ == "__main__":
    sys.exit(main())
