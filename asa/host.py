# SPDX-License-Identifier: GPL-2.0-only
"""Facts about this machine: what does not change while the agent runs; is it on battery, and is that to be saved?"""

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
    return first == "power" and all(wish == "power" for wish in wishes) and bool(on_battery(sys))


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
