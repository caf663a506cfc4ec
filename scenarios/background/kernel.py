# SPDX-License-Identifier: GPL-2.0-only
"""Kernel Compile: make builds directories of the Linux source that Debian ships, over and over.

`prepare` unpacks the source once, without drivers' code and most documents, and configures it in a few ways; a session
copies one configured build folder, compiles the directories that its seed chose, and removes the objects again. Speed
is counted by the objects that make names as it begins them.
"""

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import Application, ApplicationError, Failure, Parameters, Place, Report, Role
from scenarios.background.pace import Pace
from scenarios.crew import MARK
from scenarios.driving import Driver, fail
from scenarios.metric import duration, speed

_SOURCES = Path("/usr/src")
_PACKAGE = "linux-source"  # of whatever release the Debian at hand has
_NAME = re.compile(r"linux-source-(\d+)\.(\d+)\.tar\.xz")
_LEFT_OUT = ("*/drivers/*.[chS]", "*/sound/*.[chS]", "*/Documentation/*/*", "*/tools/testing/*", "*/*.dts", "*/*.dtsi")
_RECIPE = 1  # goes up with what `prepare` does

_DESKTOP = """CONFIG_64BIT=y
CONFIG_SMP=y
CONFIG_PRINTK=y
CONFIG_FUTEX=y
CONFIG_EPOLL=y
CONFIG_CGROUPS=y
CONFIG_SHMEM=y
CONFIG_PROC_FS=y
CONFIG_TMPFS=y
CONFIG_BLOCK=y
CONFIG_EXT4_FS=y
CONFIG_NET=y
CONFIG_INET=y
CONFIG_CRYPTO=y
"""
_TARGETS = {"tiny": "tinyconfig", "desktop": "allnoconfig", "default": "defconfig"}
_COSTS_S = {  # configuration -> directory -> CPU seconds of compiling it here, on a busy machine; they size a build
    "tiny": {
        "fs": 24.0,
        "mm": 23.0,
        "lib": 19.0,
        "kernel/time": 6.0,
        "kernel/events": 4.6,
        "kernel/sched": 3.7,
        "kernel/irq": 3.4,
        "kernel/locking": 2.0,
        "kernel/rcu": 1.8,
    },
    "desktop": {
        "mm": 35.0,
        "net/core": 34.0,
        "lib": 32.0,
        "block": 18.0,
        "kernel/time": 10.0,
        "kernel/sched": 8.0,
        "kernel/irq": 8.0,
        "kernel/events": 6.3,
        "crypto": 5.5,
        "kernel/cgroup": 5.4,
        "kernel/locking": 5.0,
        "kernel/rcu": 4.9,
        "net/sched": 4.6,
    },
    "default": {
        "block": 40.0,
        "io_uring": 26.0,
        "kernel/time": 24.0,
        "security/selinux": 20.0,
        "kernel/irq": 16.0,
        "kernel/cgroup": 12.0,
        "ipc": 11.0,
        "kernel/sched": 9.0,
        "kernel/locking": 8.0,
        "kernel/rcu": 6.0,
        "kernel/events": 6.0,
    },
}
_BUILD_COST_S = (12.0, 24.0)  # for each two processors: 5 to 12 s on an idle machine
_KEPT = ("PATH", "HOME", "TMPDIR", MARK)  # no MAKEFLAGS, ARCH or CC from outside


