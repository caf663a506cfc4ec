# SPDX-License-Identifier: GPL-2.0-only
"""Tiny applications with the names and metrics of real ones, for tests of who plays them."""

import sys

from scenarios.application import Application, Role

_DRIVER = """
import sys
from scenarios.driving import Driver, fail
driver = Driver.begin()
values = driver.parameters["values"]
driver.ready({"toy": "1.2"})
count = 0
while driver.pause(0.02):
    for metric, value in values.items():
        driver.measured(metric, value)
    count += 1
    if driver.parameters["dies"] and count > 3:
        fail("the toy is broken")
"""


def toy(name, role, *, dies=False, **values):
    """Measures each of `values` 50 times a second, with a hundredth of its seed's first number added."""

    def draw(rng, place):
        drawn = rng.random()
        return {"values": {key: value + drawn / 100 for key, value in values.items()}, "dies": dies, "drawn": drawn}

    return Application(
        name=name,
        role=role,
        metrics=tuple(values),
        packages=("python3",),
        programs=("setpriv",),
        draw=draw,
        command=lambda place, parameters: (sys.executable, "-c", _DRIVER),
    )


def toys(*, broken=()):
    """Two interactive applications and two loads; those in `broken` die soon after they are ready."""
    made = (
        toy("web", Role.INTERACTIVE, dies="web" in broken, click_ms=80.0, sort_ms=100.0, scroll_frame_ms=17.0),
        toy("office", Role.INTERACTIVE, dies="office" in broken, key_ms=20.0, recalc_ms=30.0, slide_ms=40.0),
        toy("archive", Role.BACKGROUND, dies="archive" in broken, compress_mb_per_s=5.0, extract_mb_per_s=50.0),
        toy("video", Role.BACKGROUND, dies="video" in broken, frames_per_s=30.0, total_s=4.0),
    )
    return {one.name: one for one in made}
