# SPDX-License-Identifier: GPL-2.0-only
"""What the programs must be told of this machine: CPUs, pids, system call numbers, networks' interrupts, permissions.

Reads /proc and /sys when the programs are loaded, and for the interrupts now and then. It loads nothing.
"""

import os
import platform
import re
from pathlib import Path

from asa import host
from asa.core.errors import SourceError
from collectors.ebpf import layout
from collectors.procfs.reader import reason_of

_SOURCE = "ebpf"
_CAPABILITIES = {"CAP_PERFMON": 38, "CAP_BPF": 39}  # include/uapi/linux/capability.h
_CAP_SYS_ADMIN = 21  # stands for both, and was the only one before 5.8
_ENOUGH_BYTES = 1 << 20

# futex, futex_waitv, futex_wait: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
_FUTEX_CALLS = {"x86_64": (202, 449, 455), "aarch64": (98, 449, 455)}


def futex_calls(machine: str | None = None) -> tuple[int, int, int] | None:
    """Numbers of futex(2), futex_waitv(2) and futex_wait(2); None where the programs cannot tell a system call.

    Those of 32-bit programs on a 64-bit kernel are others, and are not counted.
    """
    return _FUTEX_CALLS.get(machine or platform.machine())


def possible_cpus(sys: Path) -> int:
    """The highest CPU number that may ever come, and one. Raises SourceError."""
    path = sys / "devices/system/cpu/possible"  # "0-3" or "0,2-7"
    text = _text(path)
    last = text.strip().rpartition(",")[2].rpartition("-")[2]
    if not last.isascii() or not last.isdecimal() or int(last) >= 1 << 16:
        raise SourceError(source=_SOURCE, reason=f"{path}: not understood: {text[:40]!r}")
    return int(last) + 1


def task_slots(proc: Path) -> int:
    """Entries for the map `tasks`, a power of two: one for each pid there can be, within bounds. Raises SourceError."""
    path = proc / "sys/kernel/pid_max"
    text = _text(path).strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise SourceError(source=_SOURCE, reason=f"{path}: not understood: {text[:40]!r}")
    wanted = 1 << (int(text) - 1).bit_length() if int(text) else 1
    return min(max(wanted, layout.FEWEST_TASKS), layout.MOST_TASKS)


def missing_capabilities(proc: Path) -> tuple[str, ...]:
    """Which of CAP_BPF and CAP_PERFMON this process has not got. Raises SourceError."""
    path = proc / "self/status"
    effective = host.capabilities(_text(path))
    if effective is None:
        raise SourceError(source=_SOURCE, reason=f"{path}: no line CapEff in it")
    if effective >> _CAP_SYS_ADMIN & 1:
        return ()
    return tuple(name for name, bit in sorted(_CAPABILITIES.items()) if not effective >> bit & 1)


def lockdown(sys: Path, proc: Path | None = None) -> str:
    """The kernel's lockdown mode (kernel_lockdown(7)): none, integrity or confidentiality; "" where it has none.

    By securityfs; where that is not mounted, by what `proc` says the kernel was booted with.
    """
    try:
        found = re.search(r"\[(\w+)\]", _text(sys / "kernel/security/lockdown"))
    except SourceError:
        lsm = sys / "kernel/security/lsm"
        if os.path.exists(lsm) and not os.path.exists(lsm.with_name("lockdown")):  # noqa: PTH110  # never raises
            return ""  # securityfs is there: a kernel without it does not know the word
        try:
            found = re.search(r"(?:^|\s)lockdown=(\w+)", _text(proc / "cmdline") if proc is not None else "")
        except SourceError:
            return ""
    return found[1] if found else ""


CONFIDENTIALITY = "confidentiality"
"""The mode in which the kernel refuses BPF programs that read its memory (LOCKDOWN_BPF_READ_KERNEL)."""


def network_irqs(proc: Path, sys: Path) -> frozenset[int]:
    """Interrupt numbers of network devices: sysfs' word for it, and the names in /proc/interrupts. Never raises.

    A device on a bus that shares its controller's interrupt (USB) has none of its own.
    """
    irqs: set[int] = set()
    names: set[str] = set()
    try:
        interfaces = sorted((sys / "class/net").iterdir())
    except OSError:
        return frozenset()
    for interface in interfaces:
        device = interface / "device"
        if not os.path.exists(device):  # noqa: PTH110  # Path's raises where a folder may not be looked into
            continue  # loopback, bridge, tunnel
        device = device.resolve()
        names |= {interface.name, device.name}
        irqs |= _irqs_of(device)
        if device.name.startswith("virtio"):  # the interrupts are those of the PCI function it stands on
            irqs |= _irqs_of(device.parent)
    return frozenset(irqs | _irqs_named(proc, names))


def _irqs_of(device: Path) -> set[int]:
    try:
        return {int(entry.name) for entry in (device / "msi_irqs").iterdir() if entry.name.isdecimal()}
    except OSError:
        pass  # no message-signalled interrupts: perhaps a wired one
    try:
        number = int((device / "irq").read_text())
    except (OSError, ValueError):
        return set()
    return {number} if number > 0 else set()


def _irqs_named(proc: Path, names: set[str]) -> set[int]:
    irqs = set()
    try:
        lines = _text(proc / "interrupts").splitlines()
    except SourceError:
        return set()
    for line in lines:
        number, colon, rest = line.partition(":")
        if not colon or not number.strip().isdecimal():
            continue
        handlers = rest.split("  ")[-1]  # "virtio2-input.0", "eth0-TxRx-1", "iwlwifi:queue_1, xhci_hcd"
        if names & set(re.split(r"[\s,@:.-]+", handlers)):
            irqs.add(int(number))
    return irqs


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_ENOUGH_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise SourceError(source=_SOURCE, reason=f"{path}: {reason_of(error)}") from error
