# SPDX-License-Identifier: GPL-2.0-only
"""The lab's kernel, built: Debian's source, the options in `kernel_data`, our one driver, a tick rate of choice.

Reads `kernel_data/guest.config` (all that is not named there is off) and `kernel_data/asa_machine.c`. Makes
`CACHE/kernels/RELEASE` as `kernel` reads it, with build.json beside it, and `CACHE/logs/build-kernel-HZ.log`. Work is
done in a folder of its own: until the last step nothing that was there before is touched.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from asa import debian, wire
from asa.core.errors import LabError
from scenarios.lab import building
from scenarios.lab.building import Report, Source, Tell, Tools

TICKS_HZ = (1000, 250)
"""Tick rates that can be had: what most who run such schedulers have, and what Debian has."""

PACKAGES = (
    "bc",
    "bison",
    "dwarves",
    "flex",
    "gcc",
    "kmod",
    "libelf-dev",
    "lz4",
    "make",
    "tar",
    "util-linux",
    "xz-utils",
)
SUITES = ("trixie-backports",)

_SOURCE = Source(package="linux", suites=SUITES, what="Linux 6.18 or 6.19")
_DATA = Path(__file__).with_name("kernel_data")
_NAMES = {"KBUILD_BUILD_USER": "asa", "KBUILD_BUILD_HOST": "lab"}
_NEEDED_MB = 3000  # 1.5 GB of source, 0.9 GB of objects
_OBJECTS = 1750  # lines that make prints for one build; they move the bar, nothing depends on them
_LEFT_OUT = ("*/Documentation/*/*", "*/tools/testing/*", "*.dts", "*.dtsi", "*/drivers/gpu/drm/amd/include/*")
_STEP = re.compile(r"  (?:CC|AS|LD|AR|HOSTCC|OBJCOPY|BTF|VDSO\S*)(?: \[M\])? ")


class Built(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a kernel was built: build.json. `seconds` are from unpacking to the finished folder, without downloads."""

    release: str
    tick_hz: int
    source: str  # the tarball's name
    seconds: float
    cpus: int  # as many compilers ran at once


def release(upstream: str, tick_hz: int) -> str:
    """What `uname -r` says in a kernel of ours. It changes with each change of options or driver."""
    digest = hashlib.sha256(b"".join((_DATA / name).read_bytes() for name in ("guest.config", "asa_machine.c")))
    return f"{upstream}-asa-{tick_hz}hz-{digest.hexdigest()[:8]}"


def options(tick_hz: int, local: str) -> str:
    """The configuration as it is given to the kernel's own tools; `local` is what follows the upstream version."""
    lines = (_DATA / "guest.config").read_text(encoding="utf-8")
    return f'{lines}CONFIG_HZ_{tick_hz}=y\nCONFIG_LOCALVERSION="{local}"\n'


def read(folder: Path) -> Built | None:
    """How the kernel in `folder` was built; None when it was not, or not by this version of ours."""
    try:
        return wire.from_json((folder / "build.json").read_bytes(), Built)
    except (OSError, msgspec.DecodeError):
        return None


def build(kernels: Path, tick_hz: int, upstreams: Sequence[str], *, cache: Path, report: Report, tell: Tell) -> Path:
    """Build the first of `upstreams` whose source can be had, else the newest 6.18, else 6.19; gives its folder.

    The caller holds a lock for this tick rate. Raises LabError, SetupError; nothing is left behind then but the log.
    """
    debian.install(PACKAGES, report=report, cache=cache)
    log = cache / f"logs/build-kernel-{tick_hz}.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        tell("fetching the source of Linux", 0.0)
        folder = kernels / "source"
        tarball = _SOURCE.tarball(
            folder,
            here=(folder / f"linux_{upstream}.orig.tar.xz" for upstream in upstreams),
            fitting=lambda versions: _in_order(versions, upstreams),
            cache=cache,
            report=report,
        )
        with building.folder_of_build(kernels, f"building-{tick_hz}-", _NEEDED_MB) as part:
            tools = Tools(what="the kernel", folder=part, log=log, packages=PACKAGES, env=_NAMES)
            return _build(kernels, tools, tarball, tick_hz, tell)
    except OSError as error:
        where = error.filename or kernels
        raise LabError(f"{where}: {error.strerror} while building the kernel; mend that and run again") from error


