# SPDX-License-Identifier: GPL-2.0-only
"""The part of the laptop benchmark that needs sched_ext: `python -m calibration.laptop_guest --json FILE`, in a guest.

Installs ASA in a box by its own command, makes random calls of the helper, and kills daemons whose scheduler is in
force. Writes what happened to one JSON file; judges nothing.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from asa.core.errors import AsaError
from asa.core.helper_api import BUS_NAME, INTERFACE, PATH
from calibration import laptop_fuzz
from scenarios.lab import box_root
from scenarios.lab.box import Box, Session

_USER = "ada"
_SCHEDULER = "scx_simple"
_LIMIT_S = 240.0  # for one thing to come, in an emulated machine that others use
_LOOK_S = 0.2
_SETTLED_TICKS = 10  # the daemon's memory is at its most by then, but for its counters' growth
_ASA = (sys.executable, "-P", "-m", "asa.cli")  # of this tree; /usr/bin/asa is what it installs
_CLIENT = ("/usr/bin/python3", "-IS", "-c")  # as /usr/bin/asa: a user may not be able to look into this tree
_CLIENT_PATH = "import sys; sys.path.insert(0, '/usr/lib/asa')\n"
_EXT = Path("/sys/kernel/sched_ext")


class Fuzzed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the random calls. `error`: why they ended early, "" when they did not."""

    calls: int
    heard: dict[str, int]
    crashes: int
    switches: int
    error: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one guest."""

    kernel: str
    fuzzed: Fuzzed
    released_s: tuple[float, ...]
    daemon_rss_bytes: tuple[int, ...]
    helper_rss_bytes: tuple[int, ...]


def read(path: Path) -> Found:
    """What a guest wrote. Raises AsaError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Found)
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: nothing of the laptop benchmark: {error}") from error


def say(line: str) -> None:
    """Progress, for who waits outside."""
    print(f"{line} (at {time.monotonic():.0f} s)", flush=True)


class Machine:
    """A box with ASA installed and a user in front of it."""

    def __init__(self, box: Box, say: Callable[[str], None]) -> None:
        self._box = box
        self._say = say
        say("install")
        box.run([*_ASA, "install"], timeout_s=_LIMIT_S, check=True)
        say("log in")
        self.session: Session = box.login(_USER)

    def helper(self) -> int:
        """Pid of the helper in the box, which the bus starts when need be."""
        self.state("Version")
        return int(self._box.show("asa-helper.service", "MainPID"))

    def state(self, name: str) -> str:
        """A property of the helper, as busctl writes it."""
        command = ["busctl", "get-property", "--timeout=60", BUS_NAME, PATH, INTERFACE, name]
        return self._box.run(command, timeout_s=_LIMIT_S, check=True).stdout.strip()

    def uninstall(self) -> None:
        """Everything of it, settings too."""
        self._box.run([*_ASA, "uninstall", "--purge"], timeout_s=_LIMIT_S, check=True)

    def fuzz(self, calls: int) -> Fuzzed:
        """Half of the calls as the user, half as root."""
        before, enabled = self.helper(), _enabled()
        heard: Counter[str] = Counter()
        errors = []
        for seed, session in enumerate((self.session, None)):
            self._say(f"{calls // 2} calls at random by {'the user' if session else 'root'}")
            program = _CLIENT_PATH + Path(laptop_fuzz.__file__).read_text("utf-8")
            command = [*_CLIENT, program, str(calls // 2), str(seed)]
            done = self._box.run(command, session=session, timeout_s=2 * _LIMIT_S)
            if not done.stdout.strip():
                raise AsaError(f"the random calls: {done.stderr.strip()[-500:]}")
            said = json.loads(done.stdout)
            heard.update(said["heard"])
            errors += [said["error"]] if said["error"] else []
        self._box.run(["busctl", "call", "--timeout=60", BUS_NAME, PATH, INTERFACE, "Resume"], timeout_s=_LIMIT_S)
        return Fuzzed(
            calls=heard.total(),
            heard=dict(heard),
            crashes=int(self.helper() != before),
            switches=_enabled() - enabled,
            error="; ".join(errors),
        )

    def round(self) -> tuple[float, int, int]:
        """A daemon has a scheduler brought up and is killed: seconds until it is gone, memory of daemon and helper."""
        daemon = self._box.spawn(["/usr/bin/asa", "daemon", "--no-journal"], session=self.session)
        try:
            self._say("the daemon starts")
            owner = f"u {box_root.USERS[_USER]}"
            _until(lambda: daemon.poll() is not None or self.state("Holder") == owner, "the daemon has the lease")
            pid = self._status()["pid"]
            self._say(f"{_SCHEDULER} is brought up")
            switched = self._box.run(["/usr/bin/asa", "switch", _SCHEDULER], session=self.session, timeout_s=_LIMIT_S)
            if switched.returncode:
                raise AsaError(f"asa switch: {(switched.stdout + switched.stderr).strip()[-500:]}")
            ticks = self._status()["ticks"]
            _until(lambda: self._status()["ticks"] >= ticks + _SETTLED_TICKS, "ticks go by")
            rss = self._rss(pid), self._rss(self.helper())
            self._say("the daemon is killed")
            start_s = time.monotonic()
            self._box.run(["kill", "-KILL", str(pid)], check=True)  # some ms of nsenter, which count
            while _state() != "disabled":
                if time.monotonic() - start_s > _LIMIT_S:
                    raise AsaError(f"the scheduler is still there {_LIMIT_S:g} s after its daemon")
                time.sleep(0.001)
            return time.monotonic() - start_s, *rss
        except AsaError as error:
            raise AsaError(f"{error}; the daemon said {_ended_by_us(daemon)!r}") from error
        finally:
            _ended_by_us(daemon)

    def _status(self) -> dict[str, int]:
        done = self._box.run(["/usr/bin/asa", "status", "--json"], session=self.session, timeout_s=_LIMIT_S, check=True)
        found: dict[str, int] = json.loads(done.stdout)["agent"] or {}  # and other values, which nobody asks for
        if "pid" not in found:
            raise AsaError("the daemon says nothing of itself")
        return found

    def _rss(self, pid: int) -> int:
        text = self._box.run(["cat", f"/proc/{pid}/smaps_rollup"], check=True).stdout
        return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Rss:"))


def _ended_by_us(process: "subprocess.Popen[str]") -> str:
    """The last of what it said. Twice is once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ValueError):  # its pipes are closed: it was asked before
        out, err = process.communicate()
        return (out + err).strip()[-500:]
    return ""


def _until(condition: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise AsaError(f"not within {_LIMIT_S:g} s: {what}")
        time.sleep(_LOOK_S)


def _state() -> str:
    return (_EXT / "state").read_text("ascii").strip()


def _enabled() -> int:
    return int((_EXT / "enable_seq").read_text("ascii"))


def main(words: list[str]) -> int:
    """Entry point. Exit code 1 with one line on stderr when something did not come."""
    parser = argparse.ArgumentParser(prog="calibration.laptop_guest")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(words)
    try:
        with Box.start() as box:
            machine = Machine(box, say)
            fuzzed = machine.fuzz(arguments.calls)
            rounds = [machine.round() for _ in range(arguments.rounds)]
    except AsaError as error:
        print(error, file=sys.stderr)
        return 1
    released_s, daemon, helper = zip(*rounds, strict=True) if rounds else ((), (), ())
    found = Found(
        kernel=os.uname().release,
        fuzzed=fuzzed,
        released_s=released_s,
        daemon_rss_bytes=daemon,
        helper_rss_bytes=helper,
    )
    arguments.json.write_bytes(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
