# SPDX-License-Identifier: GPL-2.0-only
"""What four background loads have in common: their draws, and a program's own words when it fails."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from playing import CACHE
from waiting import until

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.background import archive, disk, kernel, video
from scenarios.session import Session, place_for

APPLICATIONS = [module.APPLICATION for module in (archive, disk, kernel, video)]
IDS = [application.name for application in APPLICATIONS]


@pytest.mark.apps
@pytest.mark.parametrize(
    ("application", "wrong", "words"),
    [
        (archive.APPLICATION, {"method": "nosuch", "size_mb": 0.1}, "E_INVALIDARG"),
        (disk.APPLICATION, {"random_read_pct": 900}, "rwmixread"),
        (kernel.APPLICATION, {"configuration": "tiny", "directories": ["="]}, "empty variable name"),
        (video.APPLICATION, {"codec": "libx264", "preset": "nosuch"}, "opening encoder"),
    ],
    ids=IDS,
)
def test_a_program_that_fails_has_the_last_word(tmp_path, application, wrong, words):
    drawn = replace(application, draw=lambda rng, place: {**application.draw(rng, place), **wrong})
    place = place_for(application, cache=CACHE, tier=Tier.REAL)
    with pytest.raises(ApplicationError, match=words) as caught:
        _play(drawn, place, tmp_path)
    assert caught.value.failure is Failure.CRASHED
    assert list(tmp_path.iterdir()) == []


def _play(application, place, folder):
    with Session.start(application, seed=1, place=place, folder=folder) as session:
        session.await_ready()
        until(session.check, "it fails", limit_s=120)


def _draw(application, seed, cpus):
    place = Place(cache=Path("cache"), cpus=cpus, tier=Tier.REAL)
    return application.draw(random.Random(seed), place)  # noqa: S311


@pytest.mark.parametrize("application", APPLICATIONS, ids=IDS)
@pytest.mark.parametrize("cpus", [1, 2, 16])
def test_draws_are_plain_repeat_and_differ(application, cpus):
    draws = [json.dumps(_draw(application, seed, cpus)) for seed in (*range(100), *range(100))]
    assert draws[:100] == draws[100:]
    assert len(set(draws)) > 80


def test_every_build_has_directories():
    for seed in range(300):
        assert _draw(kernel.APPLICATION, seed, cpus=1)["directories"]


def test_files_of_the_disk_load_stay_below_a_gibibyte():
    for seed in range(300):
        drawn = _draw(disk.APPLICATION, seed, cpus=16)
        assert drawn["random_mb"] + drawn["sequential_mb"] <= 1024
