# SPDX-License-Identifier: GPL-2.0-only
"""Encode: x265, SVT-AV1, libaom, libvpx and rav1e by their own programs encode a film of the seed's.

Source, size, preset, threads and length differ from session to session. FFmpeg makes the raw film; where it encodes is
`scenarios.background.video`.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.background.video import SOURCES
from scenarios.driving import Driver
from scenarios.programs.looping import Argv, Looping, draw_degree, program, run

_SIZES = ("320x180", "640x360", "854x480", "1280x720", "1920x1080")
_RATES = (24, 30, 60)
_LEAST_FRAMES, _MOST_BYTES = 6, 120_000_000
_PIXEL_BYTES = 1.5  # of yuv420p

_Switches = Callable[[str, int, Path, str], Argv]  # preset, threads, film, where to


def _draw(speeds: Mapping[str, float]) -> Callable[[random.Random, Place], Parameters]:
    """`speeds`: preset -> millions of pixels of a CPU second here, which sizes the film."""

    def draw(rng: random.Random, place: Place) -> Parameters:
        how = draw_degree(rng, place)
        preset, size = rng.choice(tuple(speeds)), rng.choice(_SIZES)
        width, height = map(int, size.split("x"))
        working = min(int(how["threads"]), place.cpus)
        frames = round(speeds[preset] * 1e6 * working * float(how["pass_s"]) / (width * height))
        most = int(_MOST_BYTES / (width * height * _PIXEL_BYTES))
        return {
            **how,
            "preset": preset,
            "size": size,
            "rate": rng.choice(_RATES),
            "source": rng.choice([name for name, (recipe, _) in SOURCES.items() if recipe]),
            "frames": max(_LEAST_FRAMES, min(frames, most)),
        }

    return draw


def _make(driver: Driver) -> None:
    given = driver.parameters
    recipe = SOURCES[given["source"]][0].format(size=given["size"], rate=given["rate"])
    film = str(driver.scratch / "film.y4m")
    words = ("-f", "lavfi", "-i", recipe, "-frames:v", str(given["frames"]), "-pix_fmt", "yuv420p", film)
    run(("ffmpeg", "-v", "error", "-nostdin", *words))


def _encoder(name: str, package: str, speeds: Mapping[str, float], switches: _Switches, version: str) -> Looping:
    def steps(driver: Driver) -> Iterable[Argv]:
        given, film = driver.parameters, driver.scratch / "film.y4m"
        yield (name, *switches(given["preset"], int(given["threads"]), film, str(driver.scratch / "encoded")))

    return program(
        __name__,
        name=name.lower(),
        kind=Kind.ENCODE,
        packages=(package, "ffmpeg"),
        programs=(name, "ffmpeg"),
        draw=_draw(speeds),
        steps=steps,
        make=_make,
        version=(version,),
    )


def _x265(preset: str, threads: int, film: Path, out: str) -> Argv:
    return (str(film), "-o", out, "--preset", preset, "--pools", str(threads), "--log-level", "error", "--no-progress")


def _svt_av1(preset: str, threads: int, film: Path, out: str) -> Argv:
    return ("-i", str(film), "-b", out, "--preset", preset, "--lp", str(threads), "--progress", "0")


def _aom(preset: str, threads: int, film: Path, out: str) -> Argv:
    return (
        "-q",
        "--good",
        f"--cpu-used={preset}",
        f"--threads={threads}",
        "--row-mt=1",
        "--passes=1",
        "-o",
        out,
        str(film),
    )


def _vpx(preset: str, threads: int, film: Path, out: str) -> Argv:
    quality, _, speed = preset.partition("-")
    how = (f"--{quality}", f"--cpu-used={speed}", f"--threads={threads}", "--row-mt=1", "--passes=1")
    return ("-q", "--codec=vp9", *how, "-o", out, str(film))


def _rav1e(preset: str, threads: int, film: Path, out: str) -> Argv:
    return (str(film), "-o", out, "-y", "-s", preset, "--threads", str(threads), "--tiles", str(threads), "-q")


PROGRAMS = (
    _encoder("x265", "x265", {"ultrafast": 25.0, "veryfast": 13.0, "medium": 7.0}, _x265, "--version"),
    _encoder("SvtAv1EncApp", "svt-av1", {"12": 35.0, "10": 16.0, "8": 6.5}, _svt_av1, "--version"),
    _encoder("aomenc", "aom-tools", {"6": 2.5, "5": 2.0, "4": 1.4}, _aom, "--help"),
    _encoder("vpxenc", "vpx-tools", {"rt-8": 40.0, "good-5": 7.0, "good-3": 4.0}, _vpx, "--help"),
    _encoder("rav1e", "rav1e", {"10": 3.0, "8": 2.0, "6": 1.0}, _rav1e, "--version"),
)
