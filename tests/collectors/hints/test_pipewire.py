# SPDX-License-Identifier: GPL-2.0-only
"""PipeWire's streams: of dumps that a real PipeWire 0.3.65 gave (players, recorders and a meter), and of pw-dumps that
fail, lie or stand still."""

import contextlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from collectors.hints import pipewire
from collectors.hints.pipewire import ROUND_NS, PipeWire, Streams, errors_of, streams_of

DUMPS = Path(__file__).parents[1] / "data/pipewire"
TOP = b"""\
S   ID  QUANT   RATE    WAIT    BUSY   W/Q   B/Q  ERR FORMAT           NAME\x20
C   43      0      0    ---     ---   ---   ---     0                  nul
C   48      0      0    ---     ---   ---   ---     0                  pw-cat
S   ID  QUANT   RATE    WAIT    BUSY   W/Q   B/Q  ERR FORMAT           NAME\x20
S   30      0      0    ---     ---   ---   ---     0                  Dummy-Driver
R   43     64  48000  14.1us   2.7us  0.01  0.00    1     F32P 2 48000 nul
R   48     64  48000  44.8us   3.8us  0.03  0.00 1206    S16LE 2 48000  + pw-cat
"""  # `pw-top -b -n 2` of PipeWire 1.4.2
QUIET = Streams(playing=False, recording=False, latency_ms=None)


def node(state="running", **props):
    return {"id": 7, "type": "PipeWire:Interface:Node", "info": {"state": state, "props": props}}


def of(*objects):
    return streams_of(json.dumps(objects).encode())


def test_what_a_real_one_plays_and_listens_to():
    playing = streams_of((DUMPS / "playing.json").read_bytes())
    assert (playing.playing, playing.recording) == (True, False)  # pw-cat recorded what was played
    assert playing.latency_ms == pytest.approx(256 / 48)
    assert streams_of((DUMPS / "after.json").read_bytes()) == QUIET


@pytest.mark.parametrize(
    ("kind", "more", "playing", "recording"),
    [
        ("Stream/Output/Audio", {}, True, False),
        ("Stream/Input/Audio", {}, False, True),
        ("Stream/Input/Video", {}, False, True),
        ("Stream/Input/Audio", {"stream.monitor": True}, False, False),
        ("Stream/Input/Audio", {"stream.monitor": "true"}, False, False),
        ("Stream/Input/Audio", {"stream.capture.sink": True}, False, False),
        ("Audio/Sink", {}, False, False),
        ("Stream/Output/Video", {}, False, False),
    ],
)
def test_kinds_of_streams(kind, more, playing, recording):
    found = of(node(**{"media.class": kind}, **more))
    assert (found.playing, found.recording) == (playing, recording)
    assert of(node("idle", **{"media.class": kind}, **more)) == QUIET


def test_the_shortest_latency_that_is_asked_for():
    kinds = [{"media.class": "Stream/Output/Audio", "node.latency": text} for text in ("1024/48000", "64/48000", "x/0")]
    assert of(*(node(**one) for one in kinds)).latency_ms == pytest.approx(64 / 48)
    assert of(node(**{"media.class": "Stream/Input/Video", "node.latency": "1/48000"})).latency_ms is None


def settings(name="settings", **values):
    """As PipeWire 1.4.2 of Debian 13 prints them."""
    rows = [
        {"subject": 0, "key": f"clock.{key}".replace("_", "-"), "type": "", "value": value}
        for key, value in values.items()
    ]
    rows.append({"subject": 0, "key": "clock.allowed-rates", "type": "", "value": "[ 48000 ]"})
    return {"id": 32, "type": "PipeWire:Interface:Metadata", "props": {"metadata.name": name}, "metadata": rows}


