# SPDX-License-Identifier: GPL-2.0-only
"""Audio remix: several tracks with effects into a private PulseAudio whose sink plays nothing. Also its own driver.

Tracks are streams of one client, audio_data/remix.c, compiled once; it runs their effects, times each block and counts
underruns, a long one once for each period. The mixing desk behind them is LADSPA plug-ins inside PulseAudio. Neither
asks for real-time priority.
"""

import hashlib
import os
import random
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from asa.core.kinds import Kind
from scenarios.application import Application, ApplicationError, Failure, Parameters, Place, Report, Role
from scenarios.driving import Driver, fail
from scenarios.interactive.audio_tracks import INSTRUMENTS, write_tracks
from scenarios.interactive.child import Child, Voice

_DATA = Path(__file__).with_name("audio_data")
_SOURCES = ("remix.c", "effects.c", "effects.h")
_COMPILE = ("gcc", "-O3", "-std=gnu11", "-Wall", "-Wextra", "-Werror")
_LIBRARIES = ("-lpulse", "-lm", "-lpthread")
_RECIPE = "1"  # of the tracks' files

_LOOK_S = 0.5
_START_LIMIT_S = 40.0
_END_LIMIT_S = 1.5
_SOCKET_CHARACTERS = 107  # sun_path of unix(7), less its final zero

Range = tuple[float, float]

_PLUGINS: Final[dict[str, tuple[str, tuple[Range, ...]]]] = {
    # File of swh-plugins -> label, and each control's range
    "gverb_1216": ("gverb", ((10, 150), (0.5, 6), (0.2, 0.8), (0.3, 0.9), (-6, 0), (-30, -10), (-30, -10))),
    "plate_1423": ("plate", ((0.5, 6), (0.1, 0.9), (0.1, 0.5))),
    "sc4_1882": ("sc4", ((0, 1), (2, 40), (50, 400), (-24, -6), (2, 10), (2, 6), (0, 9))),
    "mbeq_1197": ("mbeq", ((-12, 6),) * 15),
    "dj_eq_1901": ("dj_eq", ((-12, 6),) * 3),
    "multivoice_chorus_1201": ("multivoiceChorus", ((2, 8), (10, 40), (0, 2), (0, 4), (2, 10), (-12, 0))),
    "valve_1209": ("valve", ((0.1, 0.8), (0.1, 0.8))),
    "fast_lookahead_limiter_1913": ("fastLookaheadLimiter", ((-6, 6), (-10, 0), (0.05, 1))),
}

_LINE = re.compile(
    r"(?:block (?P<at_ns>\d+) (?P<share>[\d.]+)"
    r"|underruns (?P<second_ns>\d+) (?P<count>\d+) (?P<tracks>\d+) (?P<seconds>[\d.]+))$"
)


def _draw(rng: random.Random, place: Place) -> Parameters:
    buses = [
        " ".join(_plugin(rng, name) for name in rng.sample(sorted(_PLUGINS), rng.randint(1, 3)))
        for _ in range(rng.randint(1, 3))
    ]
    tracks = []
    for _ in range(rng.randint(6, 16)):
        effects = "".join(rng.choices("edrchsvv", k=rng.randint(2, 7)))
        bus = rng.randint(0, len(buses))  # 0 is the sink itself
        rate_hz = rng.choice((44100, 48000, 48000))
        tracks.append(f"{bus},{rng.choice(INSTRUMENTS)},{rate_hz},{rng.uniform(0.7, 1.4):.4f},{effects}")
    return {
        "tracks": tracks,
        "buses": buses,
        "rate_hz": rng.choice((44100, 48000)),
        "resampling": rng.choice(("speex-float-1", "speex-float-3", "speex-float-5")),
        "period_us": rng.choice((10_000, 12_000, 15_000, 20_000)),
        "workers": rng.randint(1, max(1, min(4, place.cpus))),
        "turn_s": round(rng.uniform(0.5, 6.0), 2),
        "track_seed": rng.randrange(1, 2**31),
    }


def _plugin(rng: random.Random, name: str) -> str:
    label, controls = _PLUGINS[name]
    return f"{name}:{label}:" + ",".join(f"{rng.uniform(low, high):.3f}" for low, high in controls)


def _made(cache: Path) -> Path:
    """Where the client and the tracks lie; another for each recipe."""
    recipe = hashlib.sha256(" ".join((*_COMPILE, *_LIBRARIES, _RECIPE)).encode())
    for name in _SOURCES:
        recipe.update((_DATA / name).read_bytes())
    return cache / recipe.hexdigest()[:16]


def _prepare(place: Place, report: Report) -> None:
    made = _made(place.cache)
    if made.exists():
        return
    place.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=place.cache) as folder:
        new = Path(folder) / "new"
        new.mkdir()
        report("audio: compiling the client")
        sources = [str(_DATA / name) for name in _SOURCES if name.endswith(".c")]
        command = (*_COMPILE, "-o", str(new / "remix"), *sources, *_LIBRARIES)
        words = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=words)
        if done.returncode != 0:
            full = "No space left on device" in done.stderr
            raise ApplicationError(
                application="audio",
                failure=Failure.NO_SPACE if full else Failure.UNPREPARED,
                reason=f"its client cannot be compiled; run: apt-get install {' '.join(_PACKAGES)}",
                last_words=" / ".join(done.stderr.strip().splitlines()[:2])[:300],
            )
        report("audio: making the tracks")
        write_tracks(new)
        with suppress(FileExistsError):  # somebody else was as quick
            try:
                new.rename(made)
            except OSError:
                if not made.exists():
                    raise


