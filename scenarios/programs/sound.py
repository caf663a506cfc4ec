# SPDX-License-Identifier: GPL-2.0-only
"""Sound: FluidSynth, Csound, SoX, mpg123 and mpv play into a sink of PulseAudio that keeps time.

Voices, effects, streams and the sink's rate differ. PulseAudio's own effects are `scenarios.interactive.audio`.
"""

import random
import subprocess
from collections.abc import Callable

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.driving import fail
from scenarios.interactive.audio import SERVER
from scenarios.programs.looping import Argv, Degree
from scenarios.programs.staged import Stage, Staged, program

_SONG_S = 3600
_BANK = "/usr/share/sounds/sf2/TimGM6mb.sf2"
_EFFECTS = (
    ("reverb", "60"),
    ("flanger",),
    ("phaser", "0.8", "0.74", "3", "0.4", "0.5", "-t"),
    ("chorus", "0.7", "0.9", "55", "0.4", "0.25", "2", "-t"),
    ("bass", "6"),
    ("pitch", "120"),
)
_FILTERS = ("aecho=0.8:0.8:60:0.4", "acompressor", "equalizer=f=900:t=q:w=1:g=3", "extrastereo", "atempo=1.1")
_STREAMS = {Degree.LIGHT: (1, 1), Degree.HALF: (2, 4), Degree.FULL: (5, 10)}


def _draw(rng: random.Random, _place: Place) -> Parameters:
    degree = rng.choice(tuple(Degree))
    many = {Degree.LIGHT: 1, Degree.HALF: 3, Degree.FULL: 8}[degree]
    return {
        "degree": degree.value,
        "rate_hz": rng.choice((44100, 48000, 96000)),
        "streams": rng.randint(*_STREAMS[degree]),
        "voices": rng.randint(4, 12) * many,
        "notes_per_s": rng.randint(2, 6) * many,
        "effects": rng.randint(1, 3) + (0 if degree is Degree.LIGHT else 2),
        "frames": rng.choice((256, 512, 1024, 2048)),  # of a buffer
        "listen_s": round(rng.uniform(1.0, 4.0), 2),
    }


