# SPDX-License-Identifier: GPL-2.0-only
"""An installed ASA in a box, and callers of its helper: processes of any user, each with a connection of its own."""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from asa.core.errors import LabError
from asa.core.helper_api import BUS_NAME, INTERFACE, PATH
from asa.paths import LABORATORY
from scenarios.lab.box.machine import Box, Session, end

UNIT = "asa-helper.service"
LIMIT_S = 60.0
"""For what takes well under a second on an idle machine: these may be emulated."""

_LARGE = ("usr/lib/asa", "var/lib/asa/scx")  # of an installation: seen in place, not copied
_CHECKOUT = Path(__file__).resolve().parents[3]
# The installed product first; the laboratory, which is not part of it, is the running one.
_PROGRAM = f"import sys; sys.path += ['/usr/lib/asa', {str(_CHECKOUT)!r}]; from scenarios.lab.{{}} import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call was answered with: `body`, or the name of an `error` and its message."""

    body: tuple[Any, ...] = ()
    error: str = ""
    message: str = ""


@dataclass(slots=True, kw_only=True)
class Caller:
    """One connection to the box's system bus, in a process of its own. A context manager."""

    name: str  # unique name on the bus
    signals: deque[tuple[str, str, tuple[Any, ...]]] = field(default_factory=deque)
    """Of the helper, in order: name, sender, body. Filled while an answer or a signal is waited for."""
    _process: subprocess.Popen[str]
    _unread: bytes = b""
    _answers: dict[int, Answer] = field(default_factory=dict)
    _number: int = 0

    @classmethod
    def start(cls, box: Box, *, user: str = "root", session: Session | None = None) -> Self:
        """Connect. Raises LabError."""
        process = box.spawn(program("box.caller"), user=user, session=session, stdin=subprocess.PIPE)
        caller = cls(name="", _process=process)
        try:
            caller._wait(lambda: caller.name != "", "a connection to the bus", LIMIT_S)
        except BaseException:
            caller.close()
            raise
        return caller

    def call(
        self,
        member: str,
        signature: str = "",
        *body: Any,
        to: str = BUS_NAME,
        path: str = PATH,
        interface: str = INTERFACE,
        interactive: bool = False,
        limit_s: float = LIMIT_S,
    ) -> Answer:
        """Call a method and wait for the answer. Raises LabError when none comes."""
        return self.answer(
            self.order(member, signature, *body, to=to, path=path, interface=interface, interactive=interactive),
            limit_s=limit_s,
        )

    def order(
        self,
        member: str,
        signature: str = "",
        *body: Any,
        to: str = BUS_NAME,
        path: str = PATH,
        interface: str = INTERFACE,
        interactive: bool = False,
    ) -> int:
        """Call a method, and do not wait. Gives a number for `answer`."""
        self._number += 1
        order = {"id": self._number, "to": to, "path": path, "interface": interface, "member": member}
        order |= {"signature": signature, "body": body, "interactive": interactive}
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101  # `start` asked for one
        pipe.write(json.dumps(order) + "\n")
        pipe.flush()
        return self._number

    def answer(self, number: int, *, limit_s: float = LIMIT_S) -> Answer:
        """What the call of that number was answered with. Raises LabError when no answer comes."""
        self._wait(lambda: number in self._answers, f"an answer to call {number}", limit_s)
        return self._answers.pop(number)

    def property(self, name: str) -> Any:
        """A property of the helper. Raises LabError when it cannot be had."""
        answer = self.call("Get", "ss", INTERFACE, name, interface="org.freedesktop.DBus.Properties")
        if answer.error:
            raise LabError(f"property {name!r}: {answer.error}: {answer.message}")
        return answer.body[0][1]

    def signal(self, name: str, *, limit_s: float = LIMIT_S) -> tuple[Any, ...]:
        """The body of the next signal of that name; what came before it is dropped. Raises LabError."""
        self._wait(lambda: any(one == name for one, *_ in self.signals), f"the signal {name}", limit_s)
        while True:
            one, _, body = self.signals.popleft()
            if one == name:
                return body

    def kill(self) -> None:
        """As kill -9 does it: the kernel closes its connection."""
        end(self._process)

    def close(self) -> None:
        """End it, and read what is left."""
        end(self._process)
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, met: Any, what: str, limit_s: float) -> None:
        pipe = self._process.stdout
        assert pipe is not None  # noqa: S101  # a pipe unless told otherwise
        end_s = time.monotonic() + limit_s
        while not met():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise LabError(f"after {limit_s:.0f} s still not: {what}; signals: {list(self.signals)!r}")
            if not select.select([pipe], [], [], left_s)[0]:
                continue
            data = os.read(pipe.fileno(), 65536)
            if not data:
                raise LabError(f"the caller ended before {what} came: {self._process.communicate()[1][-500:]!r}")
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, news: dict[str, Any]) -> None:
        if "name" in news:
            self.name = news["name"]
        elif "signal" in news:
            self.signals.append((news["signal"], news["sender"], tuple(news["body"])))
        elif news["id"] is not None:
            body = tuple(news.get("body", ()))
            self._answers[news["id"]] = Answer(
                body=body, error=news.get("error", ""), message=str(news.get("message", ""))
            )


