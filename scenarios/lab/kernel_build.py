# SPDX-License-Identifier: GPL-2.0-only
"""The lab's kernel, built: Debian's source, the options in `kernel_data`, our one driver, a tick rate of choice.

Reads `kernel_data/guest.config` (all that is not named there is off) and `kernel_data/asa_machine.c`. Makes
`CACHE/kernels/RELEASE` as `kernel` reads it, with build.json beside it, and `CACHE/logs/build-kernel-HZ.log`. Work is
done in a folder of its own: until the last step nothing that was there before is touched.
"""

import errno
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from asa import debian, files, wire
from asa.core.errors import LabError, SetupError

Report = Callable[[str], None]
Tell = Callable[[str, float], None]
"""Takes the step under way and the share of the whole that is done, 0 to 1."""

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

_DATA = Path(__file__).with_name("kernel_data")
_NEEDED_MB = 3000  # 1.5 GB of source, 0.9 GB of objects
_OBJECTS = 1750  # lines that make prints for one build; they move the bar, nothing depends on them
_KEPT_LINES = 4000
_LEFT_OUT = ("*/Documentation/*/*", "*/tools/testing/*", "*.dts", "*.dtsi", "*/drivers/gpu/drm/amd/include/*")
_STEP = re.compile(r"  (?:CC|AS|LD|AR|HOSTCC|OBJCOPY|BTF|VDSO\S*)(?: \[M\])? ")
_TELLING = re.compile(r"(?:fatal )?error:|No space left on device|: not found|\*\*\* .* Error |\*\*\* ")
_FULL = os.strerror(errno.ENOSPC)


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
    prefix = f"building-{tick_hz}-"
    for old in kernels.glob(f"{prefix}*"):  # of one that was killed
        shutil.rmtree(old, ignore_errors=True)
    log = cache / f"logs/build-kernel-{tick_hz}.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        tell("fetching the source of Linux", 0.0)
        tarball = _source(kernels / "source", upstreams, cache, report)
        _check_space(kernels)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=kernels, ignore_cleanup_errors=True) as part:
            return _build(kernels, Path(part), tarball, tick_hz, log, tell)
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


def _build(kernels: Path, part: Path, tarball: Path, tick_hz: int, log: Path, tell: Tell) -> Path:
    begun = time.monotonic()
    upstream = _upstream(tarball)
    name = release(upstream, tick_hz)
    cpus = len(os.sched_getaffinity(0))
    tell(f"unpacking Linux {upstream}", 0.02)
    left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    _run(["tar", "--extract", "--file", str(tarball), "--strip-components=1", *left_out], part, log)
    _put_driver(part)
    (part / "asa.config").write_text(options(tick_hz, name.removeprefix(upstream)), encoding="utf-8")
    tell("configuring the kernel", 0.07)
    _run(["make", "KCONFIG_ALLCONFIG=asa.config", "allnoconfig"], part, log)
    _check_options(part)
    what = f"compiling Linux {upstream}, {tick_hz} Hz"
    tell(what, 0.08)
    for count, _ in enumerate(_steps(["make", f"-j{cpus}", "bzImage", "modules"], part, log)):
        tell(what, 0.08 + 0.90 * min(1.0, count / _OBJECTS))
    tell("putting the kernel together", 0.98)
    staged = part / "staged"
    _put_together(part, staged, name, log)
    seconds = round(time.monotonic() - begun, 1)
    built = Built(release=name, tick_hz=tick_hz, source=tarball.name, seconds=seconds, cpus=cpus)
    (staged / "build.json").write_bytes(wire.json_bytes(built) + b"\n")
    files.move(staged, kernels / name)
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