SERVER = (
    *("pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--high-priority=no", "--realtime=no"),
    *("--use-pid-file=no", "--disallow-exit", "--log-level=error"),
)
"""A server of a session's own, without what a user has set; `-F FILE` says what it loads."""

_PACKAGES = ("pulseaudio", "swh-plugins", "gcc", "libc6-dev", "libpulse-dev")

APPLICATION = Application(
    name="audio",
    role=Role.INTERACTIVE,
    kind=Kind.SOUND,
    metrics=("underruns_per_min", "block_pct"),
    packages=_PACKAGES,
    programs=("pulseaudio", "gcc"),
    draw=_draw,
    prepare=_prepare,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.interactive.audio"),
)


def _script(driver: Driver, socket: Path) -> str:
    """What the server loads: our socket, the sink, and a chain of plug-ins before it for each bus."""
    given = driver.parameters
    lines = [
        f"load-module module-native-protocol-unix auth-anonymous=1 socket={socket}",
        f"load-module module-null-sink sink_name=bus0 rate={given['rate_hz']}",
    ]
    for bus, chain in enumerate(given["buses"], start=1):
        after = "bus0"
        for place, plugin in reversed(list(enumerate(chain.split()))):
            name, label, controls = plugin.split(":")
            sink = f"bus{bus}" if place == 0 else f"bus{bus}.{place}"
            lines.append(
                f"load-module module-ladspa-sink sink_name={sink} sink_master={after}"
                f" plugin={name} label={label} control={controls}"
            )
            after = sink
    return "\n".join((*lines, ""))


def _serve(driver: Driver, socket: Path) -> subprocess.Popen[bytes]:
    """Start the server; blocks until it takes clients, which it does when all is loaded."""
    script, log = driver.scratch / "pulse.pa", driver.scratch / "pulse.log"
    script.write_text(_script(driver, socket))
    resampling = f"--resample-method={driver.parameters['resampling']}"
    with log.open("wb") as said:
        server = subprocess.Popen(
            (*SERVER, "-F", str(script), resampling),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    waited_s = 0.0
    while not socket.exists() and server.poll() is None and waited_s < _START_LIMIT_S and driver.pause(0.05):
        waited_s += 0.05
    if not socket.exists() and not driver.ending:
        _end(server)
        fail(f"pulseaudio does not start: {log.read_text(errors='replace').strip()[-250:]}")
    return server


def _mix(driver: Driver, socket: Path) -> Child:
    given, made = driver.parameters, _made(driver.cache)
    tracks = []
    for track in given["tracks"]:
        bus, instrument, rest = track.split(",", 2)
        tracks.append(f"bus{bus},{made / instrument}.raw,{rest}")
    numbers = tuple(str(given[name]) for name in ("period_us", "workers", "turn_s", "track_seed"))
    return Child((str(made / "remix"), *numbers, *tracks), voice=Voice.OUTPUT, env={"PULSE_SERVER": f"unix:{socket}"})


def _play(driver: Driver, client: Child, server: subprocess.Popen[bytes]) -> None:
    """Report until one of the three ends; the client says nothing of the seconds in which the streams start."""
    ready = ended = False
    while not ended and driver.pause(_LOOK_S):
        ended = client.ended or server.poll() is not None
        for line in filter(None, map(_LINE.match, client.lines())):
            if not ready:
                driver.ready({"pulseaudio": _version()})
                ready = True
            if line["at_ns"]:
                driver.measured("block_pct", 100 * float(line["share"]), int(line["at_ns"]))
            else:
                per_min = 60 * int(line["count"]) / int(line["tracks"]) / float(line["seconds"])
                driver.measured("underruns_per_min", per_min, int(line["second_ns"]))


def _version() -> str:
    said = subprocess.run(("pulseaudio", "--version"), capture_output=True, text=True, check=False).stdout
    return said.strip().rpartition(" ")[2] or "unknown"


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_END_LIMIT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def main() -> None:
    """The driver."""
    driver = Driver.begin()
    socket = driver.scratch / "pulse.sock"
    if len(os.fsencode(socket)) > _SOCKET_CHARACTERS:
        fail(f"{socket}: longer than a socket's path may be; give a folder with a shorter name")
    server = _serve(driver, socket)
    try:
        client = _mix(driver, socket)
        try:
            _play(driver, client, server)
        finally:
            client.end(_END_LIMIT_S)
    finally:
        _end(server)
    if not driver.ending:
        log = (driver.scratch / "pulse.log").read_text(errors="replace").strip()
        fail(
            f"pulseaudio ended with code {server.returncode}, its client with {client.process.returncode}: {log[-250:]}"
        )


if __name__ == "__main__":
    main()
