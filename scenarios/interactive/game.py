# SPDX-License-Identifier: GPL-2.0-only
"""Game play: Luanti (once Minetest) on a screen in memory, its world new in each session. Also its own driver.

The game in game_data/world carries the player through the land, with creatures about him, while he builds and digs;
the client's mod in game_data/frames times each frame. `mspt_ms` is the mean of each second's steps of the server, from
the engine's profiler; a chunk is a block of 16 x 16 x 16 nodes that came to the client. Linux alone: the mod's clock is
CLOCK_MONOTONIC_RAW.
"""

import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asa.core.kinds import Kind
from scenarios.application import Application, ApplicationError, Failure, Parameters, Place, Report, Role
from scenarios.driving import Driver, fail
from scenarios.interactive.child import Child, Voice
from scenarios.interactive.game_screen import Screen, ScreenError
from scenarios.interactive.game_textures import write_textures

_DATA = Path(__file__).with_name("game_data")
_PACKAGES = ("minetest", "xvfb", "libgl1-mesa-dri")
_NAMES = ("luanti", "minetest")  # its name since 5.10, and before
_FOLDERS = ("/usr/games", "/usr/local/games")  # of Debian; root's PATH does not name them

_LOOK_S = 0.5
_END_LIMIT_S = 1.0
_STARTS = 3  # another program may take the port between our look and the game's
_LEAST_BLOCKS = 20  # of the world that are there before it counts as started

_SIZES = ("640x360", "800x450", "800x600", "1024x576")

_LAND = {
    "v7": "mgv7_spflags = nomountains, ridges, nofloatlands, nocaverns",
    "v5": "mgv5_spflags = nocaverns",
    "valleys": "mgvalleys_spflags = altitude_chill, humid_rivers",
    "carpathian": "mgcarpathian_spflags = nocaverns, rivers",
    "flat": "mgflat_spflags = hills, lakes",
}

_SETTINGS = """\
address =
bind_address = 127.0.0.1
csm_restriction_flags = 0
debug_log_level = none
default_privs = interact, shout, fly, fast, noclip
enable_client_modding = true
enable_damage = false
creative_mode = true
enable_ipv6 = false
enable_sound = false
free_move = true
fullscreen = false
node_highlighting = none
pause_on_lost_focus = false
profiler_print_interval = 1
serverlist_url =
update_last_checked = disabled
server_announce = false
static_spawnpoint = 0,40,0
time_speed = 0
world_start_time = 12000
"""

_WORLD = """\
gameid = asa
world_name = asa
backend = sqlite3
player_backend = sqlite3
auth_backend = sqlite3
mod_storage_backend = sqlite3
"""

_LINE = re.compile(r"\[asa\] (?P<at_us>\d+) (?P<blocks>\d+)(?P<frames>[ .\d]*)$")
_STEP = re.compile(r"Server::AsyncRunStep\(\) \[(?P<unit>ms|us)\][ ._]*?\s(?P<steps>\d+)x\s+(?P<mean>[.\d]+)")


def _draw(rng: random.Random, place: Place) -> Parameters:
    view = rng.choice((48, 64, 80, 100))
    return {
        "size": rng.choice(_SIZES),
        "frames_max": rng.choice((60, 60, 75, 144, 500)),
        "view_nodes": view,
        "draw_threads": rng.randint(1, max(1, min(4, place.cpus))),
        "smooth_lighting": rng.random() < 0.7,
        "leaves": rng.choice(("simple", "fancy", "opaque")),
        "clouds": rng.random() < 0.5,
        "map": rng.choice(tuple(_LAND)),
        "map_seed": rng.randrange(1, 2**31),
        "trees": round(rng.uniform(0.002, 0.02), 4),
        "path": rng.choice(("line", "circle", "wander")),
        "speed": round(rng.uniform(6.0, 20.0), 1),
        "altitude": rng.randint(5, 14),
        "pitch": round(rng.uniform(0.3, 0.6), 2),
        "sweep": round(rng.uniform(0.1, 0.8), 2),
        "sweep_s": round(rng.uniform(2.0, 9.0), 1),
        "walk_s": round(rng.uniform(8.0, 40.0), 1),
        "stand_s": round(rng.uniform(0.0, 3.0), 1),
        "creatures": rng.choice((0, 20, 60, 120, 200)),
        "edits_per_s": rng.choice((0, 1, 4, 12)),
        "step_s": rng.choice((0.05, 0.09)),
    }


def _program() -> str | None:
    folders = os.pathsep.join((os.environ.get("PATH", os.defpath), *_FOLDERS))
    return next((found for name in _NAMES if (found := shutil.which(name, path=folders))), None)


def _prepare(place: Place, report: Report) -> None:  # noqa: ARG001  # nothing is made, but its name differs by release
    if _program() is None:
        reason = f"neither luanti nor minetest is installed; run: apt-get install {' '.join(_PACKAGES)}"
        raise ApplicationError(application="game", failure=Failure.MISSING, reason=reason)


APPLICATION = Application(
    name="game",
    role=Role.INTERACTIVE,
    kind=Kind.PLAY,
    metrics=("frame_ms", "fps", "mspt_ms", "chunks_per_s"),
    packages=_PACKAGES,
    programs=("Xvfb",),
    draw=_draw,
    prepare=_prepare,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.interactive.game"),
)


