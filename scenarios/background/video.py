# SPDX-License-Identifier: GPL-2.0-only
"""Video Render: FFmpeg encodes a short film with sound, over and over.

Pictures come from a clip that `prepare` made, or from FFmpeg's own sources; source, size, codec, preset, threads and
length differ from session to session, one session encodes the same film again and again, so that its times compare.
Frames are counted by `-progress`. Writes the film into the scratch folder.
"""

import hashlib
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from asa.core.kinds import Kind
from scenarios.application import Application, ApplicationError, Failure, Parameters, Place, Report, Role
from scenarios.background.pace import Pace
from scenarios.driving import Driver, fail
from scenarios.metric import duration, speed

_SIZES = ("640x360", "854x480", "1280x720", "1920x1080")
_RATES = (24, 25, 30, 60)
_SPEEDS = {  # codec -> preset -> millions of pixels of a CPU second here; they size the film
    "libx264": {"ultrafast": 65.0, "veryfast": 22.0, "medium": 7.4, "slow": 3.1},
    "libx265": {"ultrafast": 25.0, "fast": 9.0, "medium": 7.0},
    "libvpx-vp9": {"realtime": 40.0, "good": 6.9},
    "libsvtav1": {"12": 35.0, "10": 16.0, "8": 6.5},
}
_WEIGHTS = (5, 2, 2, 2)  # of the codecs, by how many people use them
_AUDIO = {"libx264": "aac", "libx265": "aac", "libvpx-vp9": "libopus", "libsvtav1": "libopus"}
_CLIP = "clip"
SOURCES = {  # name -> FFmpeg's description of it, and millions of pixels of a CPU second
    _CLIP: ("", 150.0),
    "pattern": ("testsrc2=size={size}:rate={rate}", 400.0),
    "grain": ("testsrc2=size={size}:rate={rate},noise=alls=12:allf=t", 300.0),
    "fractal": ("mandelbrot=size={size}:rate={rate}", 42.0),
    "life": ("life=size=320x180:rate={rate}:ratio=0.3:mold=10,scale={size}:flags=neighbor", 110.0),
    "turning": ("smptehdbars=size={size}:rate={rate},rotate=t/3", 52.0),
}
_CLIP_RECIPE = (
    *("-f", "lavfi", "-i", "mandelbrot=size=1280x720:rate=30"),
    *("-f", "lavfi", "-i", "life=size=320x180:rate=30:ratio=0.3:mold=10:seed=1,scale=640:360:flags=neighbor"),
    *("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=30,noise=alls=20:allf=t:all_seed=1"),
    *("-filter_complex", "[0][1]overlay=40:40[a];[a][2]overlay=x=mod(t*90\\,960):y=500"),
    *("-t", "8", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20"),
)
_STATS_S = 0.5
_LEAST_FRAMES = 24


def _draw(rng: random.Random, place: Place) -> Parameters:
    codec = rng.choices(tuple(_SPEEDS), _WEIGHTS)[0]
    preset = rng.choice(tuple(_SPEEDS[codec]))
    source = rng.choice((_CLIP, _CLIP, _CLIP, *SOURCES))
    size = rng.choice(_SIZES)
    width, height = map(int, size.split("x"))
    threads = rng.randint(1, max(2, place.cpus))
    speed = 1 / (1 / _SPEEDS[codec][preset] + 1 / SOURCES[source][1])
    cpu_s = rng.uniform(4.0, 8.0) * min(threads, place.cpus)
    return {
        "source": source,
        "size": size,
        "rate": rng.choice(_RATES),
        "codec": codec,
        "preset": preset,
        "threads": threads,
        "frames": max(_LEAST_FRAMES, round(cpu_s * speed * 1e6 / (width * height))),
        "audio_kbit": rng.choice((64, 96, 128, 192)),
    }


def _clip(cache: Path) -> Path:
    return cache / f"clip-{hashlib.sha256(' '.join(_CLIP_RECIPE).encode()).hexdigest()[:12]}.mkv"


def _prepare(place: Place, report: Report) -> None:
    clip = _clip(place.cache)
    if clip.exists():
        return
    report(f"making {clip}")
    try:
        place.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".clip-", dir=place.cache) as folder:
            made = Path(folder) / clip.name
            command = ("ffmpeg", "-v", "error", "-nostdin", *_CLIP_RECIPE, str(made))
            subprocess.run(command, check=True, capture_output=True, text=True)
            made.rename(clip)
    except OSError as error:
        raise _unprepared(str(error)) from error
    except subprocess.CalledProcessError as error:
        raise _unprepared(f"ffmpeg ended with code {error.returncode}", error.stderr.strip()[-300:]) from error


