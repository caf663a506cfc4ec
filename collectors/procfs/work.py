# SPDX-License-Identifier: GPL-2.0-only
"""CPU time of single processes between two looks at them. It reads nothing."""

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from operator import itemgetter

from asa.core.sample import ProcessUsage

LEAST_CORES = 0.05
"""A process that uses less is not at work."""

_KEY = itemgetter(0, 1)
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

Process = tuple[int, int]
"""Its number and when it began, in ticks: together they stand for one process."""


class Work:
    """What is remembered from one look to the next. Who look at the same list share one, and are told the same."""

    def __init__(self) -> None:
        self._looked: tuple[ProcessUsage, ...] | None = None
        self._found: dict[Process, float] = {}
        self._used: dict[Process, int] = {}  # clock ticks
        self._last_ns = 0

    def there(self, process: Process) -> bool:
        """Was it among those of the last look?"""
        return process in self._used

    def gone(self, processes: AbstractSet[Process]) -> set[Process]:
        """Those that were not."""
        return set(processes - self._used.keys())

    def cores(self, processes: tuple[ProcessUsage, ...], now_ns: int) -> Mapping[Process, float]:
        """Those that have used the CPU since the last look, and how much of it; at the first look nothing is known.

        `now_ns` is CLOCK_MONOTONIC.
        """
        if processes is not self._looked:
            self._looked, self._found = processes, self._since(processes, now_ns)
        return self._found

    def _since(self, followed: tuple[ProcessUsage, ...], now_ns: int) -> dict[Process, float]:
        before, passed = self._used, (now_ns - self._last_ns) / 1e9 * _TICKS_A_SECOND
        began, self._last_ns = self._last_ns != 0, now_ns
        # by place, and the keys in C: in a third of the time
        self._used = {key: one[2] + one[3] for key, one in zip(map(_KEY, followed), followed, strict=True)}
        if not began or passed <= 0:
            return {}
        found, youngest = {}, None
        for key, used in self._used.items():
            earlier = before.get(key)
            if earlier is None:
                if youngest is None:  # seldom: most ticks have nobody new
                    youngest = max([started for _, started in before], default=0)
                earlier = 0 if key[1] > youngest else used  # it began since then, or is new here
            if used > earlier:
                found[key] = (used - earlier) / passed
        return found
