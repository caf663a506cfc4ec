# SPDX-License-Identifier: GPL-2.0-only
"""Waiting for a condition, with a deadline."""

import time

LIMIT_S = 30.0  # for what takes 1 to 3 s on two idle cores


def until(condition, what, limit_s=LIMIT_S):
    """The first true value of `condition()`, asked again and again; `what` is a text, or makes one when it fails."""
    end_s = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end_s, f"after {limit_s:g} s still not: {what() if callable(what) else what}"
        time.sleep(0.002)
