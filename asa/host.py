# SPDX-License-Identifier: GPL-2.0-only
"""Facts about this machine: what does not change while the agent runs; is it on battery, and is that to be saved?"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

_SAME_KIND = 0.9  # first choice: favoured cores of a kind are some percent faster, those of another kind a fifth
_Count = Annotated[int, Meta(ge=1, le=1_000_000)]


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Cores of about one speed. None is unknown."""

    cores: _Count
    max_mhz: _Count | None = None  # of the fastest of them
    capacity: _Count | None = None  # the kernel's measure, where cores differ by it: 1024 is the fastest


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What tells a machine from another. None is unknown."""

    cpu_model: str | None = None
    cpus: _Count | None = None  # online, as the kernel counts them: threads
    cores: _Count | None = None
    smt: bool | None = None  # some core runs two threads or more
    kinds: tuple[Kind, ...] | None = None  # the fastest first
    caches: _Count | None = None  # domains of the last level: CPUs that share one
    memory_gb: Annotated[float, Meta(gt=0.0)] | None = None  # 10^9 bytes that the kernel manages
    kernel: str | None = None  # its release


def facts(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Facts:
    """This machine's, of the CPUs that are online.

    By Documentation/ABI/stable/sysfs-devices-system-cpu and, for caches, capacity and frequencies,
    Documentation/ABI/testing/sysfs-devices-system-cpu.
    """
    folder = sys / "devices/system/cpu"
    online = [folder / f"cpu{number}" for number in _listed(_word(folder / "online") or "")]
    cores: dict[str, Path] = {}  # CPUs of a core -> the first of them
    for cpu in online:
        cores.setdefault(_word(cpu / "topology/core_cpus_list") or "", cpu)
    known = bool(cores) and "" not in cores
    return Facts(
        cpu_model=cpu_model(proc),
        cpus=len(online) or None,
        cores=len(cores) if known else None,
        smt=len(cores) < len(online) if known else None,
        kinds=_kinds(tuple(cores.values())) if known else None,
        caches=_cache_domains(online),
        memory_gb=_memory_gb(proc),
        kernel=_word(proc / "sys/kernel/osrelease") or None,
    )


def cpu_model(proc: Path = Path("/proc")) -> str:
    """The first "model name" of /proc/cpuinfo (x86), else the machine's architecture."""
    try:
        with (proc / "cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    return value.strip()
    except OSError:
        pass  # no /proc: the architecture has to do
    return os.uname().machine


def cpus() -> int:
    """Online CPUs."""
    return os.cpu_count() or 1


def capabilities(status: str) -> int | None:
    """A process's effective ones by its /proc/PID/status, a bit each; None where that does not tell.

    capabilities(7), proc_pid_status(5).
    """
    found = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.MULTILINE)
    return int(found[1], 16) if found is not None else None


def kernel_option(name: str, *, boot: Path = Path("/boot"), release: str | None = None) -> str | None:
    """Value of a kernel option (`y`, `m`, `n`) in /boot/config-RELEASE; None when that file is not there."""
    path = boot / f"config-{release or os.uname().release}"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(f"{name}="):
            return line.partition("=")[2]
    return "n"


def battery_saver(sys: Path = Path("/sys")) -> bool | None:
    """Is energy to be saved now? None where neither a platform profile nor a preference of the CPUs can tell.

    Yes with a profile below `balanced` (SAVING), and on battery when every CPU prefers `power`
    (energy_performance_preference of intel_pstate and amd_pstate): the two ways in which power-profiles-daemon and
    TuneD carry out "power saver". A laptop has `low-power`, `quiet` or `cool`, as its firmware has it.
    """
    profiles = _platform_profiles(sys)
    wishes = (
        wish
        for policy in _below(sys / "devices/system/cpu/cpufreq")
        if (wish := _word(policy / "energy_performance_preference")) is not None  # a CPU that is offline says EBUSY
    )
    first = next(wishes, None)  # nearly always something else, and then the others need not be read
    if not profiles and first is None:
        return None
    if profiles and profiles <= SAVING:
        return True
    return _saves(first) and all(map(_saves, wishes)) and bool(on_battery(sys))


