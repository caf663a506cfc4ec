# SPDX-License-Identifier: GPL-2.0-only
"""The Shell extension in a person's home: put there, switched on, taken away, and how it fares.

Reads the extensions folder, GSettings (through `gsettings`), and what a running Shell says on the session bus
(js/ui/shellDBus.js: org.gnome.Shell, org.gnome.Shell.Extensions). Writes below ~/.local/share/gnome-shell/extensions
and the keys `enabled-extensions` and `disabled-extensions` of org.gnome.shell. Acts as the user it runs as.

A running Shell looks for extensions when it starts and at no other time, and loads a file's text once
(js/ui/extensionSystem.js): what is new takes a log-out and a log-in.
"""

import ast
import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from asa.core.errors import SetupError
from collectors.gnome.extension import DIGEST_KEY, UUID, Format, digest_of, format_for, render
from collectors.gnome.shell import Shell, State, ask, major

_SCHEMA = "org.gnome.shell"
_ENABLED, _DISABLED = "enabled-extensions", "disabled-extensions"
_ALL_OFF = "disable-user-extensions"
_LIMIT_S = 30.0  # for programs that answer within milliseconds, and emulated on a busy host within 10 s or more
_SETTLE_S = 3.0  # a running Shell takes up a changed key within some 10 ms
_AGAIN = "log out and in"
_INSTALL = "run `asa gnome install`"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # renameat2(2)


