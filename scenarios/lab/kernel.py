# SPDX-License-Identifier: GPL-2.0-only
"""The lab's kernels, unpacked below the cache, never installed: Debian's with sched_ext, and ours by tick rate.

Reads the machine's apt sources (through `asa.debian`) and makes `CACHE/kernels/VERSION` with boot/, lib/modules and
usr/lib/modules, depmod done; `kernel_build` builds. Does not touch /boot or /lib/modules of this machine.
"""

import fcntl
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asa import debian
from asa.core.errors import LabError
from scenarios.lab import building, kernel_build
from scenarios.lab.building import Tell

Report = Callable[[str], None]
_SUITES = kernel_build.SUITES

DEBIAN_HZ = 250
"""Ticks of Debian's own kernel."""

MEASURING_HZ = 1000
"""Ticks of the kernel that the lab measures with where a machine names no other."""

KNOWN = "6.18.15+deb13-amd64"
"""The version that every scheduler of the portfolio was seen to load on."""

# Newer ones are left out on purpose: the BTF of 7.2 makes every scheduler of 1.1.4 refuse to load (KF_IMPLICIT_ARGS).
_PLAIN = re.compile(r"linux-image-(6\.1[89]\.\d+(?:\+[a-z0-9.+]+)?-amd64)")
_ANY_PLAIN = re.compile(r"linux-image-(\d+\.\d+\.\d+(?:\+[a-z0-9.+]+)?-amd64)")
_SPLIT = ("base", "binary", "modules")  # into which Debian's 7.2 divides the package of 7.0; their /boot is empty
_OPTIONS = ("CONFIG_SCHED_CLASS_EXT=y", "CONFIG_DEBUG_INFO_BTF=y")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that the lab can boot. `image` is its vmlinuz, `modules` its folder with modules.dep."""

    version: str
    image: Path
    modules: Path
    tick_hz: int

    @property
    def root(self) -> Path:
        """The folder to give to `modprobe -d`."""
        return self.modules.parents[2]


def found(cache: Path, tick_hz: int | None = None, *, release: str | None = None) -> Kernel | None:
    """The best kernel that is below `cache` already: the known version, else the newest; None when there is none.

    `tick_hz` asks for one of ours, built with the present options and driver; None for Debian's. `release` asks for
    Debian's newest of that beginning (`7.2`), whether schedulers load there or not.
    """
    kernels = cache / "kernels"
    if release is not None:
        named = newest([path.name for path in kernels.glob("*-amd64") if _whole(path)], release)
        return _kernel(kernels / named, DEBIAN_HZ) if named else None
    if tick_hz is not None:
        upstreams = _upstreams(kernels)
        there = [kernels / kernel_build.release(upstream, tick_hz) for upstream in upstreams]
        return next((_kernel(folder, tick_hz) for folder in there if _whole(folder)), None)
    versions = [path.name for path in kernels.glob("6.1[89].*-amd64") if _whole(path)]
    best = preferred(versions)
    return _kernel(kernels / best, DEBIAN_HZ) if best else None


def ensure(
    cache: Path, report: Report, tick_hz: int | None = None, *, release: str | None = None, tell: Tell | None = None
) -> Kernel:
    """The kernel below `cache`; made when none is there. Safe to interrupt and to run twice at once.

    `tick_hz` and `release` as in `found`: one of `kernel_build.TICKS_HZ` is built (some minutes), None is fetched.
    `tell` gets the progress of a build, else `report` gets its steps. Raises LabError on a machine other than x86_64,
    when the mirror has no kernel or source that will do, or when what it has lacks sched_ext or BTF; SetupError when
    apt fails.
    """
    if platform.machine() != "x86_64":
        raise LabError(f"the lab needs an x86_64 host, this is {platform.machine()!r}; run asa on the host itself")
    if tick_hz is not None and tick_hz not in kernel_build.TICKS_HZ:
        raise LabError(f"the lab has no kernel of {tick_hz!r} Hz; take {' or '.join(map(str, kernel_build.TICKS_HZ))}")
    kernel = found(cache, tick_hz, release=release)
    if kernel is not None:
        return kernel
    kernels = cache / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    with (kernels / (f".ensure-{tick_hz}" if tick_hz else ".ensure")).open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kernel = found(cache, tick_hz, release=release)  # another call may have made it meanwhile
        if kernel is not None:
            return kernel
        if tick_hz is None:
            return _fetch(kernels, cache, report, release)
        tell = tell or building.steps_to(report)
        built = kernel_build.build(kernels, tick_hz, _upstreams(kernels), cache=cache, report=report, tell=tell)
        return _kernel(built, tick_hz)


def _upstreams(kernels: Path) -> list[str]:
    """Upstream versions in the order to take them: Debian's kernel that is here, then the known one, what was built."""
    fetched = preferred([path.name for path in kernels.glob("6.1[89].*-amd64") if _whole(path)])
    built = [path.name.partition("-")[0] for path in kernels.glob("6.1[89].*-asa-*hz-*")]
    order = [fetched or KNOWN, KNOWN, *sorted(built, key=_numbers, reverse=True)]
    return list(dict.fromkeys(version.partition("+")[0] for version in order))


