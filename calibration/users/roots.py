# SPDX-License-Identifier: GPL-2.0-only
"""Packages installed in fresh roots, tried there, and taken away again: whether ASA runs, and what it leaves behind.

Debian's roots are made by debootstrap from the machine's own mirror. The RPM and the package for Arch go into the root
of this machine's own Debian release: their tools bring the files and run the scripts, while libraries are Debian's and
dependencies are not asked for. Needs root. Every mount lies in a mount namespace of its own and ends with it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asa
from asa import debian, files, paths
from asa.core.errors import AsaError, SetupError
from asa.debian import Codename
from calibration.users import packages
from calibration.users.packages import ROOT, Kind, run

PLACES = paths.default().cache / "roots"
_MOUNTED = 'for part in proc sys dev; do mount --rbind "/$part" "$0/$part"; done; root=$0; '
_BESIDE = ("proc", "sys", "dev", "tmp", "var/cache", "var/log", "var/lib/apt", "var/lib/dpkg", "var/lib/rpm")
_DATABASES = ("var/lib/pacman", "var/lib/systemd/deb-systemd", "var/lib/python")  # of package tools, not ASA's
_CONFIGURATION = ("etc/apt/apt.conf.d", "etc/hosts", "etc/pip.conf", "etc/resolv.conf", "etc/ssl/certs")
_CERTIFICATES = "usr/local/share/ca-certificates"  # which the links in etc/ssl/certs lead to
_LIMIT_S = 3600.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_APT = ("apt-get", "-qq", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0")
_BUILDING = ("ca-certificates", "make", "python3-venv")
_RPM = ("rpm", "--dbpath", "/var/lib/rpm", "--root")
# what only an extra brings may be missing
_IMPORT = """\
import importlib, pkgutil, sys
sys.dont_write_bytecode = True
sys.path.append("/usr/lib/asa")
own = {"asa", "collectors", "models", "mapping_tables", "scx_bin", "jeepney", "msgspec", "numpy", "yaml"}
for name in ("asa", "collectors", "models"):
    for one in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        try:
            if not one.name.endswith((".__main__", ".members")):  # the latter is ctypes'
                importlib.import_module(one.name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] in own:
                raise
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of one root. `fault` is "" where all went well."""

    root: str
    fault: str
    left: tuple[str, ...]  # files, links and folders that were not there before


def tried() -> tuple[Tried, ...]:
    """All four roots. Tens of minutes. Raises SetupError where there is nothing to try."""
    if os.geteuid() != 0:
        raise SetupError("roots are made by root; run it with sudo")
    own = debian.release()
    debian.install((*packages.TOOLS, "debootstrap"), report=lambda line: print(line, file=sys.stderr))
    out = ROOT / "build"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="asa-roots-") as name:
        found = []
        for suite in Codename:
            root = Path(name) / suite
            found.append(_attempt(f"Debian {suite}", lambda: _debian(suite, own, root, out)))  # noqa: B023  # called at once
            if suite is own:
                found.append(_attempt("RPM", lambda: _rpm(root, packages.build(Kind.RPM, out))))  # noqa: B023
                found.append(_attempt("pacman", lambda: _pacman(root, packages.build(Kind.PKGBUILD, out))))  # noqa: B023
            shutil.rmtree(root, ignore_errors=True)
    return tuple(found)


def judge(doctor: subprocess.CompletedProcess[str], version: str) -> None:
    """Raises SetupError unless `asa doctor --json` and `asa --version` said what an ASA that runs says."""
    if version.split()[-1:] != [asa.__version__]:
        raise SetupError(f"asa --version said {version!r}")
    try:
        verdict = json.loads(doctor.stdout)["verdict"]
    except (ValueError, LookupError, TypeError):
        raise SetupError(f"asa doctor --json said {doctor.stdout[:80]!r} {doctor.stderr[-200:]!r}") from None
    if (doctor.returncode, verdict) not in ((0, "works"), (1, "observes")):
        raise SetupError(f"asa doctor ended with {doctor.returncode}, {verdict}")


def there(root: Path) -> frozenset[str]:
    """All files, links and folders below a root, but for what belongs to package tools."""
    beside = (*_BESIDE, *_DATABASES)
    found: set[str] = set()
    for folder, inner, others in os.walk(root):
        below = os.path.relpath(folder, root)
        inner[:] = [name for name in inner if os.path.normpath(f"{below}/{name}") not in beside]
        found.update(os.path.normpath(f"{below}/{name}") for name in (*inner, *others))
    return frozenset(found)


def copy_checkout(folder: Path) -> None:
    """The files of this checkout that Git knows, and what `make bpf` has compiled, into a folder."""
    listed = run("listing the checkout", ["git", "ls-files", "-z"])
    for name in (*listed.split("\0"), *packages.COMPILED):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def copy_tests(root: Path) -> None:
    """This checkout as /src of a root, anew, without what needs the libraries of training."""
    source = root / "src"
    shutil.rmtree(source, ignore_errors=True)
    copy_checkout(source)
    (source / "tests/models/conftest.py").unlink()


def install(root: Path, names: Sequence[str]) -> None:
    """Packages by apt of the root itself. Raises SetupError."""
    _enter(root, *_APT, "update")
    _enter(root, *_APT, "install", *names)


def inside(root: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program within a root, with /proc, /sys and /dev of this machine."""
    return _with_mounts(root, 'exec chroot "$root" "$@"', words)


