# SPDX-License-Identifier: GPL-2.0-only
"""The part of the laptop benchmark that needs sched_ext: `python -m calibration.laptop.guest --json FILE`, in a guest.

Puts an installed ASA into a box, makes random calls of the helper, and kills clients whose scheduler is in
force. Writes what happened to one JSON file; judges nothing.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from asa import wire
from asa.core.errors import AsaError
from asa.core.helper_api import BUS_NAME, INTERFACE, PATH
from scenarios.lab.box import installed as box_asa
from scenarios.lab.box import root as box_root
from scenarios.lab.box.installed import Answer, Caller
from scenarios.lab.box.machine import Box, Session

_USER = "ada"
_SCHEDULER = "scx_simple"
_LIMIT_PER_CALL_S = 0.1
_LIMIT_S = 240.0  # for one thing to come, in an emulated machine that others use
_LOOK_S = 0.2
_SETTLED_TICKS = 10  # the daemon's memory is at its most by then, but for its counters' growth
_EXT = Path("/sys/kernel/sched_ext")


class Fuzzed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the random calls."""

    calls: int
    heard: dict[str, int]
    crashes: int
    switches: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one guest."""

    kernel: str
    fuzzed: Fuzzed
    released_s: tuple[float, ...]
    daemon_rss_bytes: int
    helper_rss_bytes: int


def read(path: Path) -> Found:
    """What a guest wrote. Raises AsaError."""
    try:
        return wire.from_json(path.read_bytes(), Found)
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: nothing of the laptop benchmark: {error}") from error


def say(line: str) -> None:
    """Progress, for who waits outside."""
    print(f"{line} (at {time.monotonic():.0f} s)", flush=True)


class Machine:
    """A box with ASA installed and a user in front of it."""

    def __init__(self, box: Box, installed: Path | None, say: Callable[[str], None]) -> None:
        """Install, and log in. `installed`: what `box_asa.stage` made."""
        self._box = box
        self._say = say
        say("ASA is installed")
        box_asa.install(box, source=installed)
        say("a user logs in")
        self._session: Session = box.login(_USER)

    def holder(self) -> str:
        """The user who has the lease, as busctl writes it; the bus starts the helper when need be."""
        command = ["busctl", "get-property", "--timeout=60", BUS_NAME, PATH, INTERFACE, "Holder"]
        return self._box.run(command, timeout_s=_LIMIT_S, check=True).stdout.strip()

    def fuzz(self, calls: int) -> Fuzzed:
        """Half of the calls as the user, half as root; some more, as the bus ends connections with calls under way."""
        self.holder()
        enabled, crashes, made, half = _enabled(), 0, 0, calls // 2 + calls // 50 + 1
        heard: Counter[str] = Counter()
        for seed, session in enumerate((self._session, None), 1):
            self._say(f"{half} random calls by {'the user' if session else 'root'}")
            limit_s = _LIMIT_S + _LIMIT_PER_CALL_S * calls
            done = box_asa.fuzz(self._box, half, session=session, seed=seed, limit_s=limit_s)
            heard.update(done.outcomes)
            made += done.calls
            crashes += done.crashes
        self._box.run(["busctl", "call", "--timeout=60", BUS_NAME, PATH, INTERFACE, "Resume"], timeout_s=_LIMIT_S)
        return Fuzzed(calls=made, heard=dict(heard), crashes=crashes, switches=_enabled() - enabled)

    def released_s(self) -> float:
        """A client that holds the lease has a scheduler brought up and is killed: until the kernel's own is back."""
        with Caller.start(self._box, session=self._session) as client:
            _answered(client.call("Acquire", limit_s=_LIMIT_S))
            self._say(f"{_SCHEDULER} is brought up")
            _answered(client.call("Switch", "ss", _SCHEDULER, "the benchmark", limit_s=_LIMIT_S))
            _until(lambda: _state() == "enabled", f"{_SCHEDULER} is in force")
            self._say("its client is killed")
            start_s = time.monotonic()
            client.kill()
            while _state() != "disabled":
                if time.monotonic() - start_s > _LIMIT_S:
                    raise AsaError(f"the scheduler is still there {_LIMIT_S:g} s after its client")
                time.sleep(0.001)
            return time.monotonic() - start_s

    def resident_bytes(self) -> tuple[int, int]:
        """Memory of a daemon that has the lease and the probes, and of the helper beside it."""
        self._say("the daemon starts")
        self._box.run(["systemctl", "--user", "start", "asa.service"], session=self._session, check=True)
        owner = f"u {box_root.USERS[_USER]}"
        _until(lambda: self.holder() == owner, "the daemon has the lease")
        ticks = self._status()["ticks"]
        _until(lambda: self._status()["ticks"] >= ticks + _SETTLED_TICKS, "ticks go by")
        found = self._rss(self._status()["pid"]), self._rss(box_asa.helper_pid(self._box))
        self._say("the daemon is stopped")
        stop = ["systemctl", "--user", "stop", "asa.service"]
        self._box.run(stop, session=self._session, timeout_s=_LIMIT_S, check=True)
        return found

    def _status(self) -> dict[str, int]:
        done = self._box.run(
            ["/usr/bin/asa", "status", "--json"], session=self._session, timeout_s=_LIMIT_S, check=True
        )
        found: dict[str, int] = json.loads(done.stdout)["agent"] or {}  # and other values, which nobody asks for
        if "pid" not in found:
            raise AsaError("the daemon says nothing of itself")
        return found

    def _rss(self, pid: int) -> int:
        text = self._box.run(["cat", f"/proc/{pid}/smaps_rollup"], check=True).stdout
        return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Rss:"))


def _answered(answer: Answer) -> None:
    if answer.error:
        raise AsaError(f"the helper said {answer.error}: {answer.message}")


def _until(condition: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise AsaError(f"not within {_LIMIT_S:g} s: {what}")
        time.sleep(_LOOK_S)


def _state() -> str:
    return (_EXT / "state").read_text("ascii").strip()


def _enabled() -> int:
    # 0 on a kernel that has no sched_ext
    return int((_EXT / "enable_seq").read_text("ascii")) if _EXT.exists() else 0


def main(words: list[str]) -> int:
    """Entry point. Exit code 1 with one line on stderr when something did not come."""
    parser = argparse.ArgumentParser(prog="calibration.laptop.guest")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="where `box_asa.stage` has put ASA")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(words)
    try:
        with Box.start() as box:
            machine = Machine(box, arguments.installed, say)
            fuzzed = machine.fuzz(arguments.calls)
            released_s = tuple(machine.released_s() for _ in range(arguments.rounds))
            daemon, helper = machine.resident_bytes()
    except AsaError as error:
        print(error, file=sys.stderr)
        return 1
    found = Found(
        kernel=os.uname().release,
        fuzzed=fuzzed,
        released_s=released_s,
        daemon_rss_bytes=daemon,
        helper_rss_bytes=helper,
    )
    arguments.json.write_bytes(wire.json_bytes(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
