# SPDX-License-Identifier: GPL-2.0-only
"""Watch: mpv, FFplay, GStreamer's player, Celluloid and Chromium show a film that FFmpeg makes.

Codec, resolution, frames a second and decoder's threads differ from session to session; the films are kept in the
cache, and play again and again. Now and then the person seeks or pauses. Sound goes to a sink that keeps time.
"""

import os
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.driving import fail
from scenarios.programs.browse import chromium_words
from scenarios.programs.looping import Argv, Degree
from scenarios.programs.staged import Stage, Staged, keys, program

_CODECS = {
    "h264": ("-c:v", "libx264", "-preset", "superfast"),
    "mpeg2": ("-c:v", "mpeg2video", "-q:v", "5"),
    "vp9": ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "2M"),
    "mpeg4": ("-c:v", "mpeg4", "-q:v", "5"),
}
_SIZES = {
    Degree.LIGHT: ("426x240", "640x360"),
    Degree.HALF: ("640x360", "854x480"),
    Degree.FULL: ("1280x720", "1920x1080"),
}
_SCREENS = ("1024x768", "1280x720", "1440x900")
_FILM_S = 3


def _draw(rng: random.Random, place: Place, codecs: Sequence[str] = tuple(_CODECS)) -> Parameters:
    degree = rng.choice(tuple(Degree))
    return {
        "degree": degree.value,
        "size": rng.choice(_SCREENS),
        "maximized": rng.random() < 0.6,  # the whole screen
        "codec": rng.choice(codecs),
        "film": rng.choice(_SIZES[degree]),
        "grain": rng.choice((0, 0, 12)),  # noise in the picture, which is more to decode
        "frames_per_s": rng.choice((24, 30) if degree is Degree.LIGHT else (24, 30, 50, 60)),
        "threads": rng.randint(1, max(1, min(4, place.cpus))),
        "key_s": 0.3,
        "watch_s": round(rng.uniform(1.5, 8.0), 2),  # mean, before something is pressed
        "keys": rng.choice((0, 0, 1, 2)),
    }


def film(stage: Stage) -> Path:
    """Where the film of these parameters lies, made if it is not there. Ends the driver when FFmpeg fails."""
    given, cache = stage.given, stage.driver.cache.with_name("films")  # all players share them
    name = f"{given['grain']}-{given['film']}-{given['frames_per_s']}-{given['codec']}.mkv"
    made = cache / name
    if made.exists():
        return made
    cache.mkdir(parents=True, exist_ok=True)
    picture = f"testsrc2=size={given['film']}:rate={given['frames_per_s']},noise=alls={given['grain']}:allf=t"
    inputs = ("-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", "sine=frequency=330")
    new = cache / f".{os.getpid()}.{name}"
    how = ("-t", str(_FILM_S), "-pix_fmt", "yuv420p", *_CODECS[given["codec"]], "-c:a", "libopus")
    try:
        done = subprocess.run(
            ("ffmpeg", "-v", "error", "-nostdin", "-y", *inputs, *how, str(new)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            fail(f"ffmpeg makes no {name}: {done.stderr.strip()[-200:]}")
        new.replace(made)
    finally:
        new.unlink(missing_ok=True)
    return made


def _player(
    name: str,
    package: tuple[str, ...],
    argv: Callable[[Stage, str], Argv],
    seeks: tuple[str, ...],
    version: Argv = ("--version",),
    binary: str = "",
    codecs: Sequence[str] = tuple(_CODECS),
    title: str = "",  # of its window once the film runs; "" for any
) -> Staged:
    def begin(stage: Stage) -> None:
        stage.start(argv(stage, str(film(stage))))
        if title:
            stage.wait_for(lambda: title in stage.desk.title(), "the film", 120.0)

    def act(stage: Stage) -> None:
        stage.pause(stage.given["watch_s"])
        keys(stage, seeks, stage.given["keys"])

    return program(
        __name__,
        name=name,
        kind=Kind.WATCH,
        packages=(*package, "ffmpeg"),
        programs=(binary or name, "ffmpeg"),
        draw=lambda rng, place: _draw(rng, place, codecs),
        begin=begin,
        act=act,
        version=version,
    )


def _mpv(stage: Stage, path: str) -> Argv:
    full = ("--fs",) if stage.given["maximized"] else ()
    how = ("--no-config", "--vo=x11", "--ao=null", "--loop=inf", f"--vd-lavc-threads={stage.given['threads']}")
    return ("mpv", *how, *full, path)


def _ffplay(stage: Stage, path: str) -> Argv:
    full = ("-fs",) if stage.given["maximized"] else ()
    return ("ffplay", "-v", "error", "-loop", "0", "-threads", str(stage.given["threads"]), *full, path)


def _gst(_stage: Stage, path: str) -> Argv:
    sinks = ("--videosink=ximagesink", "--audiosink=fakesink sync=true")
    return ("gst-play-1.0", "--no-interactive", *sinks, *([path] * 600))  # one after the other: an hour


def _chromium(stage: Stage, path: str) -> Argv:
    page = stage.driver.scratch / "film.html"
    page.write_text(
        "<!doctype html><title>film</title><body style='margin: 0'><video autoplay loop"
        " onplaying='document.title = \"playing\"' onerror='document.title = \"failed\"'"
        f" style='width: 100%' src='{Path(path).as_uri()}'></video>"
    )
    free = ("--autoplay-policy=no-user-gesture-required", "--mute-audio")
    return (*chromium_words(stage), *free, f"--app={page.as_uri()}")


def _celluloid(stage: Stage, path: str) -> Argv:
    threads = f"--mpv-vd-lavc-threads={stage.given['threads']}"
    return ("celluloid", "--new-window", "--mpv-ao=null", "--mpv-loop=inf", "--mpv-hwdec=no", threads, path)


_GSTREAMER = ("gstreamer1.0-plugins-base-apps", "gstreamer1.0-plugins-good", "gstreamer1.0-libav", "gstreamer1.0-x")
_MPVS = ("Left", "Right", "m", "o")

PROGRAMS = (
    _player("mpv", ("mpv",), _mpv, _MPVS),
    _player("ffplay", ("ffmpeg",), _ffplay, ("Left", "Right", "m"), ("-version",)),
    _player(
        "gst-play",
        _GSTREAMER,
        _gst,
        ("Shift_L",),
        binary="gst-play-1.0",
    ),
    _player("celluloid", ("celluloid",), _celluloid, _MPVS),
    _player(
        "chromium-film", ("chromium",), _chromium, ("m",), binary="chromium", codecs=("h264", "vp9"), title="playing"
    ),
)
