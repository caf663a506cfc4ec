# SPDX-License-Identifier: GPL-2.0-only
"""What PipeWire plays and records, with headphones that need no sound card too, and how soon it has to be: by pw-dump.

pw-dump(1) prints all objects as JSON; a stream is a node whose class begins with "Stream/", and it is "running" while
sound or pictures pass (PipeWire's documentation, "Node", "media.class", "node.latency"). Meters and the like that
listen to what is played do not count as recordings. A quantum that a person has forced (`pw-metadata -n settings 0
clock.force-quantum 64`) is in force for every stream, whatever it asks for. Cycles that streams and devices missed are
the column ERR of pw-top(1), a count for each node; it is asked while something sounds. What a card itself ran short
of, the probes count in each tick (`sound_underruns`).

Each is a process of its own every twenty seconds, 8 ms of CPU time and 1 ms of ours (pw-top 7 ms, and it is there for
20 ms), and is waited for in a thread: no tick waits for the answer.
"""

import os
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

ROUND_NS = 20_000_000_000
"""Between two looks."""

LARGEST_BYTES = 1 << 22
"""Of a dump; a desktop's has some 300 KB."""

_LIMIT_S = 4.0
_PLACES = "/usr/bin:/usr/local/bin:/run/current-system/sw/bin"
_PROGRAM, _SOCKET = "pw-dump", "pipewire-0"
_DUMP, _TOP = ("--no-colors",), ("--batch-mode", "--iterations=2")  # the first round of pw-top knows nothing yet
_HEAD, _ID, _ERRORS = [b"S", b"ID"], 1, 8  # of its lines, by column
_PLAYS, _RECORDS = "Stream/Output/Audio", ("Stream/Input/Audio", "Stream/Input/Video")


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """Those that run."""

    playing: bool
    recording: bool  # of a microphone, a camera or the screen
    latency_ms: float | None  # the shortest that a sound stream asks for, or the forced one; None: none asks
    xruns: int | None = None  # cycles that nodes missed since the look before; None: nothing sounded at one of the two


class _Props(msgspec.Struct):
    kind: str = msgspec.field(default="", name="media.class")
    latency: str = msgspec.field(default="", name="node.latency")  # "256/48000": frames, and frames a second
    of_a_sink: bool | str = msgspec.field(default=False, name="stream.capture.sink")
    monitor: bool | str = msgspec.field(default=False, name="stream.monitor")


class _Info(msgspec.Struct):
    state: str = ""
    props: msgspec.Raw = msgspec.Raw(b"{}")


class _Object(msgspec.Struct):
    type: str = ""
    info: msgspec.Raw = msgspec.Raw(b"{}")  # of objects that are no nodes it is anything
    props: msgspec.Raw = msgspec.Raw(b"{}")
    metadata: msgspec.Raw = msgspec.Raw(b"[]")


class _Named(msgspec.Struct):
    name: str = msgspec.field(default="", name="metadata.name")


class _Entry(msgspec.Struct):
    subject: int = 0
    key: str = ""
    value: Any = None


_OBJECTS = msgspec.json.Decoder(list[_Object])
_INFO, _PROPS = msgspec.json.Decoder(_Info), msgspec.json.Decoder(_Props)
_NAMED, _ENTRIES = msgspec.json.Decoder(_Named), msgspec.json.Decoder(list[_Entry])


def streams_of(dump: bytes) -> Streams:
    """What a dump says. Raises ValueError for what is none (msgspec's errors are such)."""
    objects = _OBJECTS.decode(dump)
    running = list(_running(objects))
    sound = [one for one in running if one.kind.startswith("Stream/") and one.kind.endswith("/Audio")]
    forced = _forced_ms(objects) if sound else None
    asked = [ms for one in sound if (ms := _ms(one.latency)) is not None] if forced is None else [forced]
    return Streams(
        playing=any(one.kind == _PLAYS for one in running),
        recording=any(one.kind in _RECORDS and not (_yes(one.of_a_sink) or _yes(one.monitor)) for one in running),
        latency_ms=min(asked, default=None),
    )


def errors_of(top: bytes) -> dict[int, int]:
    """Of what pw-top printed: errors by the number of the node, at the last round. Raises ValueError for none."""
    rows = [line.split() for line in top.splitlines()]
    heads = [place for place, row in enumerate(rows) if row[:2] == _HEAD]
    if not heads:
        raise ValueError("no table of pw-top")
    return {int(row[_ID]): int(row[_ERRORS]) for row in rows[heads[-1] + 1 :] if len(row) > _ERRORS}


