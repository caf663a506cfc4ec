# SPDX-License-Identifier: GPL-2.0-only
"""Waiting for a condition, with a deadline."""

import time
from pathlib import Path

_IN_LAB = "virtme_" in Path("/proc/cmdline").read_text()
LIMIT_S = 150.0 if _IN_LAB else 90.0  # for what takes 1 to 3 s on two idle cores


def until(condition, what, limit_s=LIMIT_S):
    """The first true value of `condition()`, asked again and again; `what` is a text, or makes one when it fails."""
    begin_s = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited_s = time.monotonic() - begin_s
        assert waited_s < limit_s, f"after {limit_s:g} s still not: {what() if callable(what) else what}"
        time.sleep(min(0.002 + waited_s / 20, 0.25))  # asking costs what is waited for some of its time
