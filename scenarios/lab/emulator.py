# SPDX-License-Identifier: GPL-2.0-only
"""The lab's machine: which QEMU is here, whether KVM can really run a kernel on this host, and the lab's clocks.

Installs what is missing (through `asa.debian`). The answer about KVM is paid for once a boot of the host and kept in
`CACHE/lab/kvm.json`. Starts no guest itself: the trial boot is passed in.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from asa import debian, files
from asa.core.errors import LabError, SetupError
from scenarios.lab.building import Tell
from scenarios.lab.qemu import build as qemu

Report = Callable[[str], None]

_BINARY = "qemu-system-x86_64"
# busybox, kmod, zstd, xz and file make the initramfs; iproute2 and procps are what commands in the guest expect
_PACKAGES = ("busybox-static", "kmod", "zstd", "xz-utils", "file", "binutils", "iproute2", "procps")
_BACKPORTS = "bookworm-backports"
# A request is the host's from the moment on in which the guest makes it: else the clock would jump before it is seen
_AT_ONCE = ("-global", "virtio-9p-pci.ioeventfd=off", "-global", "virtio-blk-pci.ioeventfd=off")

QUANTUM_NS = 50_000
"""How far a busy CPU may be ahead of another under the parallel clock."""


class Clock(StrEnum):
    """How time goes in a guest."""

    WALL = "wall"  # the host's time, one thread a virtual CPU: for function
    STEADY = "steady"  # 4 ns an instruction of any virtual CPU, the host's time while all are idle: to show; never KVM
    PARALLEL = "parallel"  # 4 ns an instruction of each virtual CPU, all at the same time: for measuring; never KVM


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """A QEMU, and what it runs on. `kvm` is None while nobody has tried; `why` is the sentence that goes with it."""

    binary: Path
    version: tuple[int, int, int]
    kvm: bool | None
    why: str
    measuring: Path | None = None  # the lab's own QEMU, which has the parallel clock; None: not built

    def runs(self, clock: Clock) -> Path:
        """The QEMU for a clock. Raises LabError where the lab's own is needed and not there."""
        if clock is not Clock.PARALLEL:
            return self.binary
        if self.measuring is None:
            raise LabError("the lab's QEMU with the parallel clock is not built; run `asa lab setup --guests`")
        return self.measuring

    def options(self, clock: Clock, icount: str = "") -> tuple[str, ...]:
        """QEMU arguments for a clock, on top of virtme-ng's own; `icount` is what a machine's CPUs add to its own.

        Under the parallel clock a later `-icount parallel=NANOSECONDS` sets another quantum.
        """
        if clock is Clock.PARALLEL:
            firmware = (word for folder in qemu.FIRMWARE for word in ("-L", folder))
            return (*firmware, *_AT_ONCE, "-icount", f"shift=2,sleep=off,parallel={QUANTUM_NS}{icount}")
        if clock is Clock.STEADY:
            return ("-icount", "shift=2,sleep=on")
        if self.version < (8, 0, 0) and not self.kvm:
            # 7.2 with one thread a CPU: int3 Oops while sched_ext flips static branches
            return ("-accel", "tcg,thread=single")
        return ()


def found(cache: Path, search: str | None = None) -> Emulator | None:
    """The QEMU on PATH (or on `search`) with what `cache` knows about KVM; None when there is no QEMU.

    Raises LabError when it does not run.
    """
    binary = shutil.which(_BINARY, path=search)
    if binary is None:
        return None
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise LabError(f"{binary}: {error.strerror}; install qemu-system-x86 again") from error
    match = re.search(r"version (\d+)\.(\d+)\.(\d+)", done.stdout)
    if done.returncode or not match:
        raise LabError(f"{binary}: --version said {(done.stdout + done.stderr).strip()[:200]!r}; install it again")
    version = (int(match[1]), int(match[2]), int(match[3]))
    kvm, why = _remembered(cache, version)
    return Emulator(binary=Path(binary), version=version, kvm=kvm, why=why, measuring=qemu.found(cache))


def ensure(cache: Path, report: Report, *, measuring: bool = False, tell: Tell | None = None) -> Emulator:
    """A QEMU and the tools that virtme-ng needs beside it, installed when missing. Raises SetupError, LabError.

    `measuring`: the lab's own, too, built when missing, with its progress for `tell`.
    """
    debian.install(_PACKAGES, report=report, cache=cache)
    if found(cache) is None:
        _install_qemu(cache, report)
    if measuring:
        qemu.ensure(cache, report, tell=tell)
    emulator = found(cache)
    if emulator is None:
        raise LabError(f"{_BINARY} is not on PATH after installing qemu-system-x86; PATH is {os.environ.get('PATH')!r}")
    return emulator


def _install_qemu(cache: Path, report: Report) -> None:
    if debian.release() is debian.Codename.BOOKWORM:
        try:
            debian.install(["qemu-system-x86>=1:8"], suites=[_BACKPORTS], report=report, cache=cache)
        except SetupError as error:
            report(f"{error}; taking bookworm's own QEMU, with one thread for all virtual CPUs")
        else:
            return
    debian.install(["qemu-system-x86"], report=report, cache=cache)


def settle_kvm(emulator: Emulator, cache: Path, trial: Callable[[Emulator], None], report: Report) -> Emulator:
    """The same emulator with `kvm` decided: `trial` boots the lab's kernel under KVM and raises LabError if it cannot.

    /dev/kvm that opens proves nothing: there are hosts where it does and then runs no ordinary kernel.
    """
    if emulator.kvm is not None:
        return emulator
    refusal = _refusal(Path("/dev/kvm"))
    if refusal is None:
        report("trying whether KVM can boot the lab's kernel here (once)")
        try:
            trial(replace(emulator, kvm=True, why="trial boot"))
        except LabError as error:
            reason = re.split("[:;] ", str(error))[0]  # the rest is in the trial's console.log
            refusal = f"KVM cannot boot the lab's kernel here: {reason}"
    settled = replace(emulator, kvm=refusal is None, why=refusal or "a trial boot under KVM worked")
    _remember(cache, settled)
    return settled


def _refusal(device: Path) -> str | None:
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"{device}: {error.strerror}"
    return None


def _fingerprint(version: tuple[int, int, int]) -> dict[str, object]:
    # another kernel, another QEMU or another boot (nested KVM comes and goes with the machine) asks for a new trial
    host = os.uname()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return {"host": f"{host.release} {host.version}", "qemu": list(version), "boot": boot, "uid": os.geteuid()}


def _remember(cache: Path, emulator: Emulator) -> None:
    path = cache / "lab/kvm.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = _fingerprint(emulator.version) | {"kvm": emulator.kvm, "why": emulator.why}
    files.replace(path, json.dumps(answer, indent=1).encode() + b"\n")


def _remembered(cache: Path, version: tuple[int, int, int]) -> tuple[bool | None, str]:
    unknown = (None, "not tried yet")
    try:
        answer = json.loads((cache / "lab/kvm.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return unknown
    if not isinstance(answer, dict):
        return unknown
    kvm, why = answer.pop("kvm", None), answer.pop("why", None)
    same = answer == _fingerprint(version) and isinstance(kvm, bool) and isinstance(why, str)
    return (kvm, why) if same else unknown