def program(module: str) -> list[str]:
    """Arguments that run a module of `scenarios.lab` with what is installed in the box."""
    return ["/usr/bin/python3", "-IS", "-c", _PROGRAM.format(module)]


def staged(cache: Path) -> Path:
    """Where `stage` puts it."""
    return cache / "lab/installed"


def stage(cache: Path) -> Path:
    """Install the running ASA, by its own command, into a folder that guests see: there that would take minutes.

    What is there already stays. Needs root. Raises LabError.
    """
    root = staged(cache)
    root.mkdir(parents=True, exist_ok=True)
    _install(root)
    return root


def install(box: Box, *, source: Path | None = None) -> None:
    """Install the running ASA by its own command; with `source`, what was staged there. Raises LabError."""
    if source is None:
        _install(box.path)  # from outside: the box does not see what is not on the host's root file system
    else:
        _take(box, source)
    box.systemctl("daemon-reload")
    box.systemctl("reload", "dbus.service")


def _install(root: Path) -> None:
    command = [str(Path(sys.executable).parent / "asa"), "install", "--root", str(root)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        raise LabError(f"`asa install --root {root}` ended with {done.returncode}: {done.stderr.strip()[-300:]!r}")


def _take(box: Box, source: Path) -> None:
    _check_fresh(source)
    for folder in _LARGE:
        box.run(["mkdir", "-p", f"/{folder}"], check=True)
        box.run(["mount", "--bind", "-o", "ro", str(source / folder), f"/{folder}"], check=True)
    for folder, inner, names in os.walk(source):
        inner[:] = [name for name in inner if str((Path(folder) / name).relative_to(source)) not in _LARGE]
        target = box.path / Path(folder).relative_to(source)
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy2(Path(folder) / name, target / name, follow_symlinks=False)


def _check_fresh(source: Path) -> None:
    # a guest cannot stage anew
    program = source / "usr/lib/asa"
    for package in ("asa", "collectors"):
        for path in (_CHECKOUT / package).rglob("*.py"):
            if any(path.is_relative_to(_CHECKOUT / part) for part in LABORATORY):
                continue
            installed = program / path.relative_to(_CHECKOUT)
            if not installed.exists() or installed.read_bytes() != path.read_bytes():
                raise LabError(f"{installed} is not as {path}; stage again on the host")


def helper_pid(box: Box) -> int:
    """The helper's process id in the box; 0: it is not running."""
    return int(box.show(UNIT, "MainPID"))


def security_score(box: Box) -> float:
    """What systemd thinks of the helper's unit as it is in force: 0 is best, 10 is worst. Raises LabError."""
    done = box.run(["systemd-analyze", "security", "--no-pager", UNIT], timeout_s=LIMIT_S)
    for line in done.stdout.splitlines():
        if "exposure level for" in line:
            return float(line.rpartition(": ")[2].split()[0])
    raise LabError(f"systemd-analyze security gave no score: {(done.stderr or done.stdout)[-300:]!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzed:
    """What became of random calls."""

    calls: int
    outcomes: dict[str, int]  # "answered", names of errors
    crashes: int  # the helper is another process than before
    grown_bytes: int  # resident memory of the helper
    grown_descriptors: int


def fuzz(
    box: Box, calls: int, *, user: str = "root", session: Session | None = None, seed: int = 1, limit_s: float = 300.0
) -> Fuzzed:
    """Random calls of the helper by a process of that user; it must be running. Raises LabError."""
    before, size, descriptors = helper_pid(box), _resident_bytes(box), _descriptors(box)
    command = [*program("box.fuzz"), str(calls), str(seed)]
    done = box.run(command, user=user, session=session, check=True, timeout_s=limit_s)
    outcomes = json.loads(done.stdout)
    return Fuzzed(
        calls=outcomes.pop("calls"),
        outcomes=outcomes,
        crashes=int(helper_pid(box) != before) + int(before == 0),
        grown_bytes=_resident_bytes(box) - size,
        grown_descriptors=_descriptors(box) - descriptors,
    )


def resident_bytes(box: Box, pid: int) -> int:
    """Memory of a process of the box that is in RAM now."""
    text = (box.path / f"proc/{pid}/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _resident_bytes(box: Box) -> int:
    return resident_bytes(box, helper_pid(box))


def _descriptors(box: Box) -> int:
    return len(list((box.path / f"proc/{helper_pid(box)}/fd").iterdir()))