def test_a_forced_quantum_is_in_force_for_all_that_sounds():
    forced = settings(rate=48000, force_quantum=64, force_rate=0)
    player = node(**{"media.class": "Stream/Output/Audio", "node.latency": "1024/48000"})
    assert of(forced, player).latency_ms == of(player, forced).latency_ms == pytest.approx(64 / 48)
    assert of(settings(rate=48000, force_quantum=64, force_rate=96000), player).latency_ms == pytest.approx(64 / 96)
    assert of(forced, node(**{"media.class": "Stream/Input/Video"})).latency_ms is None
    assert of(forced) == QUIET
    for other in (settings(rate=48000, force_quantum=0), settings("route", rate=48000, force_quantum=64)):
        assert of(other, player).latency_ms == pytest.approx(1024 / 48)


@pytest.mark.parametrize("text", ["", "/", "1/", "/1", "1/0", "-1/48000", "²/1", "9" * 30 + "/1"])
def test_latencies_that_are_none(text):
    assert pipewire._ms(text) is None


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_streams_or_a_value_error(dump):
    with contextlib.suppress(ValueError):
        assert isinstance(streams_of(dump), Streams)


def test_errors_of_the_last_round():
    assert errors_of(TOP) == {30: 0, 43: 1, 48: 1206}


@pytest.mark.parametrize("text", [b"", b"usage: pw-top\n", b"S   ID\nR x 1 2 3 4 5 6 7\n"])
def test_what_is_no_table(text):
    with pytest.raises(ValueError, match=r"pw-top|invalid literal"):
        errors_of(text)


class Seat:
    def __init__(self, folder):
        self.folder, self.now_ns = folder, 1
        (folder / "pipewire-0").touch()
        self.reader = PipeWire(lambda: (folder, os.geteuid()), lambda: self.now_ns, str(folder))

    def pw_dump(self, script, name="pw-dump"):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def look(self):
        self.now_ns += ROUND_NS
        self.reader.turn()
        thread = self.reader._looking
        until(lambda: thread is None or not thread.is_alive(), "it has looked")
        return self.reader.streams


@pytest.fixture
def seat(tmp_path):
    return Seat(tmp_path)


def test_it_looks_every_twenty_seconds(seat):
    count = seat.folder / "asked"
    seat.pw_dump(f'echo "$XDG_RUNTIME_DIR" >> {count}; cat {DUMPS}/playing.json')
    assert seat.look().playing
    for _ in range(9):
        seat.now_ns += ROUND_NS // 10 - 1
        seat.reader.turn()
    assert count.read_text().splitlines() == [str(seat.folder)]
    seat.pw_dump(f"cat {DUMPS}/after.json")
    assert seat.look() == QUIET


def test_cycles_that_were_missed_between_two_looks(seat):
    def top(errors):
        seat.pw_dump(f"cat <<END\n{TOP.decode().replace('1206', errors)}END", "pw-top")
        return seat.look().xruns

    seat.pw_dump(f"cat {DUMPS}/playing.json")
    assert seat.look().xruns is None  # no pw-top
    assert [top("1206"), top("1206"), top("1210"), top("   2"), top("   3")] == [None, 0, 4, 0, 1]
    seat.pw_dump("exit 1", "pw-top")
    assert seat.look().xruns is None
    assert seat.look().playing
    seat.pw_dump(f"cat {DUMPS}/after.json")
    assert [top("   3"), top("   9")] == [None, None]  # nothing sounds


@pytest.mark.parametrize("script", ["exit 1", "echo '{'", "echo '[1]'", "kill -9 $$", "cat /dev/zero", "exec sleep 60"])
def test_one_that_fails_lies_or_stands_still(seat, monkeypatch, script):
    monkeypatch.setattr(pipewire, "_LIMIT_S", 0.5)
    monkeypatch.setattr(pipewire, "LARGEST_BYTES", 1 << 18)
    seat.pw_dump(f"cat {DUMPS}/playing.json")
    seat.look()
    seat.pw_dump(script)
    assert seat.look() is None


def test_without_pipewire_nothing_is_run(seat):
    seat.pw_dump(f"cat {DUMPS}/playing.json")
    (seat.folder / "pipewire-0").unlink()
    assert seat.look() is None
    assert seat.reader._looking is None