def _unprepared(reason: str, words: str = "") -> ApplicationError:
    full = "No space left on device" in reason + words
    failure = Failure.NO_SPACE if full else Failure.UNPREPARED
    return ApplicationError(application="video", failure=failure, reason=reason, last_words=words)


APPLICATION = Application(
    name="video",
    title="Video Render",
    role=Role.BACKGROUND,
    kind=Kind.ENCODE,
    scored=(
        speed("frames_per_s", "1/s", "frames encoded", 0.50),
        duration("total_s", "s", "the whole film", 0.50),
    ),
    packages=("ffmpeg",),
    programs=("ffmpeg",),
    draw=_draw,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.background.video"),
    prepare=_prepare,
    environment=lambda _place: {"SVT_LOG": "1"},  # errors alone
)


def command(parameters: dict[str, Any], clip: Path, film: Path) -> list[str]:
    """FFmpeg's, for one film."""
    size, rate, threads = parameters["size"], parameters["rate"], parameters["threads"]
    source, _ = SOURCES[parameters["source"]]
    pictures = ("-f", "lavfi", "-i", source.format(size=size, rate=rate))
    if parameters["source"] == _CLIP:
        pictures = ("-stream_loop", "-1", "-i", str(clip))
    return [
        *("ffmpeg", "-v", "error", "-nostdin", "-nostats", "-progress", "pipe:1", "-stats_period", str(_STATS_S), "-y"),
        *pictures,
        *("-f", "lavfi", "-i", "anoisesrc=colour=pink:amplitude=0.2:sample_rate=48000:seed=1"),
        *("-t", f"{parameters['frames'] / rate:.3f}", "-s", size, "-r", str(rate), "-pix_fmt", "yuv420p"),
        *("-c:v", parameters["codec"], *_switches(parameters["codec"], parameters["preset"], threads)),
        *("-c:a", _AUDIO[parameters["codec"]], "-b:a", f"{parameters['audio_kbit']}k", str(film)),
    ]


def _switches(codec: str, preset: str, threads: int) -> tuple[str, ...]:
    if codec == "libx264":
        return ("-preset", preset, "-threads", str(threads))
    if codec == "libx265":
        return ("-preset", preset, "-x265-params", f"log-level=error:pools={threads}")
    if codec == "libvpx-vp9":
        quick = ("-deadline", preset, "-cpu-used", "8" if preset == "realtime" else "5")
        return (*quick, "-row-mt", "1", "-threads", str(threads), "-b:v", "2M")
    return ("-preset", preset, "-svtav1-params", f"lp={threads}")


def _encode(driver: Driver, words: list[str], pace: Pace) -> None:
    begin_s = time.monotonic()
    frames = 0
    pace.start()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as ffmpeg:
        try:
            for line in ffmpeg.stdout or ():
                name, _, value = line.strip().partition("=")
                if name == "frame":
                    frames, before = int(value), frames
                    pace.done(frames - before)
        except BaseException:
            ffmpeg.kill()
            raise
    pace.done(0)
    if ffmpeg.returncode != 0:
        fail(f"ffmpeg ended with code {ffmpeg.returncode}")
    driver.measured("total_s", time.monotonic() - begin_s)


def _version() -> str:
    text = subprocess.run(("ffmpeg", "-version"), stdout=subprocess.PIPE, text=True, check=False).stdout
    found = re.match(r"ffmpeg version (\S+)", text)
    return found[1] if found else "unknown"


def main() -> None:
    """Encode until asked to end."""
    driver = Driver.begin(interrupt=True)
    words = command(dict(driver.parameters), _clip(driver.cache), driver.scratch / "film.mkv")
    driver.ready({"ffmpeg": _version()})
    pace = Pace(driver, "frames_per_s")
    while not driver.ending:
        _encode(driver, words, pace)


if __name__ == "__main__":
    main()
