# SPDX-License-Identifier: GPL-2.0-only
"""The clocks of this machine; tests pass their own (`asa.core.ports.Clock`)."""

import time

_ATTEMPTS = 3
_SKEW_NS = 100_000


class SystemClock:
    """The Clock of this machine."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in nanoseconds."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """CLOCK_REALTIME in nanoseconds."""
        return time.time_ns()

    def suspended_ns(self) -> int | None:
        """CLOCK_BOOTTIME less CLOCK_MONOTONIC in nanoseconds (clock_gettime(2)), to 0.1 ms unless often interrupted."""
        for _ in range(_ATTEMPTS):
            before_ns = time.monotonic_ns()
            boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            if time.monotonic_ns() - before_ns <= _SKEW_NS:
                break
        return boot_ns - before_ns
