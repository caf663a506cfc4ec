# SPDX-License-Identifier: GPL-2.0-only
"""Builds the lab's own QEMU: the distribution's source package with the parallel clock put in (`change`).

Makes `CACHE/qemu/VERSION-asa-DIGEST` with qemu-system-x86_64 and build.json, and `CACHE/logs/build-qemu.log`. Until the
last step nothing that was there before is touched. Firmware is that of the installed QEMU.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from asa import debian, wire
from asa.core.errors import LabError
from scenarios.lab import building
from scenarios.lab.building import Report, Source, Tell, Tools
from scenarios.lab.qemu import change

BINARY = "qemu-system-x86_64"
PACKAGES = (
    "bzip2",
    "gcc",
    "libattr1-dev",
    "libc6-dev",
    "libcap-ng-dev",
    "libfdt-dev",
    "libglib2.0-dev",
    "libpixman-1-dev",
    "ninja-build",
    "pkg-config",
    "tar",
    "util-linux",
    "xz-utils",
    "zlib1g-dev",
)
FIRMWARE = ("/usr/share/qemu", "/usr/share/seabios", "/usr/lib/ipxe/qemu")
"""Where the installed QEMU's packages have it: of the machine that is emulated, not of the host."""

_SOURCE = Source(package="qemu", suites=("trixie",), what="QEMU 10.0")
_FITS = re.compile(r"(\d+:)?10\.0\.\d+[+-]")  # versions in which the places of the change were seen
_NEEDED_MB = 2500  # 0.5 GB of source, 0.8 GB of objects
_OPTIONS = (
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--enable-tcg",
    "--enable-virtfs",
    "--enable-attr",
    "--enable-cap-ng",
    "--enable-fdt=system",
    "--disable-docs",
    "--disable-install-blobs",
    "--disable-tools",
)
_STEP = re.compile(r"\[(\d+)/(\d+)\] ")


class Built(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it was built: build.json. `seconds` are from unpacking to the finished folder, without downloads."""

    version: str
    source: str  # the tarball's name
    seconds: float
    cpus: int  # as many compilers ran at once


def found(cache: Path) -> Path | None:
    """The newest binary below `cache` that has the present change and runs on this system; None when there is none."""
    folders = [path for path in (cache / "qemu").glob(f"*-asa-{_digest()}") if _runs(path / BINARY)]
    best = max(folders, key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)[:3]], default=None)
    return best / BINARY if best is not None else None


def read(binary: Path) -> Built:
    """How it was built. Raises LabError when its build.json is not there or makes no sense."""
    path = binary.parent / "build.json"
    try:
        return wire.from_json(path.read_bytes(), Built)
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(f"{path}: {error}; remove {binary.parent} and run `asa lab setup` again") from error


def ensure(cache: Path, report: Report, *, tell: Tell | None = None) -> Path:
    """The binary below `cache`, built when it is not there (some minutes). Safe to interrupt and to run twice at once.

    `tell` gets the progress, else `report` gets its steps. Raises LabError, SetupError; the log alone is left then.
    """
    there = found(cache)
    if there is not None:
        return there
    place = cache / "qemu"
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".ensure").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = found(cache)  # another call may have built it meanwhile
        if there is not None:
            return there
        try:
            return _build(place, cache, report, tell or building.steps_to(report))
        except OSError as error:
            raise LabError(
                f"{error.filename or place}: {error.strerror} while building QEMU; mend that and run again"
            ) from error


def _runs(binary: Path) -> bool:
    # a cache may be older than the system's libraries, or be another machine's
    try:
        return subprocess.run([binary, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _digest() -> str:
    here = Path(__file__).parent
    parts = [path.read_bytes() for path in (here / "change.py", *(here / name for name in sorted(change.OWN)))]
    return hashlib.sha256(b"".join([*parts, " ".join(_OPTIONS).encode()])).hexdigest()[:8]


def _libraries() -> dict[str, str]:
    """Where our Python finds meson and pycotap: an installed laboratory has them in a folder of its own."""
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def _build(place: Path, cache: Path, report: Report, tell: Tell) -> Path:
    debian.install(PACKAGES, report=report, cache=cache)
    log = cache / "logs/build-qemu.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    tell("fetching the source of QEMU", 0.0)
    folder = place / "source"
    here = sorted(folder.glob("qemu_*.orig.tar.xz"), reverse=True)
    tarball = _SOURCE.tarball(folder, here=here, fitting=_fitting, cache=cache, report=report)
    with building.folder_of_build(place, "building-", _NEEDED_MB) as part:
        begun = time.monotonic()
        tools = Tools(what="QEMU", folder=part, log=log, packages=PACKAGES, env=_libraries())
        tell("unpacking QEMU", 0.02)
        tools.run(["tar", "--extract", "--file", str(tarball), "--strip-components=1"])
        change.change(part)
        version = (part / "VERSION").read_text(encoding="utf-8").strip()
        tell("configuring QEMU", 0.05)
        (part / "build").mkdir()
        tools.run(["../configure", f"--python={sys.executable}", *_OPTIONS], inside="build")
        what = f"compiling QEMU {version}"
        for line in tools.steps(["ninja", BINARY], inside="build", step=_STEP):
            done, whole = map(int, _STEP.match(line).groups())  # type: ignore[union-attr]  # steps() matched it
            tell(what, 0.10 + 0.88 * done / whole)
        staged = part / "staged"
        staged.mkdir()
        tools.run(["strip", "-o", str(staged / BINARY), f"build/{BINARY}"])
        shutil.copymode(part / "build" / BINARY, staged / BINARY)
        seconds = round(time.monotonic() - begun, 1)
        built = Built(version=version, source=tarball.name, seconds=seconds, cpus=len(os.sched_getaffinity(0)))
        (staged / "build.json").write_bytes(wire.json_bytes(built) + b"\n")
        home = place / f"{version}-asa-{_digest()}"
        building.put(staged, home)
    return home / BINARY


def _fitting(versions: Sequence[str]) -> list[str]:
    return [version for version in versions if _FITS.match(version)]
