# SPDX-License-Identifier: GPL-2.0-only
"""The undo journal: what of ours is in force, on disk before it matters, so that the next start can clear it away.

It lives in /run (gone with a reboot, as the processes are). Processes are named by pid and start time, so that a
recycled pid is never mistaken for one of ours. Settings are remembered as they were, beside each value that one of ours
has set: a file is put back only while it still holds such a value, so what a user or another program sets meanwhile
stays. Does not start, attach or watch anything.
"""

import os
import select
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from asa import procstat, runfile, wire
from asa.act import settings
from asa.core.errors import AsaError

_MOST_RUNNING = 64  # a handful of standbys is what there is
_MOST_VALUES = 8  # of one file, set by schedulers that followed each other
_FILE_BYTES = 4 << 20  # three settings of each of 8192 CPUs


class Running(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scheduler process that we started, parked or attached."""

    scheduler: Annotated[str, msgspec.Meta(max_length=128)]
    pid: Annotated[int, msgspec.Meta(ge=2, le=1 << 22)]
    start_ticks: Annotated[int, msgspec.Meta(ge=0)]  # field 22 of /proc/PID/stat
    settled: bool = False  # what it has set is known to us, or reaches no file but its copies


class _Book(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    running: Annotated[tuple[Running, ...], msgspec.Meta(max_length=_MOST_RUNNING)] = ()
    settings: dict[str, str] = {}  # as they were; names below /sys
    ours: dict[str, tuple[str, ...]] = {}  # values that one of ours has set, or is about to
    doubtful: bool = False  # one of ours ended before it was known what it had set


class UndoJournal:
    """One file, written whole and renamed into place; read once."""

    def __init__(self, path: Path, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._path = path
        self._proc = proc
        self._sys = sys
        self._kept: _Book | None = None
        self._damage = ""
        self._wishes: dict[int, dict[str, str]] = {}  # pid -> what that scheduler wants set while it is in force
        self._copies: dict[int, dict[str, str]] = {}  # pid -> the values that it was given to find
        self._in_force: int | None = None

    def note(self, scheduler: str, pid: int, copies: Mapping[str, str] | None = None) -> None:
        """Remember that `pid` is a scheduler of ours. Raises AsaError when that cannot be written down.

        `copies`: the settings that it has copies of, with their values: what it sets reaches nobody else, and however
        it ends, no change is suspected to be its doing. None: it writes to the machine's own.
        """
        ticks = start_ticks(pid, self._proc)
        if ticks is None:
            return  # already gone: nothing to undo
        book = self._book()
        others = tuple(one for one in book.running if one.pid != pid)
        if len(others) >= _MOST_RUNNING:
            book.doubtful = True
            others = tuple(one for one in others if self._alive(one))
        if len(others) >= _MOST_RUNNING:
            raise AsaError(f"{self._path}: {len(others)} schedulers of ours are running, no more are started")
        settled = copies is not None
        book.running = (*others, Running(scheduler=scheduler, pid=pid, start_ticks=ticks, settled=settled))
        if copies is not None:
            self._copies[pid] = dict(copies)
        self._save()

    def forget(self, pid: int) -> None:
        """It is gone."""
        book = self._book()
        gone = [one for one in book.running if one.pid == pid]
        if not gone:
            return
        book.running = tuple(one for one in book.running if one.pid != pid)
        book.doubtful = book.doubtful or not gone[0].settled
        self._wishes.pop(pid, None)
        self._copies.pop(pid, None)
        if self._in_force == pid:
            self._in_force = None
        self._save_if_possible()

    def keep_settings(self) -> None:
        """Remember the settings as they are, but those that one of ours has changed: call before each launch.

        Raises AsaError when that cannot be written down.
        """
        book = self._book()
        loading = book.doubtful or not all(one.settled for one in book.running)  # anything may be its doing
        found = dict(book.settings)
        for name in settings.files(self._sys):
            now = settings.read(self._sys, name)
            if now is not None and (name not in found or not (loading or now in book.ours.get(name, ()))):
                found[name] = now
        if found != book.settings:
            book.settings = found
            self._save()

    def remembered(self) -> dict[str, str]:
        """Names below /sys and their values, as schedulers should find them."""
        return {name: value for name, value in self._book().settings.items() if name != settings.RCU_EXPEDITED}

    def settled(self, pid: int) -> None:
        """It is ready to attach, or attached: note what it has set, and take that back until `apply`.

        What it has set is read as it sees it itself, so it may have been given copies of its own to write to. Where
        it has none, a change that somebody else made while it loaded counts as its own. Raises AsaError when that
        cannot be written down.
        """
        book = self._book()
        if not any(one.pid == pid for one in book.running):
            return
        wishes = self._changed_by(pid)
        for name, value in wishes.items():
            book.ours[name] = _with(book.ours.get(name, ()), value)
        book.running = tuple(
            msgspec.structs.replace(one, settled=True) if one.pid == pid else one for one in book.running
        )
        self._save()  # before `apply` writes any of it
        self._wishes[pid] = wishes
        self._reconcile()

    def apply(self, pid: int) -> None:
        """It is in force: set what it wants set, but what somebody else has changed. Again, when an old one is gone."""
        self._in_force = pid
        self._reconcile()

    def put_back(self) -> list[str]:
        """Nothing of ours is in force: settings as they were. Lines that say what was done, or could not be."""
        self._in_force = None
        book = self._book()
        if book.doubtful:
            for name, was in book.settings.items():
                now = settings.read(self._sys, name) if name.rpartition("/")[2] in settings.doubtful() else None
                if now not in (None, was):
                    book.ours[name] = _with(book.ours.get(name, ()), now)
        changes, faults = self._reconcile()
        grace = self._relax()
        book.doubtful = False  # what was in doubt is in `ours` now
        if not book.running and not faults:  # a parked one may yet restore what it took for the old values
            book.ours = {name: values for name, values in book.ours.items() if name == settings.RCU_EXPEDITED}
        self._save_if_possible()
        return settings.told(changes) + grace + faults

    def expedite(self) -> None:
        """Make RCU grace periods short, for the length of a switch. Raises AsaError when it cannot be written down."""
        now = settings.read(self._sys, settings.RCU_EXPEDITED)
        if now is None:
            return
        book = self._book()
        if settings.RCU_EXPEDITED not in book.ours:
            book.settings[settings.RCU_EXPEDITED] = now
            book.ours[settings.RCU_EXPEDITED] = ("1",)
            self._save()
        settings.write(self._sys, settings.RCU_EXPEDITED, "1")  # where it is not allowed, switches are slower

    def relax(self) -> None:
        """Grace periods as they were before `expedite`."""
        if settings.RCU_EXPEDITED in self._book().ours:
            self._relax()
            self._save_if_possible()

    def clear(self) -> None:
        """Nothing of ours is in force any more, nor any setting to be put back."""
        self._kept = _Book()
        self._wishes.clear()
        self._copies.clear()
        self._in_force = None
        with suppress(OSError):  # an entry left behind does no harm: it names a process by its start time
            self._path.unlink(missing_ok=True)

    def leftover(self) -> tuple[Running, ...]:
        """What runs of what is noted. Of a damaged file: nothing."""
        return tuple(one for one in self._book().running if self._alive(one))

    def recover(self, limit_s: float) -> str | None:
        """End what an earlier agent left behind and put settings back. A sentence if there was something.

        SIGINT, wait, SIGKILL last; each wait takes `limit_s` at most. What does not end stays noted.
        """
        book = self._book()
        left = self.leftover()
        stuck = self._end(left, limit_s)
        said = [self._damage] if self._damage else []
        self._damage = ""
        if left:
            names = ", ".join(f"{one.scheduler} (pid {one.pid})" for one in left)
            said.append(f"an earlier agent had left {names} running")
        book.doubtful = book.doubtful or not all(one.settled for one in book.running)
        if stuck:
            pids = ", ".join(str(one.pid) for one in stuck)
            said.append(f"not even SIGKILL ends {pids}")
            book.running = stuck
            self._save_if_possible()
            return "; ".join(said)
        if left:
            said.append("it was stopped" if len(left) == 1 else "they were stopped")
        book.running = ()
        lines = self.put_back()
        if lines:
            said.append(f"settings it had changed: {', '.join(lines)}")
        if not book.ours:
            self.clear()
        return "; ".join(said) or None

    def _end(self, left: tuple[Running, ...], limit_s: float) -> tuple[Running, ...]:
        with ExitStack() as stack:
            waiting: dict[int, Running] = {}
            for one in left:
                with suppress(OSError):  # it ended meanwhile
                    handle = stack.enter_context(os.fdopen(os.pidfd_open(one.pid), "rb", buffering=0))
                    if self._alive(one):  # again: now the descriptor pins the process
                        waiting[handle.fileno()] = one
            for sign in (signal.SIGINT, signal.SIGKILL):
                for descriptor in waiting:
                    with suppress(OSError):
                        signal.pidfd_send_signal(descriptor, sign)
                deadline_s = time.monotonic() + limit_s
                while waiting:
                    ended, _, _ = select.select([*waiting], [], [], max(0.0, deadline_s - time.monotonic()))
                    for descriptor in ended:
                        del waiting[descriptor]
                    if not ended:
                        break
            return tuple(waiting.values())

    def _changed_by(self, pid: int) -> dict[str, str]:
        view = Path(f"{self._proc}/{pid}/root{self._sys}")
        in_force = self._wishes.get(self._in_force or 0, {})
        wishes = {}
        for name, was in (self.remembered() | self._copies.get(pid, {})).items():  # as it found them
            value = settings.read(view, name)
            if value is None or value == was:
                continue
            if value != in_force.get(name) or settings.is_copy(view, self._sys, name):  # else it found it like that
                wishes[name] = value
        return wishes

    def _reconcile(self) -> tuple[dict[str, tuple[str, str]], list[str]]:
        # Every file that one of ours has set: to what is wanted by the one in force, else to what it was.
        book = self._book()
        wishes = self._wishes.get(self._in_force or 0, {})
        changes: dict[str, tuple[str, str]] = {}
        faults = []
        for name, values in book.ours.items():
            was = book.settings.get(name)
            target = wishes.get(name, was)
            now = settings.read(self._sys, name) if name != settings.RCU_EXPEDITED else None
            if now is None or target is None or now == target or now not in (*values, was):
                continue
            fault = settings.write(self._sys, name, target)
            if fault:
                faults.append(fault)
            else:
                changes[name] = (now, target)
        return changes, faults

    def _relax(self) -> list[str]:
        book = self._book()
        values = book.ours.get(settings.RCU_EXPEDITED, ())
        was = book.settings.get(settings.RCU_EXPEDITED)
        now = settings.read(self._sys, settings.RCU_EXPEDITED) if values else None
        if now in values and was is not None and now != was:
            fault = settings.write(self._sys, settings.RCU_EXPEDITED, was)
            if fault:
                return [fault]
        else:
            now = None
        book.ours.pop(settings.RCU_EXPEDITED, None)
        return settings.told({settings.RCU_EXPEDITED: (now, was)}) if now is not None and was is not None else []

    def _alive(self, one: Running) -> bool:
        return start_ticks(one.pid, self._proc) == one.start_ticks and one.pid != os.getpid()

    def _book(self) -> _Book:
        if self._kept is None:
            self._kept = self._read()
        return self._kept

    def _read(self) -> _Book:
        try:
            body = runfile.read_own(self._path, _FILE_BYTES)
            if body is None:
                return _Book()
            book = wire.from_json(body, _Book)
        except (AsaError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._damage = f"the undo journal of an earlier agent is of no use, what it left is not known ({error})"
            return _Book()
        book.settings = {name: value for name, value in book.settings.items() if settings.acceptable(name, value)}
        book.ours = {
            name: kept[-_MOST_VALUES:]
            for name, values in book.ours.items()
            if (kept := tuple(value for value in values if settings.acceptable(name, value)))
        }
        return book

    def _save(self) -> None:
        try:
            runfile.write_whole(self._path, wire.json_bytes(self._book()))
        except OSError as error:
            raise AsaError(f"{self._path}: cannot write the undo journal: {error.strerror}") from error

    def _save_if_possible(self) -> None:
        with suppress(AsaError):  # what is noted too much does no harm
            self._save()


def _with(values: tuple[str, ...], value: str) -> tuple[str, ...]:
    return (*(one for one in values if one != value), value)[-_MOST_VALUES:]


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Start time of a process in ticks since boot (proc_pid_stat(5), field 22); None when it is gone or a zombie."""
    try:
        fields = procstat.fields((proc / str(pid) / "stat").read_bytes())
    except OSError:
        return None
    return None if fields[procstat.STATE] in b"ZX" else int(fields[procstat.STARTED])
