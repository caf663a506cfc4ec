# SPDX-License-Identifier: GPL-2.0-only
"""What systemd, the bus and Python are told about an installation. Below another root only enablement is done.

What does not work and can be made up for is given back as a line, and the rest goes on.
"""

import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

from asa import paths
from asa.core.errors import SetupError
from asa.install import selinux
from asa.install.payload import HELPER_UNIT, PROGRAM, SYSTEM_UNIT, USER_UNIT
from asa.install.record import below

PYTHON = "/usr/bin/python3"
_LIMIT_S = 150.0  # the helper's unit has TimeoutStopSec=120: no file goes before it has ended
_MASK = Path("/run/systemd/system") / HELPER_UNIT
_WORDS = 200  # characters


class System:
    """One machine: the one that runs, or the tree below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._here = root == Path("/")
        self._booted = self._here and Path("/run/systemd/system").is_dir()

    def check(self) -> None:
        """Raises SetupError where the program could not run: another Python than this one."""
        words = [PYTHON, "-IS", "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
        try:
            found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_LIMIT_S).stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SetupError(f"{PYTHON}: cannot be run: {error}; install python3") from error
        wanted = f"{sys.version_info[0]}.{sys.version_info[1]}"
        if found != wanted:
            raise SetupError(f"{PYTHON} is {found!r} and this is Python {wanted}; run `make setup PYTHON={PYTHON}`")

    def compile(self, program: PurePosixPath = PROGRAM) -> list[str]:
        """Compile the program, so that no user's start has to."""
        folder = below(self._root, program)
        words = ["-IS", "-m", "compileall", "-q", "-s", str(self._root), "-p", "/", str(folder)]
        return self._try(PYTHON, *words, remedy="starts take longer")

    def label(self) -> list[str]:
        """Give ASA's files the contexts of this system's SELinux policy, where SELinux is on."""
        if not self._here or not selinux.mode(paths.Places().sys):
            return []
        return selinux.restore(selinux.PLACES)

    def enable(self, *, system: bool = False) -> list[str]:
        """Have the daemon start with each user's desktop; with `system` one agent of root's with the machine instead.

        A Debian package that was removed has left the daemon's unit masked.
        """
        if shutil.which("systemctl") is None or (self._here and not self._booted):
            return ["no systemd here, so nothing starts ASA: have your init system run `asa run` as root"]
        if system:
            notes = self.disable_daemon()
            return notes + self._try(*self._of_system("enable"), remedy=f"`systemctl enable {SYSTEM_UNIT}`")
        notes = self._try(*self._global("unmask"), remedy=f"`systemctl --global unmask {USER_UNIT}`")
        return notes + self._try(*self._global("enable"), remedy=f"`systemctl --global enable {USER_UNIT}`")

    def start(self) -> list[str]:
        """Start root's agent, where it was enabled just now."""
        return (
            self._try("systemctl", "start", SYSTEM_UNIT, remedy=f"`systemctl start {SYSTEM_UNIT}`")
            if self._booted
            else []
        )

    def disable(self) -> list[str]:
        """Neither any longer."""
        notes = self.disable_daemon()
        return notes + self._try(*self._of_system("disable"), remedy=f"`systemctl disable {SYSTEM_UNIT}`")

    def disable_daemon(self) -> list[str]:
        """No daemon with users' desktops any longer."""
        return self._try(*self._global("disable"), remedy=f"`systemctl --global disable {USER_UNIT}`")

    def stop_agent(self) -> list[str]:
        """End root's agent, which puts the kernel back on its own scheduler."""
        return (
            self._try("systemctl", "stop", SYSTEM_UNIT, remedy=f"`systemctl stop {SYSTEM_UNIT}`")
            if self._booted
            else []
        )

    def stop_helper(self) -> list[str]:
        """End the helper, which puts the kernel back on its own scheduler; users' daemons only observe from then on.

        Until `reload` nobody's call starts it again: the bus would, and cancel our order to stop it.
        """
        if not self._booted:
            return []
        notes = self._try("systemctl", "mask", "--runtime", HELPER_UNIT, remedy="call nothing of ASA meanwhile")
        return notes + self._try("systemctl", "stop", HELPER_UNIT, remedy=f"`systemctl stop {HELPER_UNIT}`")

    def stop_daemons(self) -> list[str]:
        """End users' daemons."""
        return [note for user in self._users() for note in self._of(user, "stop", USER_UNIT)]

    def reload(self, *, restart: bool) -> list[str]:
        """Have systemd and the bus read what has changed. `restart`: what runs is of the version before."""
        if not self._booted:
            return []
        notes = self._try("systemctl", "daemon-reload", remedy="`systemctl daemon-reload`")
        bus = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ReloadConfig")
        notes += self._try("busctl", "--system", "call", *bus, remedy="`systemctl reload dbus`")
        if _MASK.is_symlink():
            notes += self._try("systemctl", "unmask", "--runtime", HELPER_UNIT, remedy=f"remove {_MASK}")
        if restart:
            notes += self._try("systemctl", "try-restart", HELPER_UNIT, remedy=f"`systemctl restart {HELPER_UNIT}`")
            notes += self._try("systemctl", "try-restart", SYSTEM_UNIT, remedy=f"`systemctl restart {SYSTEM_UNIT}`")
        for user in self._users():
            notes += self._of(user, "daemon-reload")
            notes += self._of(user, "try-restart", USER_UNIT) if restart else []
        return notes

    def _users(self) -> list[str]:
        # who has a service manager; logind makes /run/user/UID
        return [path.parents[1].name for path in Path("/run/user").glob("*/systemd/private")] if self._booted else []

    def _of(self, user: str, *words: str) -> list[str]:
        remedy = f"as user {user}: `systemctl --user {' '.join(words)}`"
        return self._try("systemctl", "--user", f"--machine={user}@.host", *words, remedy=remedy)

    def _global(self, verb: str) -> list[str]:
        return self._below("--global", verb, USER_UNIT)

    def _of_system(self, verb: str) -> list[str]:
        return self._below(verb, SYSTEM_UNIT)

    def _below(self, *words: str) -> list[str]:
        place = [] if self._here else [f"--root={self._root}"]
        return ["systemctl", *place, "--quiet", *words]

    @staticmethod
    def _try(*words: str, remedy: str) -> list[str]:
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_LIMIT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return [f"{words[0]}: {error}; {remedy}"]
        if done.returncode == 0:
            return []
        said = " ".join((done.stderr or done.stdout).split())[-_WORDS:]
        return [f"`{' '.join(words)}` ended with {done.returncode}: {said!r}; {remedy}"]
