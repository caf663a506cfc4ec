# SPDX-License-Identifier: GPL-2.0-only
"""The lab tier: stand-ins for applications of the benchmark, small enough for an emulated guest.

`APPLICATIONS` lists them; an application without one plays itself in a guest too. A stand-in is one row there, a draw
of its flags, and `c/NAME.c`, which says `KIND(NAME)`: all kinds are one C program, which `build` compiles, with flags
that a seed decides here. A stand-in keeps what a scheduler sees of the program: periods and deadlines, chains of
wakeups, bursts and sleeps, forks, requests and packets. Times of work are those of a CPU of the machine while all are
busy, so that the load, as a part of the machine, is the same everywhere. docs/stand-ins.md compares them with the
programs.
"""

import random
from collections.abc import Callable, Mapping

from asa.core.kinds import OF_APPLICATION
from scenarios.application import Application, Parameters, Place, Role
from scenarios.standins import build

_THREADS = frozenset({"threads", "jobs", "random-jobs", "sequential-jobs", "streams"})
_PERIODS = frozenset({"frame-us", "period-us"})
_MOST = {"streams": 16}  # as network.c has it
_MOST_THREADS = 64  # as archive.c, disk.c and video.c have it

_Draw = Callable[[random.Random, Place], dict[str, int]]


def _web(rng: random.Random, place: Place) -> dict[str, int]:
    return {
        "threads": min(place.cpus, rng.randint(2, 4)),
        "think-ms": rng.randint(80, 300),
        "scroll-frames": rng.randint(20, 60),
        "click-us": rng.randint(3_000, 14_000),
        "sort-us": rng.randint(8_000, 60_000),
        "input-us": rng.randint(700, 3_000),
        "switch-us": rng.randint(5_000, 18_000),
        "scroll-us": rng.randint(500, 2_000),
        "raster-us": rng.randint(3_000, 10_000),
        "draw-us": rng.randint(800, 2_500),
        "chore-us": rng.randint(20, 60),
        "chores-per-s": rng.randint(80, 250),
    }


def _game(rng: random.Random, place: Place) -> dict[str, int]:
    return {
        "threads": min(place.cpus, 8),
        "frame-us": rng.choice((10_000, 13_333, 16_667)),
        "logic-us": rng.randint(1_500, 3_500),
        "raster-us": rng.randint(5_000, 11_000),  # of all threads together
        "present-us": rng.randint(500, 1_500),
        "passes": rng.randint(2, 5),
        "show-us": rng.randint(200, 800),
        "chores-per-s": rng.randint(150, 500),
        "step-ms": 50,
        "step-us": rng.randint(600, 5_000),
        "chunk-us": rng.randint(2_000, 8_000),
        "chunk-pct": rng.randint(15, 50),
    }


def _audio(rng: random.Random, place: Place) -> dict[str, int]:
    return {
        "streams": rng.randint(2, 4),  # fewer than a person mixes: in a guest each message takes ten times as long
        "tracks": rng.randint(2, 4),  # of a stream
        "period-us": rng.choice((10_000, 12_000, 15_000, 20_000)),
        "workers": rng.randint(1, min(4, place.cpus)),
        "spare": rng.randint(1, 2),  # blocks of buffer
        "track-us": rng.randint(80, 250),  # a block of a track
        "copy-us": rng.randint(10, 30),  # as the next one
        "mix-us": rng.randint(500, 2_000),  # of all, with the effect
    }


def _office(rng: random.Random, place: Place) -> dict[str, int]:
    return {
        "threads": min(place.cpus, 4),
        "think-ms": rng.randint(60, 250),
        "key-ms": rng.randint(40, 160),
        "keys": rng.randint(3, 9),
        "key-us": rng.randint(700, 3_000),
        "recalc-us": rng.randint(10_000, 30_000),
        "slide-us": rng.randint(15_000, 40_000),
        "copy-us": rng.randint(30_000, 90_000),
    }


def _archive(rng: random.Random, place: Place) -> dict[str, int]:
    threads, block_kb, ms_per_mb = rng.randint(2, max(2, place.cpus)), rng.choice((64, 128, 256)), _wide(rng, 80, 1_000)
    blocks = rng.uniform(1.0, 2.0) * threads * 1e6 / (block_kb * ms_per_mb)  # so many seconds on an idle machine
    return {
        "threads": threads,
        "block-kb": block_kb,
        "blocks": min(max(4, int(blocks)), 128),
        "compress-ms-per-mb": ms_per_mb,  # of both threads of a pair together
        "extract-ms-per-mb": rng.randint(10, 35),
    }


def _blender(rng: random.Random, place: Place) -> dict[str, int]:
    return {
        "threads": place.cpus,
        "tiles": rng.randint(24, 64),
        "tile-us": rng.randint(15_000, 50_000),
        "prepare-us": rng.randint(30_000, 150_000),
    }


def _kernel(rng: random.Random, place: Place) -> dict[str, int]:
    return {
        "jobs": rng.choice((place.cpus, place.cpus + 1, 2 * place.cpus)),
        "objects": rng.randint(12, 24),
        "object-us": rng.randint(60_000, 160_000),
        "memory-kb": rng.randint(3_000, 10_000),
        "headers": rng.randint(40, 200),
        "link-us": rng.randint(50_000, 200_000),
    }


