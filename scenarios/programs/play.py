# SPDX-License-Identifier: GPL-2.0-only
"""Play: Extreme Tux Racer, Chromium B.S.U., Armagetron and Neverball, drawn without a GPU.

What is played is what keys and clicks make of the menus: new games, demonstrations, lost games. Resolution, threads of
the renderer and how quickly somebody plays differ. Luanti is `scenarios.interactive.game`.
"""

import random
from collections.abc import Callable, Mapping, Sequence

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.programs.looping import Argv
from scenarios.programs.staged import Stage, Staged, draw_person, keys, program

_FOLDER = "/usr/games"  # of Debian; root's PATH does not name it
_ARROWS = ("Left", "Right", "Up", "Down", "space")


def _draw(rng: random.Random, place: Place) -> Parameters:
    return {
        **draw_person(rng),
        "maximized": False,  # games choose their window themselves
        "draw_threads": rng.randint(1, max(1, min(4, place.cpus))),
        "keys": rng.randint(5, 25),  # of a pass
        "confirms": round(rng.uniform(0.05, 0.3), 2),  # how often Return is pressed among them
    }


def _game(
    name: str,
    *,
    argv: Callable[[Stage], Argv] | None = None,
    env: Mapping[str, str] | None = None,
    package: str = "",
    binary: str = "",
    play: Sequence[str] = _ARROWS,
    version: Argv = (),
) -> Staged:
    path = f"{_FOLDER}/{binary or name}"

    def begin(stage: Stage) -> None:
        threads = {"LP_NUM_THREADS": str(stage.given["draw_threads"])}
        stage.start(
            (path, *(argv(stage) if argv else ())), {**threads, **(env or {})}, again=True
        )  # menus have an entry to quit

    def act(stage: Stage) -> None:
        for _ in range(stage.given["keys"]):
            if stage.rng.random() < stage.given["confirms"]:
                stage.desk.key("Return")
            keys(stage, play, 1)
        if stage.rng.random() < 0.3:
            stage.desk.click(0.5, stage.rng.uniform(0.3, 0.8))
        stage.pause(stage.given["think_s"])

    return program(
        __name__,
        name=name,
        kind=Kind.PLAY,
        packages=(package or name, "libgl1-mesa-dri"),
        programs=(path,),
        draw=_draw,
        begin=begin,
        act=act,
        version=version,
    )


PROGRAMS = (
    _game("etr", package="extremetuxracer"),
    _game("chromium-bsu", argv=lambda _stage: ("--window", "--noaudio"), version=("--version",)),
    _game("armagetronad", argv=lambda _stage: ("-window",), version=("--version",)),
    _game("neverball"),
)