def _attempt(root: str, attempt: Callable[[], tuple[str, ...]]) -> Tried:
    try:
        return Tried(root=root, fault="", left=attempt())
    except AsaError as error:
        return Tried(root=root, fault=str(error), left=())


def _debian(suite: Codename, own: Codename, root: Path, out: Path) -> tuple[str, ...]:
    copy(base(suite), root)
    package = packages.build(Kind.DEB, out) if suite is own else _built(suite)
    shutil.copy(package, root / "tmp/asa.deb")
    _enter(root, *_APT, "update")
    needed = run("reading what the package needs", ["dpkg-deb", "--field", str(package), "Depends"])
    _enter(root, *_APT, "satisfy", needed.strip())
    return _tried(
        root,
        lambda: _enter(root, *_APT, "install", "/tmp/asa.deb"),  # noqa: S108  # of the root
        lambda: _enter(root, *_APT, "purge", "asa"),
    )


def _rpm(root: Path, package: Path) -> tuple[str, ...]:
    def install() -> None:
        _beside(root, *_RPM, str(root), "--install", "--nodeps", str(package))
        _beside(root, *_RPM, str(root), "--verify", "--nodeps", "asa")

    return _tried(root, install, lambda: _beside(root, *_RPM, str(root), "--erase", "--nodeps", "asa"))


def _pacman(root: Path, package: Path) -> tuple[str, ...]:
    words = ("pacman", "--root", str(root), "--noconfirm", "--noprogressbar")
    (root / "var/lib/pacman").mkdir(parents=True, exist_ok=True)
    return _tried(
        root,
        lambda: _beside(root, *words, "-Udd", str(package)),
        lambda: _beside(root, *words, "-Rn", "asa"),
    )


def _tried(root: Path, install: Callable[[], object], remove: Callable[[], object]) -> tuple[str, ...]:
    # what is there afterwards and was not before
    before = there(root)
    install()
    version = _enter(root, "asa", "--version")
    _enter(root, "/usr/bin/python3", "-IS", "-c", _IMPORT)
    judge(inside(root, ("asa", "doctor", "--json")), version)
    remove()
    return tuple(sorted(there(root) - before))


def base(suite: Codename) -> Path:
    """A bare root of that release, made by debootstrap the first time. Raises SetupError."""
    made = PLACES / suite
    if not made.exists():
        PLACES.mkdir(parents=True, exist_ok=True)
        part = PLACES / f".part-{suite}"
        shutil.rmtree(part, ignore_errors=True)
        run(f"debootstrap {suite}", ["debootstrap", "--variant=minbase", suite, str(part), debian.mirror()])
        files.move(part, made)
    return made


def copy(source: Path, root: Path) -> None:
    """A root as a copy of another one, with this machine's settings of apt and of the network. Raises SetupError."""
    run("copying a root", ["cp", "-a", "--reflink=auto", str(source), str(root)])
    for name in _CONFIGURATION:
        if Path("/", name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            run("copying settings", ["cp", "-aT", f"/{name}", str(root / name)])
    if Path("/", _CERTIFICATES).is_dir():
        run("copying certificates", ["cp", "-aLT", f"/{_CERTIFICATES}", str(root / _CERTIFICATES)])


def _built(suite: Codename) -> Path:
    # compiled parts of Python libraries are for one version of Python: `make deb` runs in a root of the other release
    root = PLACES / f"{suite}-building"
    if not root.exists():
        copy(base(suite), root)
    install(root, _BUILDING)
    copy_checkout(root / "src")
    _enter(root, "make", "-C", "/src", "deb", "PYTHON=/usr/bin/python3")
    return next(iter((root / "src/build").glob("asa_*.deb")))


def _enter(root: Path, *words: str) -> str:
    done = inside(root, words)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise SetupError(f"{' '.join(words)[:60]!r} in {root.name} ended with {done.returncode}: {' '.join(last)!r}")
    return done.stdout


def _beside(root: Path, *words: str) -> None:
    done = _with_mounts(root, 'exec "$@"', words)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise SetupError(f"{words[0]} for {root.name} ended with {done.returncode}: {' '.join(last)!r}")


def _with_mounts(root: Path, then: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "--mount", "sh", "-euc", _MOUNTED + then, str(root), *words]
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHON")}
    settings = kept | {"HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "PATH": _PATH}
    return subprocess.run(command, cwd="/", env=settings, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
