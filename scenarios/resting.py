# SPDX-License-Identifier: GPL-2.0-only
"""A machine that nothing plays on: a desktop's little housekeeping, as an application that measures nothing.

What a status bar, a sync client and a mail reader do while their user is away: they wake up each few seconds, look at
something, and go to sleep again.
"""

import math
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from scenarios.application import Application, Parameters, Place, Role
from scenarios.catalogue import IDLE
from scenarios.driving import Driver

_KINDS = ("look", "look", "look", "note", "run")


def _draw(rng: random.Random, _place: Place) -> Parameters:
    count = rng.randint(2, 6)
    return {
        "kinds": [rng.choice(_KINDS) for _ in range(count)],
        "periods_s": [round(math.exp(rng.uniform(math.log(1.0), math.log(20.0))), 2) for _ in range(count)],
        "work_ms": [round(rng.uniform(0.05, 2.0), 2) for _ in range(count)],
    }


def _housekeeping(driver: Driver, kind: str, period_s: float, work_ms: float, rng: random.Random) -> None:
    while driver.pause(period_s * rng.uniform(0.8, 1.2)):
        end_s = time.monotonic() + work_ms / 1e3
        if kind == "note":
            (driver.scratch / "note").write_text(str(end_s))
        elif kind == "run":
            subprocess.run(("true",), check=False)
        while time.monotonic() < end_s:
            Path("/proc/loadavg").read_text()


def _drive() -> None:
    driver = Driver.begin()
    given = driver.parameters
    jobs = zip(given["kinds"], given["periods_s"], given["work_ms"], strict=True)
    threads = [
        threading.Thread(target=_housekeeping, args=(driver, *job, random.Random(f"{driver.seed} {number}")))  # noqa: S311
        for number, job in enumerate(jobs)
    ]
    for thread in threads:
        thread.start()
    driver.ready({})
    for thread in threads:
        thread.join()


RESTING = Application(
    name=IDLE,
    role=Role.BACKGROUND,
    metrics=(),
    packages=("coreutils",),
    programs=("true",),
    draw=_draw,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.resting"),
    silence_limit_s=math.inf,
)
"""Not of the catalogue: nobody looks at it and nobody waits for it."""

if __name__ == "__main__":
    _drive()