def _serve(stage: Stage) -> dict[str, str]:
    """Start the server; what its clients need."""
    socket, script = stage.driver.scratch / "pulse.sock", stage.driver.scratch / "pulse.pa"
    script.write_text(
        f"load-module module-native-protocol-unix auth-anonymous=1 socket={socket}\n"
        f"load-module module-null-sink sink_name=out rate={stage.given['rate_hz']}\n"
    )
    stage.start((*SERVER, "-F", str(script)))
    stage.wait_for(socket.exists, "pulseaudio's socket")
    return {"PULSE_SERVER": f"unix:{socket}", "PULSE_LATENCY_MSEC": str(1000 * stage.given["frames"] // 44100)}


def _track(stage: Stage, suffix: str) -> str:
    """A minute of chords and noise."""
    path = stage.driver.scratch / f"track.{suffix}"
    tones = "+".join(f"0.15*sin({stage.rng.randint(60, 900)}*2*PI*t)" for _ in range(4))
    picture = ("-f", "lavfi", "-i", f"aevalsrc={tones}+0.05*random(0):d=60:s=44100")
    done = subprocess.run(("ffmpeg", "-v", "error", *picture, "-ac", "2", str(path)), capture_output=True, check=False)
    if done.returncode != 0:
        fail(f"ffmpeg makes no {path.name}: {done.stderr.decode(errors='replace').strip()[-200:]}")
    return str(path)


def _number(value: int) -> bytes:
    """Of variable length, as in Standard MIDI Files."""
    found = [value & 0x7F]
    while value := value >> 7:
        found.append(0x80 | value & 0x7F)
    return bytes(reversed(found))


def song(rng: random.Random, *, notes_per_s: int, voices: int, seconds: int) -> bytes:
    """A Standard MIDI File of format 0, whose ticks are milliseconds; never more than `voices` notes at once."""
    track = bytearray()
    for channel in range(8):
        track += b"\0" + bytes((0xC0 | channel, rng.randrange(112)))
    held: list[tuple[int, int]] = []
    for _ in range(notes_per_s * seconds):
        channel, note = rng.randrange(8), rng.randint(36, 90)
        track += _number(round(1000 / notes_per_s)) + bytes((0x90 | channel, note, rng.randint(50, 110)))
        held.append((channel, note))
        if len(held) >= voices:
            channel, note = held.pop(0)
            track += b"\0" + bytes((0x80 | channel, note, 0))
    track += b"\0\xff\x2f\0"
    tempo = b"\0\xff\x51\x03" + (1_000_000).to_bytes(3, "big")
    body = tempo + bytes(track)
    return b"MThd" + bytes((0, 0, 0, 6, 0, 0, 0, 1, 0x03, 0xE8)) + b"MTrk" + len(body).to_bytes(4, "big") + body


def _fluidsynth(stage: Stage) -> list[Argv]:
    given, path = stage.given, stage.driver.scratch / "song.mid"
    path.write_bytes(song(stage.rng, notes_per_s=given["notes_per_s"], voices=given["voices"], seconds=_SONG_S))
    rooms = ("-R", "1", "-C", "1") if given["effects"] > 2 else ("-R", "0", "-C", "0")
    how = ("-r", str(min(given["rate_hz"], 96000)), "-z", str(given["frames"]), "-c", "2")
    return [("fluidsynth", "-n", "-i", "-q", "-a", "pulseaudio", *rooms, *how, _BANK, str(path))]


_ORCHESTRA = """\
<CsoundSynthesizer>
<CsOptions>
-odac -+rtaudio=pulse -d -m0 -b{frames} -B{more}
</CsOptions>
<CsInstruments>
sr = {rate}
ksmps = 64
nchnls = 2
0dbfs = 1
instr 1
kf randomi p4, p4 * 2, 3
a1 vco2 0.02, kf
a2 moogladder a1, kf * 4, 0.4
al, ar freeverb a2, a2, 0.7, 0.4
outs al, ar
endin
</CsInstruments>
<CsScore>
{score}
</CsScore>
</CsoundSynthesizer>
"""


def _csound(stage: Stage) -> list[Argv]:
    given, path = stage.given, stage.driver.scratch / "song.csd"
    score = "\n".join(f"i1 0 {_SONG_S} {stage.rng.randint(50, 600)}" for _ in range(given["voices"]))
    frames, rate = given["frames"], min(given["rate_hz"], 48000)
    path.write_text(_ORCHESTRA.format(frames=frames, more=4 * frames, rate=rate, score=score))
    return [("csound", str(path))]


def _sox(stage: Stage) -> list[Argv]:
    track = _track(stage, "wav")
    return [
        ("sox", "-q", track, "-t", "pulseaudio", "default", "repeat", "-", *_some(stage, _EFFECTS))
        for _ in range(stage.given["streams"])
    ]


def _some(stage: Stage, effects: tuple[tuple[str, ...], ...]) -> list[str]:
    return [word for effect in stage.rng.sample(effects, stage.given["effects"]) for word in effect]


def _mpg123(stage: Stage) -> list[Argv]:
    track = _track(stage, "mp3")
    rate = str(stage.given["rate_hz"])
    return [("mpg123", "-q", "-o", "pulse", "-r", rate, "--loop", "-1", track)] * stage.given["streams"]


def _mpv(stage: Stage) -> list[Argv]:
    track = _track(stage, "flac")
    filters = ",".join(stage.rng.sample(_FILTERS, stage.given["effects"]))
    how = ("--no-config", "--no-video", "--no-terminal", "--ao=pulse", "--loop=inf", f"--af=lavfi=[{filters}]")
    return [("mpv", *how, track)] * stage.given["streams"]


def _listen(stage: Stage) -> None:
    stage.pause(stage.given["listen_s"])


def _player(
    name: str,
    packages: tuple[str, ...],
    clients: Callable[[Stage], list[Argv]],
    *,
    binary: str = "",
    version: Argv = ("--version",),
) -> Staged:
    def begin(stage: Stage) -> None:
        env = _serve(stage)
        for argv in clients(stage):
            stage.start(argv, env)

    return program(
        __name__,
        name=name,
        kind=Kind.SOUND,
        packages=(*packages, "pulseaudio", "ffmpeg"),
        programs=(binary or name, "pulseaudio", "ffmpeg"),
        draw=_draw,
        begin=begin,
        act=_listen,
        screen=False,
        version=version,
    )


PROGRAMS = (
    _player("fluidsynth", ("fluidsynth", "timgm6mb-soundfont"), _fluidsynth),
    _player("csound", ("csound",), _csound),
    _player("sox", ("sox", "libsox-fmt-pulse"), _sox),
    _player("mpg123", ("mpg123",), _mpg123),
    _player("mpv-sound", ("mpv",), _mpv, binary="mpv"),
)
