# SPDX-License-Identifier: GPL-2.0-only
"""Audio remix with the real PulseAudio: it measures blocks and underruns, and both get worse beside other load."""

import contextlib
import dataclasses
import os
import random
import signal
import time
from pathlib import Path

import pytest
from playing import CACHE, nothing_left, suffers_from_hogs
from waiting import until

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.interactive import audio
from scenarios.session import Session, place_for

PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)
SEED = 5


def drawn(seed):
    return audio.APPLICATION.draw(random.Random(seed), PLACE)  # noqa: S311


def where_of(pair):
    return dict(zip(("place", "folder"), pair, strict=True))


def test_seeds_make_sessions_that_differ():
    many = [drawn(seed) for seed in range(40)]
    assert drawn(3) == many[3]
    assert all(len({str(one[name]) for one in many}) > 1 for name in many[0])


@pytest.mark.apps
def test_the_client_is_made_whole_or_not_at_all(tmp_path, monkeypatch):
    place = dataclasses.replace(PLACE, cache=tmp_path / "cache")
    said = []
    with monkeypatch.context() as patch:
        patch.setattr(audio, "_LIBRARIES", ("-lno-such-library",))
        with pytest.raises(ApplicationError, match=r"apt-get install .*libpulse-dev.*no-such-library") as caught:
            audio.APPLICATION.prepare(place, said.append)
        assert caught.value.failure is Failure.UNPREPARED
        assert list(place.cache.iterdir()) == []
    audio.APPLICATION.prepare(place, said.append)
    (made,) = place.cache.iterdir()
    assert {path.stem for path in made.glob("*.raw")} == set(audio.INSTRUMENTS)
    said.clear()
    audio.APPLICATION.prepare(place, said.append)
    assert said == [], "it is there already"


@pytest.mark.apps
def test_a_path_too_long_for_a_socket_is_said(tmp_path):
    place = place_for(audio.APPLICATION, cache=CACHE, tier=Tier.REAL)
    with (
        Session.start(audio.APPLICATION, seed=1, place=place, folder=tmp_path / ("long" * 25)) as session,
        pytest.raises(ApplicationError, match="longer than a socket's path may be"),
    ):
        session.await_ready()


@pytest.mark.apps
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["pulseaudio", "remix"])
def test_it_measures_until_one_of_its_programs_dies(victim):
    application = audio.APPLICATION
    with contextlib.ExitStack() as stack:
        place, folder = stack.enter_context(nothing_left(application))
        session = stack.enter_context(Session.start(application, seed=SEED, place=place, folder=folder))
        session.await_ready()
        assert float(session.versions["pulseaudio"].partition(".")[0]) >= 16
        begin_ns, seen = time.monotonic_ns(), []

        def enough():
            session.check()
            seen.extend(session.measurements())
            return len([one for one in seen if one.metric == "underruns_per_min"]) >= 2 and len(seen) > 20

        until(enough, lambda: f"samples: {seen[-5:]}", limit_s=60)
        assert all(begin_ns - 5e9 < one.at_ns <= time.monotonic_ns() for one in seen), "by our clock"
        assert all(one.value > 0 for one in seen if one.metric == "block_pct")
        for pid in session.members():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if Path(f"/proc/{pid}/comm").read_text().strip() == victim:
                    os.kill(pid, signal.SIGKILL)
        with pytest.raises(ApplicationError, match="audio: its driver ended") as caught:
            until(session.check, "it ends", limit_s=60)
        assert caught.value.last_words


@pytest.mark.apps
def test_every_plugin_of_the_desk_loads():
    rng = random.Random(1)  # noqa: S311
    every = [" ".join(audio._plugin(rng, name) for name in audio._PLUGINS)]
    given = {**drawn(SEED), "buses": every, "tracks": ["1,bass,44100,1.1,edrchsv"]}
    application = dataclasses.replace(audio.APPLICATION, draw=lambda rng, place: given)
    with nothing_left(application) as where, Session.start(application, seed=1, **where_of(where)) as session:
        session.await_ready()


@pytest.mark.apps
@pytest.mark.slow
@pytest.mark.one_cpu
def test_it_suffers_from_hogs(tmp_path):
    suffers_from_hogs(audio.APPLICATION, seed=SEED, seconds=6, tmp_path=tmp_path)
