# SPDX-License-Identifier: GPL-2.0-only
"""Fills `hints`: of applications that other sources saw in this tick, what their desktop entries say; of programs at
work, what their packages say; and what the services of the session know.

It is told what was read before it (`follow`), and looks for no window, group or process itself. Entries are cached,
services and sound cards are asked every five seconds, PipeWire every twenty. It writes nothing, and wakes PipeWire
alone.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from asa.core.sample import BusiestProcesses, DesktopEntry, DesktopState, GroupUsage, HintState
from collectors import display, session
from collectors.hints import front, sound
from collectors.hints.entries import Entries, folders_of
from collectors.hints.line import ROUND_NS, Place
from collectors.hints.packages import Packages
from collectors.hints.pipewire import PipeWire
from collectors.hints.services import SessionServices, SystemServices
from collectors.hints.units import entry_of
from collectors.procfs.work import Work

_SUFFIX = ".desktop"
_NO_ENTRY = "window:"  # GNOME Shell's id of a window whose application it does not know (src/shell-app.c)
_SYSTEM_BUS = "dbus/system_bus_socket"  # below /run


class HintCollector:
    """Fills `hints`. `environment`, `run` (/run) and `now_ns` (CLOCK_MONOTONIC) are those of this process by default.
    `work` may be another collector's, too.

    `open` never fails: a desktop may come at any time.
    """

    name = "hints"

    def __init__(
        self,
        proc: Path,
        sys: Path,
        *,
        environment: Mapping[str, str] | None = None,
        run: Path = Path("/run"),
        now_ns: Callable[[], int] = time.monotonic_ns,
        work: Work | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._proc, self._sys, self._run, self._now_ns = proc, sys, run, now_ns
        self._own_uid = os.geteuid()
        self._services = SessionServices(self._session_bus, now_ns)
        self._system = SystemServices(self._system_bus, now_ns)
        self._pipewire = PipeWire(lambda: (self._runtime, self._uid or self._own_uid), now_ns)
        self._runtime: Path | None = None
        self._entries = Entries((), now_ns=now_ns)
        self._uid: int | None = None  # whose entries they are
        self._sound: tuple[bool | None, bool | None] = (None, None)
        self._external: bool | None = None
        self._look_ns = 0  # at the sound cards and the screens
        self._desktop: DesktopState | None = None
        self._groups: GroupUsage | None = None
        self._busiest: BusiestProcesses | None = None
        self._packages = Packages(proc, now_ns, work=work)

    @property
    def lacking(self) -> dict[str, str]:
        """Nothing: what a desktop does not know is None."""
        return {}

    def open(self) -> None:
        """Nothing is opened before the first reading. Never raises."""

    def follow(self, fields: Mapping[str, object]) -> None:
        """Take what was read before in this tick."""
        desktop, groups, busiest = fields.get("desktop"), fields.get("groups"), fields.get("busiest")
        self._desktop = desktop if isinstance(desktop, DesktopState) else None
        self._groups = groups if isinstance(groups, GroupUsage) else None
        self._busiest = busiest if isinstance(busiest, BusiestProcesses) else None

    def read(self) -> dict[str, object]:
        """What is known now. Never raises."""
        now_ns = self._now_ns()
        self._services.asker.turn()
        self._system.asker.turn()
        self._pipewire.turn()
        if now_ns >= self._look_ns:
            self._look_ns = now_ns + ROUND_NS
            self._sound = sound.in_use(self._proc)
            self._external = display.external(self._sys)
        entries, playing = self._entries, self._services.playing
        entries.begin()
        found: dict[str, tuple[str, ...]] = {}
        in_front = ""
        for name in _in_front(self._desktop):
            in_front = in_front or name
            categories = entries.categories(name)
            if categories is not None:
                in_front, found[name] = name, categories
                break
        by_groups = "" if self._desktop is not None else self._front_by_groups()
        if by_groups:
            in_front, found[by_groups] = by_groups, entries.categories(by_groups) or ()
        for name in (*(playing or ()), *_running(self._groups)):
            if name and name not in found and (categories := entries.categories(name)):
                found[name] = categories
        streams = self._pipewire.streams
        heard = (None, None) if streams is None else (streams.playing, streams.recording)
        inhibited = (self._services.idle_inhibited, self._system.idle_inhibited)
        return {
            self.name: HintState(
                front=in_front,
                front_by_groups=True if by_groups else None,
                entries=tuple(DesktopEntry(name, found[name]) for name in sorted(found) if found[name]),
                playing=playing,
                game_clients=self._services.game_clients,
                idle_inhibited=_either(*inhibited),
                sound_played=_either(self._sound[0], heard[0]),
                sound_recorded=_either(self._sound[1], heard[1]),
                packages=None if self._busiest is None else self._packages.at_work(self._busiest.processes),
                power_profile=self._system.power_profile,
                power_held=self._system.power_held,
                lid_closed=self._system.lid_closed,
                external_display=self._external,
                sound_latency_ms=None if streams is None else streams.latency_ms,
                sound_xruns=None if streams is None else streams.xruns,
            )
        }

    def close(self) -> None:
        """Hang up. Never raises."""
        self._services.asker.close()
        self._system.asker.close()
        self._packages.close()

    def _front_by_groups(self) -> str:
        uid = self._own_uid if self._uid is None else self._uid
        return front.application(self._groups, self._sys, uid, lambda name: bool(self._entries.categories(name)))

    def _session_bus(self) -> Place:
        # asked at each round: also for whose entries count
        found = session.find(self._environment, self._run, self._own_uid)
        self._runtime = found.runtime
        if found.uid != self._uid:
            self._uid = found.uid
            folders = folders_of(self._environment, found.uid, self._own_uid)
            self._entries = Entries(folders, found.uid, self._now_ns)
        return Place(found.bus, found.bus_uid)

    def _system_bus(self) -> Place:
        given = self._environment.get("DBUS_SYSTEM_BUS_ADDRESS")
        return Place(given or f"unix:path={self._run / _SYSTEM_BUS}", self._own_uid)


def _either(one: bool | None, other: bool | None) -> bool | None:
    return None if one is None and other is None else bool(one) or bool(other)


def _in_front(desktop: DesktopState | None) -> Iterator[str]:
    # what may be the id of its entry, the surest first
    if desktop is None:
        return
    named = desktop.app.removesuffix(_SUFFIX)
    group = "" if desktop.focus is None else entry_of(desktop.focus.group)
    for name in (named, group, desktop.window_class, desktop.window_class.lower().replace(" ", "-")):
        if name and not name.startswith(_NO_ENTRY):
            yield name


def _running(groups: GroupUsage | None) -> Iterator[str]:
    if groups is not None:
        for path, _ in groups.cpu_us:
            if name := entry_of(path):
                yield name