class Condition(StrEnum):
    """How the extension fares."""

    NO_GNOME = "no-gnome"  # neither a program gnome-shell nor one that runs
    UNSUPPORTED = "unsupported"  # a version of GNOME Shell that the extension is not made for
    ABSENT = "absent"
    OUTDATED = "outdated"  # what lies there is not what this ASA makes for this Shell
    NOT_ENABLED = "not-enabled"
    NOT_RUNNING = "not-running"  # installed and enabled, but no Shell runs to load it
    NOT_LOADED = "not-loaded"  # the running Shell does not know it yet, or has an older text in memory
    OFF = "off"  # loaded and not active: locked screen, or extensions switched off as a whole
    ERROR = "error"  # the Shell reports one
    ACTIVE = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What there is, in words, and what would help ("" when nothing has to be done)."""

    condition: Condition
    text: str
    remedy: str
    shell_version: str | None
    folder: str  # "" when there is none


_Finding: TypeAlias = tuple[Condition, str, str]  # and the first two strings of Status

_NO_GNOME: _Finding = (
    Condition.NO_GNOME,
    "there is no GNOME Shell here: none on the session bus, and no program gnome-shell",
    "nothing has to be done: ASA runs without it, and asks the X server instead where there is one",
)


class Installation:
    """The extension of one person, told by the environment: HOME, XDG_DATA_HOME, and those that name the session bus.

    Construction reads all that the package ships; from then on only the person's own files are needed.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._made = {format_: render(format_) for format_ in Format}
        data = environment.get("XDG_DATA_HOME") or str(Path(environment.get("HOME") or Path.home()) / ".local/share")
        self.folder = Path(data) / "gnome-shell/extensions" / UUID

    def install(self) -> Status:
        """Put the extension there or in place of another one, switch it on, say how it fares. Raises SetupError."""
        shell = ask(self._environment, UUID)
        version = self._version(shell)
        if version is None:
            raise SetupError(f"{_NO_GNOME[1]}; {_NO_GNOME[2]}")
        made = self._made[format_for(major(version))]
        if not self._holds(made):
            self._write(made)
        self._list(_DISABLED, present=False)
        self._list(_ENABLED, present=True)
        end_s = time.monotonic() + _SETTLE_S
        status = self.status()
        while status.condition is Condition.OFF and time.monotonic() < end_s:
            time.sleep(0.05)
            status = self.status()
        return status

    def remove(self) -> bool:
        """Undo `install`: settings first, so that a running Shell switches it off. False: there was nothing.

        Raises SetupError.
        """
        there = self._there()
        listed = [self._list(key, present=False) for key in (_ENABLED, _DISABLED)]
        try:
            for left_over in self._left_over():
                shutil.rmtree(left_over)
            if self.folder.is_symlink():
                self.folder.unlink()
            elif there:
                with tempfile.TemporaryDirectory(prefix=f".{UUID}-", dir=self.folder.parent.parent) as aside:
                    self.folder.rename(Path(aside) / UUID)
        except OSError as error:
            raise SetupError(f"{self.folder}: {error.strerror}; remove this folder by hand") from error
        return there or any(listed)

    def status(self) -> Status:
        """How it fares now. Raises SetupError when GSettings cannot be read."""
        shell = ask(self._environment, UUID)
        version = self._version(shell)
        condition, text, remedy = self._judge(shell, version)
        return Status(
            condition=condition,
            text=text,
            remedy=remedy,
            shell_version=version,
            folder=str(self.folder) if self._there() else "",
        )

    def _judge(self, shell: Shell | None, version: str | None) -> _Finding:
        on_disk = self._on_disk(version)
        if on_disk is not None:
            return on_disk
        if UUID not in self._get(_ENABLED) or UUID in self._get(_DISABLED):
            return Condition.NOT_ENABLED, "the extension is installed, but not enabled", _INSTALL
        if shell is None:
            text = "the extension is installed and enabled, but no GNOME Shell answers on the session bus"
            return Condition.NOT_RUNNING, text, "log in to GNOME"
        return self._in_shell(shell)

    def _on_disk(self, version: str | None) -> _Finding | None:
        # None: it lies there as it should
        if version is None:
            return _NO_GNOME
        try:
            made = self._made[format_for(major(version))]
        except SetupError as error:
            return Condition.UNSUPPORTED, str(error), ""
        if not self._there():
            return Condition.ABSENT, "the extension is not installed", _INSTALL
        if not self._holds(made):
            text = f"the extension in {self.folder} is not the one that this ASA makes for GNOME Shell {version}"
            return Condition.OUTDATED, text, _INSTALL
        return None

    def _in_shell(self, shell: Shell) -> _Finding:
        if not shell.known:
            text = "the extension is installed and enabled; the running GNOME Shell has not loaded it yet"
            return Condition.NOT_LOADED, text, f"{_AGAIN} once"
        if shell.known.get(DIGEST_KEY) != digest_of(self._made[format_for(major(shell.version))]):
            text = "the running GNOME Shell still has another text of the extension in memory"
            return Condition.NOT_LOADED, text, f"{_AGAIN} once"
        if shell.state is State.ACTIVE:
            return Condition.ACTIVE, f"the extension is active in GNOME Shell {shell.version}", ""
        if shell.state in (State.ERROR, State.OUT_OF_DATE):
            said = shell.known.get("error") or shell.state.name
            text = f"GNOME Shell {shell.version} refuses the extension: {said!r}"
            return Condition.ERROR, text, f"{_AGAIN}; if it stays, report it with this line"
        if self._run(["gsettings", "get", _SCHEMA, _ALL_OFF]).strip() == "true":
            return Condition.OFF, "GNOME has all extensions switched off", f"gsettings set {_SCHEMA} {_ALL_OFF} false"
        text = f"GNOME Shell {shell.version} has the extension switched off, as it does while the screen is locked"
        return Condition.OFF, text, ""

    def _version(self, shell: Shell | None) -> str | None:
        if shell is not None:
            return shell.version
        program = shutil.which("gnome-shell", path=self._environment.get("PATH"))
        if program is None:
            return None
        return self._run([program, "--version"]).removeprefix("GNOME Shell").strip()

    def _there(self) -> bool:
        try:
            return self.folder.is_symlink() or self.folder.exists()
        except OSError as error:
            raise SetupError(f"{self.folder}: {error.strerror}; make the folders above it your own") from error

    def _left_over(self) -> list[Path]:
        # Of an install that was killed. Not by glob(), which takes a folder that cannot be read for an empty one.
        try:
            return [path for path in self.folder.parent.parent.iterdir() if path.name.startswith(f".{UUID}-")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _holds(self, made: Mapping[str, str]) -> bool:
        try:
            return all((self.folder / name).read_bytes() == text.encode() for name, text in made.items())
        except OSError:
            return False

    def _write(self, made: Mapping[str, str]) -> None:
        # Made beside the extensions folder (the Shell takes whatever lies in it), then exchanged in one step.
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{UUID}-", dir=self.folder.parent.parent) as aside:
                fresh = Path(aside) / "new"
                fresh.mkdir(mode=0o755)
                for name, text in made.items():
                    (fresh / name).write_text(text, encoding="utf-8")
                if self._there():
                    _exchange(fresh, self.folder)
                else:
                    fresh.rename(self.folder)
        except OSError as error:
            raise SetupError(f"{error.filename or self.folder}: {error.strerror}; mend that and run again") from error

    def _get(self, key: str) -> list[str]:
        text = self._run(["gsettings", "get", _SCHEMA, key]).strip()
        try:
            value = ast.literal_eval(text.removeprefix("@as "))  # GVariant's text of an array of strings
        except (SyntaxError, ValueError):
            value = None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise SetupError(f"gsettings get {_SCHEMA} {key}: {text!r} is no list of names; set the key right by hand")
        return value

    def _list(self, key: str, *, present: bool) -> bool:
        """Bring our name into the list, or out of it; whether that changed anything."""
        if not present and not self._schema_there():
            return False  # GNOME is gone from this machine; there is nothing to take back
        names = self._get(key)
        if (UUID in names) is present:
            return False
        names = [*names, UUID] if present else [name for name in names if name != UUID]
        self._run(["gsettings", "set", _SCHEMA, key, repr(names) if names else "@as []"])
        if (
            UUID in self._get(key)
        ) is not present:  # without a session bus, gsettings loses the change and exits with 0
            raise SetupError(
                f"gsettings set {_SCHEMA} {key} had no effect; run this in a terminal of your GNOME session"
            )
        return True

    def _schema_there(self) -> bool:
        if shutil.which("gsettings", path=self._environment.get("PATH")) is None:
            return False
        return _SCHEMA in self._run(["gsettings", "list-schemas"]).split()

    def _run(self, command: list[str]) -> str:
        try:
            done = subprocess.run(
                command,
                env=self._environment,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = error.strerror if isinstance(error, OSError) else f"no answer within {_LIMIT_S:g} s"
            raise SetupError(f"{command[0]}: {reason}; it comes with GNOME (package libglib2.0-bin)") from error
        if done.returncode:
            raise SetupError(f"{' '.join(command)} failed: {done.stderr.strip()!r}; is GNOME Shell installed whole?")
        return done.stdout


def _exchange(left: Path, right: Path) -> None:
    """Both names change places at once; where the file system cannot (NFS), one after the other."""
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2  # glibc 2.28
    if renameat2(_AT_FDCWD, os.fsencode(left), _AT_FDCWD, os.fsencode(right), _RENAME_EXCHANGE) != 0:
        right.rename(left.with_name("old"))
        left.rename(right)
