# SPDX-License-Identifier: GPL-2.0-only
"""A box: a whole machine in namespaces over this host's own root file system: real systemd, D-Bus, polkit and logind.

systemd is process 1 of its own process, mount, network, IPC, host-name and control-group namespaces; what it writes
stays in memory and goes with it. The kernel is the host's, or the guest's where a box is started in the lab: its
scheduler, its eBPF programs and /sys are real. Boxes have no virtual terminals, so that sessions change in front of the
seat by logind alone. `box_root` says what is in a box. Needs root.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from asa.core.errors import LabError
from scenarios.lab.box import root as box_root

BOOT_LIMIT_S = 240.0
"""The longest until all services of a box are up: 1 to 2 s on an idle host, much more in an emulated guest."""

_PREFIX = "asa-box-"
_RUNS = "asa-box-runs"  # below the box's control group: what is run in it without a session
_END_LIMIT_S = 30.0
_POLL_S = 0.02
_PROGRAM = Path(__file__).resolve().parents[3]  # the running ASA: its checkout, or where it is installed
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# first argument: the control group to join, which must be done from outside; then what to become
_JOIN = 'echo 0 > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A graphical session of a user at the seat."""

    user: str
    id: str
    unit: str  # what keeps it open


@dataclass(slots=True, kw_only=True)
class Box:
    """A running box. Use it as a context manager: leaving it kills everything inside.

    The kernel does so too when the thread that called `start` ends for whatever reason, kill -9 included; then only an
    empty control group remains, and the next box removes it.
    """

    pid: int  # of its process 1, as the host sees it
    _process: subprocess.Popen[bytes]
    _group: Path
    _said: IO[bytes]
    _sessions: int = 0
    _closed: bool = field(default=False)

    @classmethod
    def start(cls, *, limit_s: float = BOOT_LIMIT_S) -> Self:
        """Boot one, and wait until its services are up. Raises LabError."""
        if os.geteuid() != 0:
            raise LabError("a box needs root: sudo asa, or run the tests as root")
        packed = box_root.archive()
        mount = _control_groups()
        _sweep(mount)
        group = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=mount))
        group.chmod(0o755)
        said = tempfile.TemporaryFile()  # noqa: SIM115  # kept as long as the box
        try:
            process = _spawn(group, said)
        except BaseException:
            said.close()
            group.rmdir()
            raise
        box = cls(pid=0, _process=process, _group=group, _said=said)
        try:
            box._boot(packed, limit_s)
        except BaseException:
            box.stop()
            raise
        return box

    @property
    def path(self) -> Path:
        """The box's root as the host sees it: to put files there, and to read them."""
        return Path(f"/proc/{self.pid}/root")

    @property
    def bus(self) -> str:
        """Address of the box's system bus for processes of the host: they count as root's there."""
        return f"unix:path={self.path}/run/dbus/system_bus_socket"

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        session: Session | None = None,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the box to its end. In a `session` it is that user's, and polkit sees where it belongs.

        Raises LabError when it takes longer, and with `check` when it fails.
        """
        with self.spawn(argv, user=user, session=session, env=env) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                end(process)
                out, err = process.communicate()
                text = f"{argv!r} took longer than {timeout_s:.0f} s in the box: {out[-300:]!r} {err[-300:]!r}"
                raise LabError(text) from error
            except BaseException:
                end(process)
                raise
        if check and process.returncode:
            raise LabError(f"{argv!r} ended with {process.returncode} in the box: {(err or out).strip()[-500:]!r}")
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        session: Session | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start a program in the box; the pid is that of its parent. `end` kills it.

        `options` are those of Popen; without any, both outputs are pipes.
        """
        if session is not None:
            user = session.user
        group = self._group / _RUNS
        if session is not None:
            number = box_root.USERS[user]
            group = self._group / f"user.slice/user-{number}.slice/session-{session.id}.scope"
        variables = _environment(user, session) | dict(env or {})
        command = ["nsenter", "--target", str(self.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        command += ["--root", "--", "setpriv", *_identity(user), "--pdeathsig", "KILL"]
        command += ["env", "-i", "--chdir=/", *(f"{name}={value}" for name, value in variables.items()), *argv]
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        tie = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", _JOIN, str(group)]
        return subprocess.Popen([*tie, *command], text=True, start_new_session=True, **options)

    def systemctl(self, *arguments: str, check: bool = True) -> str:
        """What systemctl says, without blanks around it. Raises LabError when it fails, with `check`."""
        return self.run(["systemctl", *arguments], check=check).stdout.strip()

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.systemctl("show", "--property", name, "--value", unit)

    def journal(self, unit: str = "") -> str:
        """The text of a unit's journal, or of the whole."""
        chosen = ["--unit", unit] if unit else []
        return self.run(["journalctl", "--no-pager", "--output", "cat", "--quiet", *chosen], check=True).stdout

    def login(self, user: str, limit_s: float = BOOT_LIMIT_S) -> Session:
        """Open a graphical session of this user at the seat, which is then the one in front. Raises LabError."""
        self._sessions += 1
        unit = f"asa-box-session-{self._sessions}.service"
        command = ["systemd-run", f"--unit={unit}", f"--property=User={user}", "--property=PAMName=asa-box", "--quiet"]
        command += ["--setenv=XDG_SEAT=seat0", "--setenv=XDG_SESSION_TYPE=wayland", "--setenv=XDG_SESSION_CLASS=user"]
        before = self._session_ids(user)
        self.run([*command, "sleep", "infinity"], check=True, timeout_s=limit_s)
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            new = self._session_ids(user) - before
            if new:
                session = Session(user=user, id=new.pop(), unit=unit)
                if self.session_state(session) == "active":
                    return session
            time.sleep(_POLL_S)
        raise LabError(f"{user!r} got no session in {limit_s:.0f} s: {self.journal()[-1000:]}")

    def logout(self, session: Session) -> None:
        """End a session."""
        self.run(["loginctl", "terminate-session", session.id], check=True)

    def activate(self, session: Session) -> None:
        """Bring a session to the front of the seat, as a switch of users does."""
        self.run(["loginctl", "activate", session.id], check=True)

    def session_state(self, session: Session) -> str:
        """What logind says: opening, active (in front), online, closing; "" when there is none of that id."""
        command = ["loginctl", "show-session", session.id, "--property", "State", "--value"]
        return self.run(command).stdout.strip()

    def in_front(self) -> str:
        """Id of the session in front of the seat, "" when there is none."""
        command = ["loginctl", "show-seat", "seat0", "--property", "ActiveSession", "--value"]
        return self.run(command, check=True).stdout.strip()

    def stop(self) -> None:
        """Kill the box and tidy up. Twice is once."""
        if self._closed:
            return
        self._closed = True
        init = _child(self._process.pid, "unshare")
        if init:
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)  # all of the namespace is gone before its parent is told
        else:
            self._process.kill()
        self._process.wait()
        self._said.close()
        _remove(self._group, _END_LIMIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _boot(self, packed: bytes, limit_s: float) -> None:
        assert self._process.stdin is not None  # noqa: S101  # a pipe, by _spawn
        with contextlib.suppress(BrokenPipeError):  # it died: what it said follows below
            self._process.stdin.write(packed)
            self._process.stdin.close()
        end_s = time.monotonic() + limit_s
        while not (self.pid and (self.path / box_root.READY).exists()):
            self.pid = self.pid or _child(self._process.pid, "unshare")
            if self._process.poll() is not None:
                raise LabError(f"the box ended with {self._process.returncode} before it was up: {self._words()!r}")
            if time.monotonic() > end_s:
                jobs = self.run(["systemctl", "list-jobs"]).stdout if self.pid else ""
                raise LabError(f"the box was not up within {limit_s:.0f} s: {self._words()!r}; {jobs.strip()[-500:]}")
            time.sleep(_POLL_S)
        (self._group / _RUNS).mkdir(exist_ok=True)

    def _words(self) -> str:
        self._said.seek(0)
        return self._said.read()[-1000:].decode("utf-8", "replace")

    def _session_ids(self, user: str) -> set[str]:
        command = ["loginctl", "show-user", user, "--property", "Sessions", "--value"]
        return {*self.run(command).stdout.split()}


def end(process: subprocess.Popen[str]) -> None:
    """Kill a program that `Box.spawn` started.

    By its parent's hand: one whose parent is gone is left to the process 1 outside of the box, and where that does not
    reap what it never started (a guest's), the box could not end.
    """
    while process.poll() is None:
        program = _child(process.pid, "nsenter")
        try:
            os.kill(program or process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        process.wait()


def _spawn(group: Path, said: IO[bytes]) -> subprocess.Popen[bytes]:
    # Had we died before setpriv asked for the signal, it would never come: so the next step looks who the parent is.
    guard = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", 'test "$PPID" = "$0" && exec "$@"', str(os.getpid())]
    join = ["sh", "-c", _JOIN, str(group)]
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--net", "--cgroup"]
    command = [*guard, *join, *apart, "sh", "-c", box_root.INIT, "asa-box", str(_PROGRAM)]
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said, start_new_session=True)
    except OSError as error:
        raise LabError(f"setpriv: {error.strerror}; install util-linux") from error


def _child(pid: int, name: str) -> int:
    # what unshare(1) or nsenter(1) has started: its only child; 0 before it is one of these, and has one
    try:
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() != name:
            return 0
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def _identity(user: str) -> list[str]:
    if user == "root":
        return []
    number = str(box_root.USERS[user])
    return ["--reuid", number, "--regid", number, "--init-groups", "--inh-caps=-all"]


def _environment(user: str, session: Session | None) -> dict[str, str]:
    home = "/root" if user == "root" else f"/home/{user}"
    variables = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": home, "USER": user, "LOGNAME": user}
    if session is not None:
        runtime = f"/run/user/{box_root.USERS[user]}"
        variables |= {"XDG_RUNTIME_DIR": runtime, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}
        variables |= {"XDG_SESSION_ID": session.id, "XDG_SESSION_TYPE": "wayland"}
    return variables


def _control_groups() -> Path:
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    raise LabError("no cgroup2 file system is mounted here, and a box needs one: mount -t cgroup2 none /sys/fs/cgroup")


def _sweep(mount: Path) -> None:
    # control groups of boxes whose owner was killed before it could tidy up
    for group in mount.glob(f"{_PREFIX}*-*"):
        owner = group.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            _remove(group, 0.0)


def _remove(group: Path, limit_s: float) -> None:
    # a control group cannot be removed before the last of its processes is quite gone
    end_s = time.monotonic() + limit_s
    while group.exists():
        for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
        if time.monotonic() > end_s:
            return
        time.sleep(_POLL_S)