SAVING = frozenset({"low-power", "cool", "quiet"})
"""Platform profiles below `balanced`. The others are balanced, balanced-performance, performance, max-power and custom
(Documentation/ABI/testing/sysfs-platform_profile, sysfs-class-platform-profile)."""

_CUSTOM = "custom"  # what the driver, or the drivers together, are set to has no name
_BALANCE_POWER = 192  # intel_pstate's number for it; of numbers, which it takes too, 255 saves the most


def _platform_profiles(sys: Path) -> set[str]:
    """Of the machine, or of each driver where they differ (Linux 6.14 on, where the first says `custom`)."""
    whole = _word(sys / "firmware/acpi/platform_profile")
    if whole and whole != _CUSTOM:
        return {whole}
    each = {_word(handler / "profile") for handler in _below(sys / "class/platform-profile")}
    named = {profile for profile in each if profile and profile != _CUSTOM}
    return named or ({_CUSTOM} if whole or each - {None, ""} else set())


def _saves(wish: str | None) -> bool:
    return wish == "power" or (wish is not None and wish.isdecimal() and int(wish) > _BALANCE_POWER)


def on_battery(sys: Path = Path("/sys")) -> bool | None:
    """Does nothing feed this machine but its battery? None where the kernel knows of no supply at all.

    By Documentation/ABI/testing/sysfs-class-power; the battery of a mouse or a headset has the scope "Device". Some
    laptops show no supply when they are fed by USB-C: then a battery that is full, or is charged, tells it. Of two
    batteries one may rest while the other is drawn on.
    """
    own = [supply for supply in _below(sys / "class/power_supply") if _word(supply / "scope") != "Device"]
    kinds = [(_word(supply / "type"), supply) for supply in own]
    if not own:
        return None
    if any(_word(supply / "online") not in (None, "0") for kind, supply in kinds if kind != "Battery"):
        return False
    states = {_word(supply / "status") for kind, supply in kinds if kind == "Battery"}
    return bool(states) and ("Discharging" in states or not states & {"Charging", "Full", "Not charging"})


def _kinds(cores: Sequence[Path]) -> tuple[Kind, ...] | None:
    """By the kernel's capacity where that differs, else by the highest frequency; None where neither tells."""
    capacities = [_number(core / "cpu_capacity") for core in cores]
    speeds_khz = [_number(core / "cpufreq/cpuinfo_max_freq") for core in cores]
    by_capacity = len(set(capacities)) > 1 and None not in capacities
    measure = [value or 0 for value in (capacities if by_capacity else speeds_khz)]
    if not all(measure):
        return None
    groups: list[list[int]] = []
    for place in sorted(range(len(cores)), key=lambda place: -measure[place]):
        if groups and measure[place] >= _SAME_KIND * measure[groups[-1][0]]:
            groups[-1].append(place)
        else:
            groups.append([place])
    return tuple(
        Kind(
            cores=len(group),
            max_mhz=max(speeds_khz[place] or 0 for place in group) // 1000 or None,
            capacity=measure[group[0]] if by_capacity else None,
        )
        for group in groups
    )


def _cache_domains(cpus: Sequence[Path]) -> int | None:
    found = set()
    for cpu in cpus:
        levels = [
            (level, _word(index / "shared_cpu_list") or "")
            for index in _below(cpu / "cache")
            if (level := _number(index / "level")) is not None and _word(index / "type") != "Instruction"
        ]
        found.add(max(levels, default=(0, "")))
    return len(found) if found and all(sharing for _, sharing in found) else None


def _memory_gb(proc: Path) -> float | None:
    for line in (_word(proc / "meminfo") or "").splitlines():
        words = line.split()
        if words[:1] == ["MemTotal:"] and len(words) > 1 and words[1].isdecimal():
            return round(int(words[1]) * 1024 / 1e9, 1) or None
    return None


def _listed(text: str) -> list[int]:
    """`0-3,8` as the kernel lists CPUs; empty for anything else."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            return []
        found.extend(range(int(first), int(last or first) + 1))
    return found


def _number(path: Path) -> int | None:
    text = _word(path) or ""
    return int(text) if text.isdecimal() else None


def _word(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _below(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
