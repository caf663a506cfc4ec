# SPDX-License-Identifier: GPL-2.0-only
"""Blender Render: Blender's Cycles renders the frames of an animation on the processors, one after another, unseen.

The driver reads what Blender prints of each tile and frame. The scene, which differs with the seed, is built inside
Blender by blender_data/scene.py. Writes pictures into the scratch folder; reads no display.
"""

import json
import os
import random
import re
import select
import subprocess
import sys
import time
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Role
from scenarios.driving import Driver, fail
from scenarios.metric import duration, speed

_SCENE = Path(__file__).with_name("blender_data") / "scene.py"
_SHAPES = ("monkey", "torus", "ball", "cone", "box")
_SAMPLES_PER_S = {"field": 400_000, "room": 250_000}  # of a pixel, by one thread of a server of 2023; the order only
_WINDOW_S = 1.0
_HANG_S = 30.0  # without a word from Blender; then nothing is measured any more, which the session sees
_TILE = re.compile(r"Rendered (\d+)/(\d+) Tiles")
_FRAME = re.compile(r"asa frame \d+ ([\d.]+)")


def draw(rng: random.Random, place: Place) -> Parameters:
    """A scene and the size of its pictures; on an idle machine a frame takes 1 to 5 s and has some 15 to 60 tiles."""
    threads = rng.choice((place.cpus, place.cpus, max(1, place.cpus - 1)))
    scene = rng.choice(tuple(_SAMPLES_PER_S))
    width = rng.choice((256, 320, 400, 480))
    height = rng.choice((width * 9 // 16, width * 3 // 4))
    samples = int(rng.uniform(1.0, 3.0) * threads * _SAMPLES_PER_S[scene] / (width * height))
    tiles = rng.randint(15, 60)
    return {
        "threads": threads,
        "scene": scene,
        "shapes": list(_SHAPES),
        "objects": rng.randint(10, 80),
        "subdivisions": rng.randint(1, 3),
        "glass_share": round(rng.uniform(0.0, 0.5), 2),
        "lamps": rng.randint(1, 4),
        "bounces": rng.choice((2, 4, 8)),
        "moving_share": round(rng.uniform(0.0, 0.7), 2),
        "width": width,
        "height": height,
        "samples": max(1, samples),
        "tile": max(16, int((width * height / tiles) ** 0.5)),
        "keep_scene": rng.random() < 0.5,
        "format": rng.choice(("PNG", "JPEG", "OPEN_EXR")),
    }


def command(place: Place, parameters: Parameters) -> tuple[str, ...]:  # noqa: ARG001
    """The driver."""
    return (sys.executable, "-m", "scenarios.background.blender")


APPLICATION = Application(
    name="blender",
    title="Blender Render",
    role=Role.BACKGROUND,
    kind=Kind.RENDER,
    scored=(
        speed("tiles_per_s", "1/s", "tiles rendered", 0.50),
        duration("frame_s", "s", "one whole picture", 0.50),
    ),
    packages=("blender",),
    programs=("blender",),
    draw=draw,
    command=command,
    ready_limit_s=120.0,
)


class Progress:
    """Counts tiles and frames in what Blender prints, and hands them to the driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._begin_s = time.monotonic()
        self._tiles = 0  # since then
        self._done = self._all = 0  # of this frame

    def heard(self, line: str) -> bool:
        """Take a line in; True when it tells of a tile."""
        if found := _TILE.search(line):
            done, self._all = int(found[1]), int(found[2])
            self._tiles += max(0, done - self._done)
            self._done = done
            return True
        if found := _FRAME.match(line):
            self._tiles += self._all - self._done  # the last tile is not told of
            self._done = 0
            self._driver.measured("frame_s", float(found[1]))
        return False

    def restart(self) -> None:
        """Count from now on."""
        self._begin_s, self._tiles = time.monotonic(), 0

    def tell(self) -> None:
        """Measure each second."""
        elapsed_s = time.monotonic() - self._begin_s
        if elapsed_s >= _WINDOW_S:
            self._driver.measured("tiles_per_s", self._tiles / elapsed_s)
            self.restart()


def main() -> None:
    """The driver: follow Blender until SIGTERM."""
    driver = Driver.begin(interrupt=True)
    orders = {**driver.parameters, "seed": driver.seed, "pictures": str(driver.scratch / "pictures")}
    blender = subprocess.Popen(
        (
            *("blender", "--background", "--factory-startup", "-noaudio"),
            *("--threads", str(driver.parameters["threads"]), "--python-exit-code", "1"),
            *("--python", str(_SCENE), "--", json.dumps(orders)),
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        _follow(driver, blender)
    finally:
        blender.terminate()
        blender.wait()


def _follow(driver: Driver, blender: subprocess.Popen[bytes]) -> None:
    if blender.stdout is None:
        fail("blender: no pipe to read it from")
    progress, rest, version, last, ready = Progress(driver), b"", "", "", False
    heard_s = time.monotonic()
    while True:
        if select.select([blender.stdout], [], [], _WINDOW_S)[0]:
            new = os.read(blender.stdout.fileno(), 65536)
            if not new:
                fail(f"blender ended with code {blender.wait()}; it said: {last!r}")
            heard_s = time.monotonic()
            *lines, rest = (rest + new).split(b"\n")
            for line in (one.decode(errors="replace") for one in lines):
                version, last = version or line.removeprefix("Blender ").strip(), line.strip() or last
                if progress.heard(line) and not ready:
                    ready = True
                    driver.ready({"blender": version})
                    progress.restart()
        if ready and time.monotonic() - heard_s < _HANG_S:
            progress.tell()


if __name__ == "__main__":
    main()
