# SPDX-License-Identifier: GPL-2.0-only
"""Web browsing with the real Chromium: every kind of page answers every action, and suffers from other load."""

import contextlib
import dataclasses
import os
import random
import signal
from pathlib import Path

import pytest
from playing import nothing_left, play, suffers_from_hogs
from waiting import until

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.interactive.web import APPLICATION, SIZES
from scenarios.session import Session

QUICK = {"window": "1024,768", "think_s": 0.05, "key_s": 0.02, "notch_s": 0.02, "notches": 6}


def quick(kinds, sizes, actions):
    given = QUICK | {"kinds": kinds, "sizes": sizes, "seeds": list(range(len(kinds))), "actions": actions}
    return dataclasses.replace(APPLICATION, draw=lambda rng, place: given)


@pytest.mark.apps
@pytest.mark.slow
def test_every_kind_of_page_is_measured_until_the_browser_dies():
    application = quick(list(SIZES), [low // 2 for low, _ in SIZES.values()], [2, 2, 2, 4, 2])
    with contextlib.ExitStack() as stack:
        place, folder = stack.enter_context(nothing_left(application))
        session = stack.enter_context(Session.start(application, seed=1, place=place, folder=folder))
        session.await_ready()
        assert int(session.versions["chromium"].partition(".")[0]) > 100
        counts = dict.fromkeys(application.metrics, 0)

        def enough():
            session.check()
            for one in session.measurements():
                assert 0 < one.value < 60_000
                counts[one.metric] += 1
            return min(counts.values()) >= 5  # 12 actions on each of five pages

        until(enough, lambda: counts, limit_s=150)
        for pid in session.members():
            with contextlib.suppress(OSError):  # it ended meanwhile
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"--type=" not in command and b"chromium/" in command:
                    os.kill(pid, signal.SIGKILL)
        with pytest.raises(ApplicationError, match="web: its driver ended") as caught:
            until(session.check, "it ends", limit_s=150)
        assert caught.value.failure is Failure.CRASHED
        assert caught.value.last_words


@pytest.mark.apps
@pytest.mark.slow
@pytest.mark.alone
def test_it_suffers_from_hogs(tmp_path):
    application = quick(["dashboard", "dashboard"], [14, 14], [2, 2, 1, 2, 2])  # each action is work for it
    suffers_from_hogs(application, seed=1, seconds=5, tmp_path=tmp_path)


@pytest.mark.apps
def test_without_fonts_it_names_the_package(tmp_path, monkeypatch):
    (tmp_path / "fonts.conf").write_text("<fontconfig><dir>/nonexistent</dir></fontconfig>")
    monkeypatch.setenv("FONTCONFIG_FILE", str(tmp_path / "fonts.conf"))
    with pytest.raises(ApplicationError, match="apt-get install fonts-dejavu-core") as caught:
        play(APPLICATION, seed=1, seconds=1, tmp_path=tmp_path)
    assert caught.value.failure is Failure.MISSING


def test_seeds_differ_in_everything_and_repeat(tmp_path):
    place = Place(cache=tmp_path, cpus=2, tier=Tier.REAL)
    drawn = [APPLICATION.draw(random.Random(seed), place) for seed in range(60)]  # noqa: S311
    assert drawn[:5] == [APPLICATION.draw(random.Random(seed), place) for seed in range(5)]  # noqa: S311
    assert all(len({str(one[name]) for one in drawn}) >= 4 for name in drawn[0])
    assert {kind for one in drawn for kind in one["kinds"]} == set(SIZES)
    assert all(min(one["actions"]) >= 1 and len(one["kinds"]) >= 2 for one in drawn)
