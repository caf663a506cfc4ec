# SPDX-License-Identifier: GPL-2.0-only
"""FFmpeg encodes films; under no policy that a sched_ext scheduler does not see."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from playing import CACHE, play
from waiting import until

from scenarios.application import Tier
from scenarios.background.video import APPLICATION
from scenarios.session import Session, place_for


def _small(**changes):
    def draw(rng, place):
        given = {"source": "clip", "size": "640x360", "codec": "libx264", "preset": "veryfast", "frames": 150}
        return {**APPLICATION.draw(rng, place), **given, **changes}

    return replace(APPLICATION, draw=draw)


@pytest.mark.apps
def test_encodes_again_and_again(tmp_path):
    values = play(_small(), seed=1, seconds=1, tmp_path=tmp_path, metrics=("total_s",), least=2)
    assert max(values["frames_per_s"]) > 0


@pytest.mark.apps
@pytest.mark.parametrize(
    ("codec", "preset", "source"),
    [("libsvtav1", "8", "pattern"), ("libx265", "fast", "life"), ("libvpx-vp9", "realtime", "turning")],
)
def test_no_thread_leaves_the_ordinary_policy(tmp_path, codec, preset, source):
    application = _small(codec=codec, preset=preset, source=source, frames=60, threads=2)
    place = place_for(application, cache=CACHE, tier=Tier.REAL)
    with Session.start(application, seed=1, place=place, folder=tmp_path) as session:
        session.await_ready()
        seen = []

        def a_film_is_done():
            seen.extend(_policies(pid for pid in session.members() if _is_ffmpeg(pid)))
            session.check()
            return any(one.metric == "total_s" for one in session.measurements())

        until(a_film_is_done, "a film", limit_s=150)
    assert len(seen) > 5
    assert set(seen) == {os.SCHED_OTHER}


def _is_ffmpeg(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text() == "ffmpeg\n"
    return False


def _policies(pids):
    for pid in pids:
        with suppress(OSError):  # it ended meanwhile
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):
                    yield os.sched_getscheduler(int(thread.name))