def lay_out(home: Path, given: Mapping[str, Any], seed: str) -> None:
    """Write the game, the client's mod and an empty world below the user's folder of Luanti."""
    game, world = home / "games/asa", home / "worlds/asa"
    shutil.copytree(_DATA / "world", game / "mods/asa")
    (game / "game.conf").write_text("title = ASA\nname = ASA\n")
    write_textures(game / "mods/asa/textures", random.Random(seed))  # noqa: S311
    shutil.copytree(_DATA / "frames", home / "clientmods/asaframes")
    (home / "clientmods/mods.conf").write_text("load_mod_asaframes = true\n")
    world.mkdir(parents=True)
    (world / "world.mt").write_text(_WORLD)
    (world / "map_meta.txt").write_text(
        f"mg_name = {given['map']}\nseed = {given['map_seed']}\nwater_level = 1\nchunksize = 5\n"
        f"mg_flags = caves, nodungeons, light, decorations, biomes, ores\n{_LAND[given['map']]}\n[end_of_params]\n"
    )


def _settings(given: Mapping[str, Any], port: int) -> str:
    width, height = given["size"].split("x")
    own = {
        "fps_max": given["frames_max"],
        "fps_max_unfocused": given["frames_max"],
        "screen_w": width,
        "screen_h": height,
        "viewing_range": given["view_nodes"],
        "smooth_lighting": _word(given["smooth_lighting"]),
        "leaves_style": given["leaves"],
        "enable_clouds": _word(given["clouds"]),
        "enable_shaders": "false",
        "dedicated_server_step": given["step_s"],
        "port": port,
        "asa_seed": given["map_seed"] % 100_000,
        "asa_ahead": given["view_nodes"] // 2,
    }
    for name in ("trees", "path", "speed", "altitude", "pitch", "sweep", "sweep_s", "walk_s", "stand_s", "creatures"):
        own[f"asa_{name}"] = given[name]
    own["asa_edits_per_s"] = given["edits_per_s"]
    return _SETTINGS + "".join(f"{name} = {value}\n" for name, value in own.items())


def _word(yes: bool) -> str:
    return "true" if yes else "false"


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _start(driver: Driver, program: str, home: Path, screen: Screen) -> Child:
    (home / "minetest.conf").write_text(_settings(driver.parameters, _free_port()))
    given = {
        **screen.environment,
        "MINETEST_USER_PATH": str(home),  # of releases from 5.7 on
        "LUANTI_USER_PATH": str(home),
        "LIBGL_ALWAYS_SOFTWARE": "1",
        "LP_NUM_THREADS": str(driver.parameters["draw_threads"]),
    }
    place = ("--world", str(home / "worlds/asa"), "--config", str(home / "minetest.conf"))
    words = (program, "--go", "--gameid", "asa", "--name", "player", "--info", *place)
    return Child(words, voice=Voice.ERRORS, env=given)


def _play(driver: Driver, game: Child, version: str) -> list[str]:
    """Report until the end; the last errors in the game's log, should it have ended itself."""
    raw_behind_ns = time.monotonic_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    blocks, last_us = 0, 0
    ready = ended = False
    errors: list[str] = []
    while not ended and driver.pause(_LOOK_S):
        ended = game.ended
        for line in game.lines():
            step, second = _STEP.search(line), _LINE.search(line)
            if "ERROR[" in line:
                errors = [*errors[-2:], line.strip()]
            if step and ready:
                driver.measured("mspt_ms", float(step["mean"]) / (1000 if step["unit"] == "us" else 1))
            if not second:
                continue
            at_us, new = int(second["at_us"]), int(second["blocks"])
            blocks += new
            if ready:
                _report(driver, [float(one) for one in second["frames"].split()], at_us * 1000 + raw_behind_ns)
                driver.measured("chunks_per_s", new * 1e6 / (at_us - last_us), at_us * 1000 + raw_behind_ns)
            elif blocks >= _LEAST_BLOCKS:
                driver.ready({"luanti": version})
                ready = True
            last_us = at_us
    return errors


def _report(driver: Driver, frames_ms: list[float], end_ns: int) -> None:
    if not frames_ms:
        return
    driver.measured("fps", 1000 * len(frames_ms) / sum(frames_ms), end_ns)
    at_ns = end_ns - int(sum(frames_ms) * 1e6)
    for frame_ms in frames_ms:
        at_ns += int(frame_ms * 1e6)
        driver.measured("frame_ms", frame_ms, at_ns)


def main() -> None:
    """The driver."""
    driver = Driver.begin()
    program = _program()
    if program is None:
        fail("neither luanti nor minetest is installed")
    said = subprocess.run((program, "--version"), capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+\.\d+[^\s(]*", said)
    home = driver.scratch / ".minetest"  # where it looks below HOME unless told by the two variables
    lay_out(home, driver.parameters, driver.seed)
    width, height = (int(part) for part in driver.parameters["size"].split("x"))
    try:
        screen = Screen.start(driver.scratch, width=width, height=height)
    except ScreenError as error:
        fail(str(error))
    try:
        for _ in range(_STARTS):
            game = _start(driver, program, home, screen)
            try:
                errors = _play(driver, game, found[0] if found else "unknown")
            finally:
                game.end(_END_LIMIT_S)  # it would write its world; nobody needs that
            if driver.ending or "bind" not in " ".join(errors).lower():
                break
    finally:
        screen.stop()
    if not driver.ending:
        fail(f"the game ended with code {game.process.returncode}: {' / '.join(errors)}")


if __name__ == "__main__":
    main()
