# SPDX-License-Identifier: GPL-2.0-only
"""Facts about this machine that do not change while the agent runs."""

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
