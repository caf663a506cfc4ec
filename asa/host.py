# SPDX-License-Identifier: GPL-2.0-only
"""Facts about this machine: what does not change while the agent runs, and whether its battery is to be saved."""

import os
from pathlib import Path


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

    Yes with the profile `low-power` (Documentation/ABI/testing/sysfs-platform_profile), and on battery when every CPU
    prefers `power` (energy_performance_preference of intel_pstate and amd_pstate): the two ways in which
    power-profiles-daemon and TuneD carry out "power saver".
    """
    profile = _word(sys / "firmware/acpi/platform_profile")
    wishes = (
        wish
        for policy in _below(sys / "devices/system/cpu/cpufreq")
        if (wish := _word(policy / "energy_performance_preference")) is not None  # a CPU that is offline says EBUSY
    )
    first = next(wishes, None)  # nearly always something else, and then the others need not be read
    if profile is None and first is None:
        return None
    if profile == "low-power":
        return True
    return first == "power" and all(wish == "power" for wish in wishes) and _on_battery(sys / "class/power_supply")


def _on_battery(supplies: Path) -> bool:
    # Documentation/ABI/testing/sysfs-class-power; the battery of a mouse or a headset has the scope "Device"
    own = [supply for supply in _below(supplies) if _word(supply / "scope") != "Device"]
    if any(_word(supply / "online") not in (None, "0") for supply in own if _word(supply / "type") != "Battery"):
        return False
    return any(_word(supply / "type") == "Battery" for supply in own)


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
