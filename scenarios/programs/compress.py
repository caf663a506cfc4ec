# SPDX-License-Identifier: GPL-2.0-only
"""Compress: pigz, Zstandard, XZ, lbzip2, Brotli and plzip pack files of the seed's and test what they have packed.

Level, threads, contents and the number of files differ from session to session. 7-Zip is
`scenarios.background.archive`.
"""

import random
from collections.abc import Callable, Iterable, Mapping

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.background.archive import fill
from scenarios.driving import Driver
from scenarios.programs.looping import Argv, Looping, draw_degree, drawn, program

_MB = 1_000_000
_LEAST_MB, _MOST_MB = 0.5, 120.0


def _draw(speeds: Mapping[int, float], *, threaded: bool) -> Callable[[random.Random, Place], Parameters]:
    """`speeds`: level -> MB/s of one thread here, which sizes the folder."""

    def draw(rng: random.Random, place: Place) -> Parameters:
        how = draw_degree(rng, place)
        level = rng.choice(tuple(speeds))
        working = min(int(how["threads"]), place.cpus) if threaded else 1
        size_mb = speeds[level] * working * float(how["pass_s"])
        return {
            **how,
            "level": level,
            "content": rng.choice(("text", "records", "mixed", "photographs")),
            "files": rng.randint(1, 3) if rng.random() < 0.6 else rng.randint(20, 150),
            "size_mb": round(min(max(size_mb, _LEAST_MB), _MOST_MB), 2),
            "tests": rng.random() < 0.5,
        }

    return draw


def _make(driver: Driver) -> None:
    given = driver.parameters
    rng = drawn(driver)
    size_bytes = round(float(given["size_mb"]) * _MB)
    fill(driver.scratch / "folder", rng, content=given["content"], files=int(given["files"]), size_bytes=size_bytes)


def _packer(
    name: str,
    suffix: str,
    speeds: Mapping[int, float],
    *,
    level: str = "-{}",
    threads: str = "",
    quiet: Argv = (),
) -> Looping:
    def steps(driver: Driver) -> Iterable[Argv]:
        given = driver.parameters
        files = sorted(str(path) for path in (driver.scratch / "folder").rglob("*.dat"))
        words = (*quiet, *((threads.format(given["threads"]),) if threads else ()))
        yield (name, "-k", "-f", level.format(given["level"]), *words, *files)
        if given["tests"]:
            yield (name, "-t", *words, *(f"{file}{suffix}" for file in files))

    return program(
        __name__,
        name=name,
        kind=Kind.COMPRESS,
        packages=("xz-utils" if name == "xz" else name,),
        draw=_draw(speeds, threaded=bool(threads)),
        steps=steps,
        make=_make,
    )


PROGRAMS = (
    _packer("pigz", ".gz", {1: 35.0, 4: 25.0, 6: 20.0, 9: 15.0}, threads="-p{}"),
    _packer("zstd", ".zst", {1: 180.0, 3: 150.0, 6: 40.0, 9: 20.0, 15: 1.5}, threads="-T{}", quiet=("-q",)),
    _packer("xz", ".xz", {0: 7.5, 1: 5.0, 3: 1.3, 6: 0.6}, threads="-T{}", quiet=("-q",)),
    _packer("lbzip2", ".bz2", {1: 8.4, 5: 8.4, 9: 8.4}, threads="-n{}", quiet=("-q",)),
    _packer("brotli", ".br", {1: 120.0, 4: 40.0, 6: 20.0, 9: 7.0, 11: 0.5}, level="--quality={}"),
    _packer("plzip", ".lz", {0: 19.0, 2: 5.0, 4: 2.0, 6: 0.9}, threads="-n{}", quiet=("-q",)),
)
"""Brotli has one thread."""