def preferred(versions: Iterable[str]) -> str | None:
    """The version to take: the known one, else the newest 6.18, else the newest 6.19, else None."""
    there = set(versions)
    if KNOWN in there:
        return KNOWN
    return max(there, key=lambda version: (version.startswith("6.18."), _numbers(version)), default=None)


def plain_versions(packages: Iterable[str]) -> list[str]:
    """Versions among package names that the lab may use: plain amd64, 6.18 or 6.19 (no cloud, rt, debug, unsigned)."""
    return [match[1] for package in packages if (match := _PLAIN.fullmatch(package))]


def newest(versions: Iterable[str], release: str) -> str | None:
    """The newest that is `release` or begins with it and goes on with something else than a digit."""
    begins = re.compile(re.escape(release) + r"(?!\d)")
    return max((version for version in versions if begins.match(version)), key=_numbers, default=None)


def _fetch(kernels: Path, cache: Path, report: Report, release: str | None = None) -> Kernel:
    pattern = "linux-image-6.1*-amd64" if release is None else "linux-image-*-amd64"
    packages = [offer.package for offer in debian.versions(pattern, _SUITES, report=report, cache=cache)]
    if release is not None:
        any_plain = [match[1] for package in packages if (match := _ANY_PLAIN.fullmatch(package))]
        version = newest(any_plain, release)
    else:
        version = preferred(plain_versions(packages))
    if version is None and release is not None:
        there = sorted({".".join(one.split(".")[:2]) for one in any_plain}, key=_numbers)
        raise LabError(f"{_SUITES[0]} of this machine's mirror has no kernel {release!r}; it has {', '.join(there)}")
    if version is None:
        raise LabError(
            f"{_SUITES[0]} of this machine's mirror has no linux-image-6.18.* or 6.19.* for amd64 any more, and newer "
            f"ones do not load the schedulers of 1.1.4; put {KNOWN} unpacked into {str(kernels / KNOWN)!r}"
        )
    staged = kernels / f"{version}.unpacking"
    deb = debian.download(f"linux-image-{version}", kernels, suites=_SUITES, report=report, cache=cache)
    report(f"unpacking kernel {version}")
    debian.unpack(deb, staged)
    if not (staged / f"boot/vmlinuz-{version}").exists():
        _join(version, staged, cache, report)
    kernel_build.both_layouts(staged)
    _check(staged / f"boot/config-{version}")
    command = ["depmod", "-b", str(staged), version]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": _PATH})
    except OSError as error:
        raise LabError(f"depmod: {error.strerror}; install kmod") from error
    if done.returncode:
        raise LabError(f"depmod of {staged} ended with {done.returncode}: {done.stderr.strip()[-300:]!r}")
    building.put(staged, kernels / version)
    deb.unlink(missing_ok=True)
    return _kernel(kernels / version, DEBIAN_HZ)


def _join(version: str, staged: Path, cache: Path, report: Report) -> None:
    # the image is made last: it tells that all is there
    kernels = staged.parent
    for kind in _SPLIT:
        deb = debian.download(f"linux-{kind}-{version}", kernels, suites=_SUITES, report=report, cache=cache)
        part = kernels / f"{version}.{kind}"
        shutil.copytree(debian.unpack(deb, part), staged, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(part)
        deb.unlink()
    (staged / "boot").mkdir(exist_ok=True)
    for name in ("config", "vmlinuz"):
        with suppress(FileNotFoundError):  # `_check` says what is lacking
            shutil.copy2(staged / f"usr/lib/modules/{version}/{name}", staged / f"boot/{name}-{version}")


_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"  # depmod is in sbin, which users lack


def _check(config: Path) -> None:
    try:
        lines = set(config.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise LabError(f"{config}: {error.strerror}; the package is laid out in a way the lab does not know") from error
    lacking = [option for option in _OPTIONS if option not in lines]
    if lacking:
        raise LabError(f"{config}: {' and '.join(lacking)} not set; the lab needs a kernel with sched_ext and BTF")


def _kernel(folder: Path, tick_hz: int) -> Kernel:
    return Kernel(
        version=folder.name,
        image=folder / f"boot/vmlinuz-{folder.name}",
        modules=folder / "lib/modules" / folder.name,
        tick_hz=tick_hz,
    )


def _whole(folder: Path) -> bool:
    kernel = _kernel(folder, DEBIAN_HZ)
    return kernel.image.is_file() and (kernel.modules / "modules.dep").is_file()


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("-")[0])]
