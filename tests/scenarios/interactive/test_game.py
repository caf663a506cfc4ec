# SPDX-License-Identifier: GPL-2.0-only
"""Game play with the real Luanti: all it measures comes, in its time, and gets worse beside other load."""

import contextlib
import dataclasses
import os
import random
import re
import signal
import socket
import struct
import time
from pathlib import Path

import pytest
from playing import nothing_left, suffers_from_hogs
from waiting import until

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.interactive import game
from scenarios.interactive.game_screen import Screen
from scenarios.session import Session

PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)
LIGHT = {"size": "640x360", "view_nodes": 48, "map": "flat", "stand_s": 0.0, "creatures": 200, "step_s": 0.05}


def drawn(seed):
    return game.APPLICATION.draw(random.Random(seed), PLACE)  # noqa: S311


def light(**more):
    given = {**drawn(1), **LIGHT, **more}
    return dataclasses.replace(game.APPLICATION, draw=lambda rng, place: given, ready_limit_s=150)


def test_seeds_make_sessions_that_differ():
    many = [drawn(seed) for seed in range(40)]
    assert drawn(3) == many[3]
    assert all(len({one[name] for one in many}) > 1 for name in many[0])


def test_every_setting_of_the_world_is_written(tmp_path):
    game.lay_out(tmp_path, drawn(1), "seed")
    world = tmp_path / "games/asa/mods/asa"
    read = {name for path in world.glob("*.lua") for name in re.findall(r'number\("(\w+)"\)', path.read_text())}
    read |= {name for path in world.glob("*.lua") for name in re.findall(r'"asa_(\w+)"\)', path.read_text())}
    assert read == set(re.findall(r"^asa_(\w+) = \S", game._settings(drawn(1), 30_000), re.MULTILINE))
    used = {name for path in world.glob("*.lua") for name in re.findall(r"(asa_\w+\.png)", path.read_text())}
    used |= {
        f"asa_{name}.png" for name in re.findall(r'^node\("(\w+)", \{}\)', (world / "nodes.lua").read_text(), re.M)
    }
    assert used <= {path.name for path in (world / "textures").iterdir()}


def test_the_game_is_missed_under_both_its_names(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(game, "_FOLDERS", ())
    with pytest.raises(ApplicationError, match=r"luanti nor minetest .* apt-get install minetest") as caught:
        game.APPLICATION.prepare(PLACE, print)
    assert caught.value.failure is Failure.MISSING
    (tmp_path / "luanti").touch(mode=0o755)
    game.APPLICATION.prepare(PLACE, print)


def greet(screen, authority):
    """The first byte of an X server's answer: 1 for welcome."""
    name, cookie = b"MIT-MAGIC-COOKIE-1", authority[-16:]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"\0/tmp/.X11-unix/X{screen.environment['DISPLAY'][1:]}")
        client.sendall(struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(name), len(cookie)) + name + b"\0\0" + cookie)
        return client.recv(1)[0]


@pytest.mark.apps
def test_screens_take_numbers_of_their_own_and_let_nobody_else_in(tmp_path):
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    with contextlib.ExitStack() as stack:
        screens = []
        for folder in folders:
            screens.append(Screen.start(folder, width=64, height=64))
            stack.callback(screens[-1].stop)
        assert screens[0].environment["DISPLAY"] != screens[1].environment["DISPLAY"]
        keys = [(folder / "xauthority").read_bytes() for folder in folders]
        assert [greet(screens[0], key) for key in keys] == [1, 0]
        for screen in screens:
            number = screen.environment["DISPLAY"][1:]
            assert not Path(f"/tmp/.X{number}-lock").exists()  # noqa: S108
            assert not Path(f"/tmp/.X11-unix/X{number}").exists()  # noqa: S108


@pytest.mark.apps
@pytest.mark.slow
def test_it_measures_until_the_game_dies():
    application = light()
    with contextlib.ExitStack() as stack:
        place, folder = stack.enter_context(nothing_left(application))
        session = stack.enter_context(Session.start(application, seed=1, place=place, folder=folder))
        session.await_ready()
        assert session.versions["luanti"].startswith("5.")
        begin_ns, seen = time.monotonic_ns(), []

        def enough():
            session.check()
            seen.extend(session.measurements())
            return all(sum(one.metric == name for one in seen) >= 4 for name in application.metrics)

        until(enough, lambda: f"four of each: {seen[-5:]}", limit_s=150)
        frames = [one for one in seen if one.metric == "frame_ms"]
        assert all(begin_ns - 5e9 < one.at_ns <= time.monotonic_ns() for one in seen), "by our clock"
        assert all(0 < one.value < 60_000 for one in frames)
        span_ms = (frames[-1].at_ns - frames[0].at_ns) / 1e6
        assert sum(one.value for one in frames[1:]) == pytest.approx(span_ms, rel=0.02), "no frame is left out"
        assert any(one.value > 0 for one in seen if one.metric == "chunks_per_s")
        for pid in session.members():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if Path(f"/proc/{pid}/comm").read_text().strip() in ("minetest", "luanti"):
                    os.kill(pid, signal.SIGKILL)
        with pytest.raises(ApplicationError, match="game: its driver ended") as caught:
            until(session.check, "it ends", limit_s=60)
        assert "the game ended with code -9" in caught.value.last_words


@pytest.mark.apps
@pytest.mark.slow
@pytest.mark.one_cpu
def test_it_suffers_from_hogs(tmp_path):
    # faster, and further to see, than the land is made on any host: so there is always some to make
    application = light(speed=200.0, path="line", map="v7", trees=0.02, view_nodes=100)
    suffers_from_hogs(application, seed=1, seconds=10, tmp_path=tmp_path, larger=("fps", "chunks_per_s"))