class PipeWire:
    """Looks every twenty seconds. `where` tells the runtime folder of the session at the screen, and its user.

    `streams` is None as long as nothing is known. `now_ns` is CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        where: Callable[[], tuple[Path | None, int]],
        now_ns: Callable[[], int] = time.monotonic_ns,
        places: str = _PLACES,
    ) -> None:
        self.streams: Streams | None = None
        self._where, self._now_ns, self._places = where, now_ns, places
        self._next_ns = 0
        self._looking: threading.Thread | None = None
        self._errors: dict[int, int] | None = None  # at the last look

    def turn(self) -> None:
        """Begin to look when it is time. Never raises, never waits for the answer."""
        now_ns = self._now_ns()
        if now_ns < self._next_ns or (self._looking is not None and self._looking.is_alive()):
            return
        self._next_ns = now_ns + ROUND_NS
        runtime, uid = self._where()
        program = shutil.which(_PROGRAM, path=self._places)
        # Path.exists raises where it may not look
        if runtime is None or program is None or not os.path.exists(runtime / _SOCKET):  # noqa: PTH110
            self.streams = None
            return
        self._looking = threading.Thread(target=self._look, args=(program, runtime, uid), daemon=True)
        self._looking.start()

    def _look(self, program: str, runtime: Path, uid: int) -> None:
        try:
            found = streams_of(_said((program, *_DUMP), runtime, uid))
        except (OSError, ValueError, subprocess.SubprocessError):
            self.streams = None  # it ends meanwhile, or is of another version
            return
        self.streams = msgspec.structs.replace(found, xruns=self._xruns(found, runtime, uid))

    def _xruns(self, found: Streams, runtime: Path, uid: int) -> int | None:
        before, self._errors = self._errors, None
        program = shutil.which("pw-top", path=self._places)
        if program is None or not (found.playing or found.recording):
            return None
        try:
            now = self._errors = errors_of(_said((program, *_TOP), runtime, uid))
        except (OSError, ValueError, subprocess.SubprocessError):
            return None  # an older one without these options
        if before is None:
            return None
        # those that are new have missed a cycle or two while they began; a count may begin anew
        return sum(max(0, now[node] - before[node]) for node in now.keys() & before.keys())


def _said(command: tuple[str, ...], runtime: Path, uid: int) -> bytes:
    # as the user whose session it is: PipeWire lets nobody else in, and whoever answers there is not root's
    other = os.geteuid() != uid
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"XDG_RUNTIME_DIR": str(runtime), "PATH": _PLACES, "LANG": "C.UTF-8"},
        cwd="/",
        user=uid if other else None,
        group=runtime.stat().st_gid if other else None,
        extra_groups=[] if other else None,
    ) as child:
        try:
            return b"".join(_pieces(child))
        finally:
            child.kill()  # of one that has ended it is nothing


def _pieces(child: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    end_s, left = time.monotonic() + _LIMIT_S, LARGEST_BYTES
    if child.stdout is None:
        return
    descriptor = child.stdout.fileno()
    while select.select([descriptor], [], [], max(0.0, end_s - time.monotonic()))[0]:
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            return
        left -= len(piece)
        if left < 0:
            raise ValueError(f"a dump of over {LARGEST_BYTES} bytes")
        yield piece
    raise ValueError(f"PipeWire says nothing for {_LIMIT_S:g} s")


def _running(objects: list[_Object]) -> Iterator[_Props]:
    for one in objects:
        if one.type.endswith(":Node"):
            info = _INFO.decode(one.info)
            if info.state == "running":
                yield _PROPS.decode(info.props)


def _forced_ms(objects: list[_Object]) -> float | None:
    # PipeWire's documentation, "Configuration", clock.force-quantum: frames; 0 for none. clock.force-rate likewise
    for one in objects:
        if one.type.endswith(":Metadata") and _NAMED.decode(one.props).name == "settings":
            entries = _ENTRIES.decode(one.metadata)
            values = {entry.key: entry.value for entry in entries if entry.subject == 0 and type(entry.value) is int}
            frames = values.get("clock.force-quantum", 0)
            rate = values.get("clock.force-rate", 0) or values.get("clock.rate", 0)
            return 1e3 * frames / rate if frames > 0 and rate > 0 else None
    return None


def _ms(latency: str) -> float | None:
    frames, _, rate = latency.partition("/")
    if not (frames.isdecimal() and rate.isdecimal() and 0 < len(frames) < 10 and 0 < len(rate) < 10 and int(rate)):
        return None
    return 1e3 * int(frames) / int(rate)


def _yes(value: bool | str) -> bool:  # JSON has a property as true or as a text
    return value in (True, "true")
