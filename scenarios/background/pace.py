# SPDX-License-Identifier: GPL-2.0-only
"""How fast work gets done, from a count that comes at uneven times: a film's frames, a build's objects. For drivers."""

import time
from collections.abc import Callable

from scenarios.driving import Driver


class Pace:
    """Says a metric of work a second once for each whole second of it, so that the samples' mean is the work's mean.

    What is left of a film or build counts for the next one; the time between `stop` and `start` does not count.
    """

    def __init__(self, driver: Driver, metric: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._metric = metric
        self._clock = clock
        self._since_s = clock()
        self._elapsed_s = 0.0
        self._count = 0

    def start(self) -> None:
        """The work goes on from now."""
        self._since_s = self._clock()

    def done(self, count: int) -> None:
        """So much more is done since the last call."""
        now_s = self._clock()
        self._elapsed_s += now_s - self._since_s
        self._since_s = now_s
        self._count += count
        seconds = int(self._elapsed_s)
        if seconds:
            for _ in range(seconds):
                self._driver.measured(self._metric, self._count / self._elapsed_s)
            self._elapsed_s, self._count = 0.0, 0