def both_layouts(root: Path) -> None:
    """Have modules be found where kmod before 34 looks, lib/modules, and where later ones do, usr/lib/modules."""
    if (root / "usr/lib/modules").is_dir() and not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    elif (root / "lib/modules").is_dir() and not (root / "usr/lib").exists():
        (root / "usr").mkdir(exist_ok=True)
        (root / "usr/lib").symlink_to("../lib")


def _build(kernels: Path, tools: Tools, tarball: Path, tick_hz: int, tell: Tell) -> Path:
    part, begun = tools.folder, time.monotonic()
    upstream = _upstream(tarball)
    name = release(upstream, tick_hz)
    cpus = len(os.sched_getaffinity(0))
    tell(f"unpacking Linux {upstream}", 0.02)
    left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    tools.run(["tar", "--extract", "--file", str(tarball), "--strip-components=1", *left_out])
    _put_driver(part)
    (part / "asa.config").write_text(options(tick_hz, name.removeprefix(upstream)), encoding="utf-8")
    tell("configuring the kernel", 0.07)
    tools.run(["make", "KCONFIG_ALLCONFIG=asa.config", "allnoconfig"])
    _check_options(part)
    what = f"compiling Linux {upstream}, {tick_hz} Hz"
    tell(what, 0.08)
    for count, _ in enumerate(tools.steps(["make", f"-j{cpus}", "bzImage", "modules"], step=_STEP)):
        tell(what, 0.08 + 0.90 * min(1.0, count / _OBJECTS))
    tell("putting the kernel together", 0.98)
    staged = part / "staged"
    _put_together(tools, staged, name)
    seconds = round(time.monotonic() - begun, 1)
    built = Built(release=name, tick_hz=tick_hz, source=tarball.name, seconds=seconds, cpus=cpus)
    (staged / "build.json").write_bytes(wire.json_bytes(built) + b"\n")
    building.put(staged, kernels / name)
    return kernels / name


def _put_driver(source: Path) -> None:
    makefile = source / "drivers/cpufreq/Makefile"
    shutil.copy2(_DATA / "asa_machine.c", makefile.parent)
    with makefile.open("a", encoding="utf-8") as file:
        file.write("\nobj-y += asa_machine.o\n")


def _check_options(source: Path) -> None:
    # a line that the kernel's tools dropped is an option of another version, or one that lacks what it depends on
    made = set((source / ".config").read_text(encoding="utf-8").splitlines())
    asked = (source / "asa.config").read_text(encoding="utf-8").splitlines()
    lost = [line for line in asked if line.startswith("CONFIG_") and not line.endswith("=n") and line not in made]
    if lost:
        raise LabError(f"this version of Linux does not take {', '.join(lost)}; mend {_DATA / 'guest.config'}")


def _put_together(tools: Tools, staged: Path, name: str) -> None:
    source, boot = tools.folder, staged / "boot"
    boot.mkdir(parents=True)
    shutil.copyfile(source / "arch/x86/boot/bzImage", boot / f"vmlinuz-{name}")
    shutil.copyfile(source / ".config", boot / f"config-{name}")
    shutil.copyfile(source / "System.map", boot / f"System.map-{name}")
    tools.run(["make", f"INSTALL_MOD_PATH={staged}", "INSTALL_MOD_STRIP=1", "modules_install"])
    for link in ("build", "source"):  # to the folder that goes away
        (staged / "lib/modules" / name / link).unlink(missing_ok=True)
    both_layouts(staged)


def _in_order(versions: Sequence[str], upstreams: Sequence[str]) -> list[str]:
    # Debian's versions, newest first as given
    usable = [version for version in versions if version.startswith(("6.18.", "6.19."))]
    wanted = [version for upstream in upstreams for version in usable if version.partition("-")[0] == upstream]
    usable.sort(key=lambda version: not version.startswith("6.18."))  # stable
    return list(dict.fromkeys([*wanted, *usable]))


def _upstream(tarball: Path) -> str:
    return tarball.name.removeprefix("linux_").removesuffix(".orig.tar.xz")