def _llm(rng: random.Random, place: Place) -> dict[str, int]:
    return {
        "threads": place.cpus,
        "nodes": rng.randint(80, 200),
        "node-us": rng.randint(40, 160),
        "prompt-tokens": rng.randint(32, 128),
        "tokens": rng.randint(32, 96),
        "pause-ms": rng.randint(20, 200),
        "stream-kb": rng.choice((16, 32, 64)),  # a thread and node
        "weights-mb": rng.choice((16, 32, 64)),
        "spin-us": 50_000,  # hardly ever over: they do not sleep within a graph
    }


def _disk(rng: random.Random, _place: Place) -> dict[str, int]:
    return {
        "random-jobs": rng.randint(1, 4),
        "sequential-jobs": rng.randint(1, 2),
        "random-kb": rng.choice((4, 8, 16)),
        "sequential-kb": rng.choice((128, 256, 512)),
        "file-kb": rng.choice((4_096, 8_192, 16_384)),
        "read-pct": rng.randint(30, 90),
        "sync-every": rng.choice((0, 64, 256)),
        "access-us": rng.randint(300, 1_200),  # of the device that a timer plays, as slow as a guest's CPUs
        "device-mb-per-s": rng.randint(15, 50),
    }


def _network(rng: random.Random, place: Place) -> dict[str, int]:
    return {
        "cpus": place.cpus,
        "streams": rng.choice((1, 1, 2, 4)),
        "tcp-kb": rng.choice((16, 128, 512)),
        "udp-bytes": rng.choice((172, 512, 1_200, 1_400)),
        "udp-per-s": _wide(rng, 1_000, 15_000),  # less on a slower machine
        "burst-us": 1_000,
    }


def _video(rng: random.Random, place: Place) -> dict[str, int]:
    rows, row_us = rng.randint(16, 46), _wide(rng, 200, 2_400)
    pictures = rng.uniform(1.5, 4.0) * place.cpus * 1e6 / (rows * row_us)  # so many seconds on an idle machine
    return {
        "threads": rng.randint(max(1, place.cpus // 2), place.cpus * 3 // 2),
        "rows": rows,
        "row-us": row_us,
        "pictures": min(max(12, int(pictures)), 600),
        "source-us": int(rows * row_us * rng.uniform(0.05, 0.25)),
        "start-us": rng.randint(20_000, 80_000),
    }


def _wide(rng: random.Random, low: int, high: int) -> int:
    """Evenly by orders of magnitude."""
    return int(low * (high / low) ** rng.uniform(0.0, 1.0))


def _harder(drawn: dict[str, int], role: Role, place: Place) -> dict[str, int]:
    """More threads of a load, more work of an interactive application, as the place says; periods stay."""
    if role is Role.INTERACTIVE:
        work = {flag for flag in drawn if flag.endswith("-us")} - _PERIODS
        return {flag: max(1, round(value * place.effort)) if flag in work else value for flag, value in drawn.items()}
    return {
        flag: min(max(1, round(value * place.crowd)), max(value, _MOST.get(flag, _MOST_THREADS)))
        if flag in _THREADS
        else value
        for flag, value in drawn.items()
    }


def _stand_in(name: str, role: Role, draw: _Draw, *metrics: str) -> Application:
    def parameters(rng: random.Random, place: Place) -> Parameters:
        return {"seed": rng.randrange(1 << 32), **_harder(draw(rng, place), role, place)}

    def command(place: Place, given: Parameters) -> tuple[str, ...]:
        flags = [word for flag, value in given.items() for word in (f"--{flag}", str(value))]
        return (str(build.program(place)), name, *flags)

    return Application(
        name=name,
        role=role,
        kind=OF_APPLICATION.get(name),
        metrics=metrics,
        packages=build.PACKAGES,
        programs=(),  # the compiler is missed only where nothing is built yet
        draw=parameters,
        command=command,
        prepare=build.prepare,
    )


APPLICATIONS: Mapping[str, Application] = {
    one.name: one
    for one in (
        _stand_in("game", Role.INTERACTIVE, _game, "frame_ms", "fps", "mspt_ms", "chunks_per_s"),
        _stand_in("office", Role.INTERACTIVE, _office, "key_ms", "recalc_ms", "slide_ms", "copy_ms"),
        _stand_in("web", Role.INTERACTIVE, _web, "click_ms", "sort_ms", "input_ms", "tab_switch_ms", "scroll_frame_ms"),
        _stand_in("audio", Role.INTERACTIVE, _audio, "underruns_per_min", "block_pct"),
        _stand_in("archive", Role.BACKGROUND, _archive, "compress_mb_per_s", "extract_mb_per_s"),
        _stand_in("blender", Role.BACKGROUND, _blender, "tiles_per_s", "frame_s"),
        _stand_in("kernel", Role.BACKGROUND, _kernel, "objects_per_s", "total_s"),
        _stand_in("llm", Role.BACKGROUND, _llm, "first_token_ms", "tokens_per_s", "token_gap_ms"),
        _stand_in("disk", Role.BACKGROUND, _disk, "random_iops", "sequential_mb_per_s", "completion_ms"),
        _stand_in(
            "network",
            Role.BACKGROUND,
            _network,
            "tcp_mbit_per_s",
            "udp_mbit_per_s",
            "udp_loss_pct",
            "udp_jitter_ms",
        ),
        _stand_in("video", Role.BACKGROUND, _video, "frames_per_s", "total_s"),
    )
}
"""By name, as the real ones in `scenarios.interactive` and `scenarios.background`."""