def _put_together(source: Path, staged: Path, name: str, log: Path) -> None:
    boot = staged / "boot"
    boot.mkdir(parents=True)
    shutil.copyfile(source / "arch/x86/boot/bzImage", boot / f"vmlinuz-{name}")
    shutil.copyfile(source / ".config", boot / f"config-{name}")
    shutil.copyfile(source / "System.map", boot / f"System.map-{name}")
    _run(["make", f"INSTALL_MOD_PATH={staged}", "INSTALL_MOD_STRIP=1", "modules_install"], source, log)
    for link in ("build", "source"):  # to the folder that goes away
        (staged / "lib/modules" / name / link).unlink(missing_ok=True)
    both_layouts(staged)


def _source(folder: Path, upstreams: Sequence[str], cache: Path, report: Report) -> Path:
    """The tarball of the first version that is here or can be had."""
    for upstream in upstreams:
        tarball = folder / f"linux_{upstream}.orig.tar.xz"
        if tarball.is_file():
            return tarball
    offers = debian.source_versions("linux", SUITES, report=report, cache=cache)
    refused: SetupError | None = None
    for version in _in_order(offers, upstreams):
        try:
            return debian.download_source("linux", version, folder, suites=SUITES, report=report, cache=cache)
        except SetupError as error:  # a mirror may list what it has dropped
            refused = error
            report(f"{error}; trying the next version")
    why = f" ({refused})" if refused else ""
    raise LabError(
        f"{SUITES[0]} of this machine's mirror has no source of Linux 6.18 or 6.19{why}; put one in {folder}"
    )


def _in_order(versions: Iterable[str], upstreams: Sequence[str]) -> list[str]:
    # Debian's versions, newest first as given; at most three are tried: each may be 150 MB
    usable = [version for version in versions if version.startswith(("6.18.", "6.19."))]
    wanted = [version for upstream in upstreams for version in usable if version.partition("-")[0] == upstream]
    usable.sort(key=lambda version: not version.startswith("6.18."))  # stable
    return list(dict.fromkeys([*wanted, *usable]))[:3]


def _upstream(tarball: Path) -> str:
    return tarball.name.removeprefix("linux_").removesuffix(".orig.tar.xz")


def _check_space(folder: Path) -> None:
    free_mb = shutil.disk_usage(folder).free >> 20
    if free_mb < _NEEDED_MB:
        raise LabError(f"{folder}: building the kernel takes {_NEEDED_MB} MB, {free_mb} MB are free; make room")


def _run(command: Sequence[str], folder: Path, log: Path) -> None:
    for _ in _steps(command, folder, log):
        pass


def _steps(command: Sequence[str], folder: Path, log: Path) -> Iterator[str]:
    """Run a tool; gives the lines that say which file make is at. Raises LabError with its telling words."""
    tail: list[str] = []
    with _process(command, folder) as process, log.open("a", encoding="utf-8") as file:
        for line in process.stdout or ():
            file.write(line)
            if _STEP.match(line):
                yield line
            else:
                tail = [*tail[-_KEPT_LINES:], line]
    if process.returncode:
        telling = next((line.strip() for line in tail if _TELLING.search(line)), "".join(tail[-1:]).strip())
        if any(_FULL in line for line in tail):
            raise LabError(f"{folder.parent}: {_FULL} while building the kernel; make room and run again")
        raise LabError(
            f"{command[0]} ended with {process.returncode} while building the kernel: {telling!r}; see {log}"
        )


@contextmanager
def _process(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    guarded = ["setpriv", "--pdeathsig", "TERM", *command]  # util-linux; make ends its compilers
    environment = {"PATH": _PATH, "HOME": str(folder), "LC_ALL": "C", "TMPDIR": str(folder)} | _NAMES
    try:
        process = subprocess.Popen(
            guarded,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise LabError(f"{guarded[0]}: {error.strerror}; install {' '.join(PACKAGES)}") from error
    with process:  # closes the pipe and waits
        try:
            yield process
        except BaseException:
            process.terminate()
            raise


_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_NAMES = {"KBUILD_BUILD_USER": "asa", "KBUILD_BUILD_HOST": "lab"}
