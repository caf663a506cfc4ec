# SPDX-License-Identifier: GPL-2.0-only
"""What runs where: tests/guest needs sched_ext and runs inside the lab, by tests/scenarios/test_guest.py."""

from pathlib import Path

IN_LAB = "virtme_" in Path("/proc/cmdline").read_text()
collect_ignore = [] if IN_LAB else ["guest"]