def _draw(rng: random.Random, place: Place) -> Parameters:
    configuration = rng.choice(tuple(_COSTS_S))
    costs_s = _COSTS_S[configuration]
    wanted_s = rng.uniform(*_BUILD_COST_S) * max(1.0, place.cpus / 2)
    directories: list[str] = []
    cost_s = 0.0
    for directory in rng.sample(tuple(costs_s), k=len(costs_s)):
        if cost_s + costs_s[directory] <= wanted_s * 1.2:
            directories.append(directory)
            cost_s += costs_s[directory]
    return {
        "configuration": configuration,
        "directories": directories,
        "jobs": rng.choice((max(1, place.cpus // 2), place.cpus, place.cpus + 1, 2 * place.cpus)),
        "pause_s": round(rng.uniform(0.1, 2.0), 1),  # between two builds
    }


def _prepare(place: Place, report: Report) -> None:
    source = _source(place, report)
    for configuration in _TARGETS:
        _build_folder(place, report, source, configuration)


APPLICATION = Application(
    name="kernel",
    title="Kernel Compile",
    role=Role.BACKGROUND,
    kind=Kind.COMPILE,
    scored=(
        speed("objects_per_s", "1/s", "objects compiled", 0.50),
        duration("total_s", "s", "the whole build", 0.50),
    ),
    packages=("make", "gcc", _PACKAGE, "bc", "bison", "flex", "libelf-dev", "xz-utils"),
    programs=("make", "gcc", "bc", "bison", "flex", "tar", "xz"),
    draw=_draw,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.background.kernel"),
    prepare=_prepare,
    ready_limit_s=120.0,
)


def newest_source(folder: Path) -> Path | None:
    """The packed source of the highest version in a folder."""
    found = [(int(name[1]), int(name[2]), path) for path in folder.glob("*") if (name := _NAME.fullmatch(path.name))]
    return max(found)[2] if found else None


def _source(place: Place, report: Report) -> Path:
    packed = newest_source(_SOURCES)
    if packed is None:
        raise ApplicationError(
            application="kernel",
            failure=Failure.MISSING,
            reason=f"{_SOURCES}/linux-source-*.tar.xz: is not there; run: apt-get install {_PACKAGE}",
        )
    about = packed.stat()
    key = hashlib.sha256(f"{_RECIPE} {packed.name} {about.st_size} {about.st_mtime_ns}".encode()).hexdigest()[:12]
    source = place.cache / key / "source"
    if not source.is_dir():
        report(f"unpacking {packed}")
        with _Making(source) as folder:
            left_out = (f"--exclude={pattern}" for pattern in _LEFT_OUT)
            _run(("tar", "--extract", "--strip-components=1", "--wildcards", *left_out, f"--file={packed}"), folder)
        for other in place.cache.iterdir():  # of older sources
            if other.name != key:
                shutil.rmtree(other, ignore_errors=True)
    return source


def _build_folder(place: Place, report: Report, source: Path, configuration: str) -> None:
    build = source.with_name(configuration)
    if build.is_dir():
        return
    report(f"configuring {build}")
    with _Making(build) as folder:
        (folder / "all.config").write_text(_DESKTOP if configuration == "desktop" else "")
        settings = (f"KCONFIG_ALLCONFIG={folder}/all.config",) if configuration == "desktop" else ()
        make = ("make", "--silent", f"--jobs={place.cpus}", f"O={folder}")
        _run((*make, *settings, _TARGETS[configuration]), source)
        _run((*make, "prepare"), source)


class _Making:
    """A folder made beside its place, and put there whole or not at all."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __enter__(self) -> Path:
        try:
            self._place.parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=f".{self._place.name}-", dir=self._place.parent))
        except OSError as error:
            raise _unprepared(str(error)) from error
        return self._folder

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            with suppress(OSError):  # somebody else was quicker
                self._folder.rename(self._place)
        shutil.rmtree(self._folder, ignore_errors=True)


def _run(command: tuple[str, ...], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = " / ".join(done.stderr.split("\n")[-4:]).strip(" /")
        raise _unprepared(f"{command[0]} ended with code {done.returncode} in {folder}", words)
    return done.stdout


def _unprepared(reason: str, words: str = "") -> ApplicationError:
    full = "No space left on device" in reason + words
    failure = Failure.NO_SPACE if full else Failure.UNPREPARED
    return ApplicationError(application="kernel", failure=failure, reason=reason, last_words=words)


def _environment() -> dict[str, str]:
    return {"LC_ALL": "C", **{name: value for name, value in os.environ.items() if name in _KEPT}}


def _build(driver: Driver, folder: Path, pace: Pace) -> None:
    # One complete build, whose objects are counted while it runs.
    parameters = driver.parameters
    targets = [f"{directory}/" for directory in parameters["directories"]]
    command = ("make", f"--directory={folder}", f"--jobs={parameters['jobs']}", *targets)
    begin_s = time.monotonic()
    compiled = 0
    pace.start()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment(), text=True) as make:
        try:
            for line in make.stdout or ():
                one = is_object(line)
                compiled += one
                pace.done(one)
        except BaseException:
            make.kill()
            raise
    pace.done(0)
    if make.returncode != 0:
        fail(f"make ended with code {make.returncode}")
    if compiled == 0:  # of a directory that this source does not have make says nothing
        fail(f"make compiled nothing in {' '.join(targets)}")
    driver.measured("total_s", time.monotonic() - begin_s)


def is_object(line: str) -> bool:
    """Whether this line of make's says that an object is being compiled."""
    words = line.split()
    return len(words) == 2 and words[0] in {"CC", "AS"} and words[1].endswith(".o")


def _clean(folder: Path, directories: list[str]) -> None:
    for directory in directories:
        for kind in ("*.o", "*.a"):
            for path in (folder / directory).rglob(kind):
                path.unlink()


def _version(command: str) -> str:
    text = subprocess.run((command, "--version"), stdout=subprocess.PIPE, text=True, check=False).stdout
    found = re.search(r"\d+\.\d+(\.\d+)*", text.partition("\n")[0].rpartition(")")[2] or text)
    return found.group() if found else "unknown"


def main() -> None:
    """Build and clean until asked to end."""
    driver = Driver.begin(interrupt=True)
    folder = driver.scratch / "build"
    try:
        for configured in driver.cache.glob(f"*/{driver.parameters['configuration']}"):  # of the one source there
            shutil.copytree(configured, folder, symlinks=True)
        _run(("make", f"--jobs={driver.cpus}", "prepare"), folder)  # its own tools know where they were built
        source = _run(("make", "--silent", "kernelversion"), folder).strip()
    except (OSError, ApplicationError) as error:
        fail(str(error))
    driver.ready({"gcc": _version("gcc"), "make": _version("make"), "linux-source": source})
    pace = Pace(driver, "objects_per_s")
    while not driver.ending:
        _build(driver, folder, pace)
        _clean(folder, driver.parameters["directories"])
        driver.pause(float(driver.parameters["pause_s"]))


if __name__ == "__main__":
    main()
