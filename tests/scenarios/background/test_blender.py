# SPDX-License-Identifier: GPL-2.0-only
"""Blender Render: the real Blender with few samples, and what is read out of its words."""

import dataclasses
import json
import random
from pathlib import Path

import pytest
from playing import play

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.background import blender
from scenarios.driving import Driver
from scenarios.session import Session, place_for

PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)
TILE = "Fra:1 Mem:23.62M (Peak 23.79M) | Time:00:00.12 | Mem:4.67M, Peak:4.67M | Scene, ViewLayer | Rendered {} Tiles"


def with_parameters(**changed):
    """The application, with some parameters that are not drawn."""

    def draw(rng, place):
        return {**blender.draw(rng, place), **changed}

    return dataclasses.replace(blender.APPLICATION, draw=draw)


@pytest.mark.apps
def test_blender_renders_tiles_and_frames(tmp_path):
    values = play(with_parameters(samples=1, width=160, height=96, tile=16), seed=1, seconds=4, tmp_path=tmp_path)
    assert sum(values["tiles_per_s"]) > 0
    assert all(0 < frame_s < 60 for frame_s in values["frame_s"])


@pytest.mark.apps
def test_a_scene_that_cannot_be_built_ends_the_driver_with_blenders_words(tmp_path):
    application = with_parameters(format="PAINTING")
    place = place_for(application, cache=tmp_path, tier=Tier.REAL)
    with (
        pytest.raises(ApplicationError) as caught,
        Session.start(application, seed=1, place=place, folder=tmp_path) as session,
    ):
        session.await_ready()
    assert caught.value.failure is Failure.CRASHED
    assert "blender ended with code 1" in caught.value.last_words


def test_tiles_and_frames_are_read_from_blenders_words(capfd, tmp_path, monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    driver = Driver({"parameters": {}, "scratch": tmp_path, "cache": tmp_path, "seed": "blender 1", "cpus": 2})
    progress = blender.Progress(driver)
    progress.restart()
    for line in ("Fra:1 Mem:20M | Scene, ViewLayer | Initializing", TILE.format("0/3"), TILE.format("2/3")):
        progress.heard(line)
    progress.heard("asa frame 1 1.250000")  # the third tile is not told of
    progress.heard(TILE.format("1/3"))
    now_s[0] += 2.0
    progress.tell()
    progress.tell()  # too early for another
    frame, tiles = (json.loads(line) for line in capfd.readouterr().out.splitlines())
    assert (frame["metric"], frame["value"]) == ("frame_s", 1.25)
    assert tiles["metric"] == "tiles_per_s"
    assert tiles["value"] == 4 / 2.0


def test_each_seed_has_a_scene_of_its_own():
    drawn = [blender.draw(random.Random(seed), PLACE) for seed in range(200)]  # noqa: S311
    assert drawn[7] == blender.draw(random.Random(7), PLACE)  # noqa: S311
    assert len({json.dumps(one) for one in drawn}) == len(drawn)
    assert {one["scene"] for one in drawn} == {"field", "room"}
    for one in drawn:
        assert 3 <= one["threads"] <= 4
        assert one["samples"] >= 1
        tiles = -(-one["width"] // one["tile"]) * -(-one["height"] // one["tile"])
        assert 15 <= tiles <= 90
