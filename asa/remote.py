# SPDX-License-Identifier: GPL-2.0-only
"""What the user daemon has instead of root: the helper's switcher and probes, its lease, sleep and notifications.

Everything here lives on two connections to the buses; that of the system wakes the loop through the switcher's
descriptors, that of the session is looked after once a tick.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from asa.act.helper_link import HelperLink
from asa.act.portfolio import Portfolio
from asa.act.remote import RemoteSwitcher
from asa.act.remote_probes import ProbeFetch
from asa.bus import Bus, BusError
from asa.config import SwitchSettings
from asa.core.decision import Permit
from asa.core.ports import Clock
from asa.notify import Notifier
from asa.reporter import How
from asa.sleep import SleepWatch
from asa.status import Status
from collectors.ebpf.remote import RemoteProbes

_SESSION_AGAIN_S = 300.0  # until the session's bus is tried again
_LOAD_LIMIT_S = 120.0  # for a scheduler to load in the helper: lavd takes 59 s in an emulated guest (docs/lab.md)


@dataclass(slots=True, kw_only=True)
class Remote:
    """Made by `open`, closed by who made it."""

    link: HelperLink
    probes: RemoteProbes
    say: Callable[[str], None]
    _fetch: ProbeFetch
    _clock: Clock
    _notifier: Notifier
    _session: Bus | None = None
    _session_again_ns: int = 0
    _told: str = ""
    _last: Status | None = None
    _sleep: SleepWatch | None = None
    _switcher: RemoteSwitcher | None = None

    @classmethod
    def open(cls, clock: Clock, say: Callable[[str], None], *, observe: bool) -> Self:
        """Connect to nobody yet but the session's bus, which may be missing. Never raises."""
        link = HelperLink(Bus.system, clock, say, observe=observe)
        fetch = ProbeFetch(link)
        probes = RemoteProbes(fetch)

        def gone() -> None:
            fetch.lost()
            probes.lost()

        link.on_gone.append(gone)
        made = cls(link=link, probes=probes, say=say, _fetch=fetch, _clock=clock, _notifier=Notifier(None))
        made._open_session()
        link.on_connect.append(made._connected)
        return made

    def switcher(self, portfolio: Portfolio, clock: Clock, sys: Path, limits: SwitchSettings) -> RemoteSwitcher:
        """The switcher over the helper's lease."""
        limit_s = _LOAD_LIMIT_S + limits.attach_limit_s + limits.stop_limit_s
        made = RemoteSwitcher(link=self.link, portfolio=portfolio, clock=clock, sys=sys, answer_limit_s=limit_s)
        self._switcher = made
        return made

    def lacking(self) -> str:
        """Why nothing is switched now, "" when it is."""
        return self.link.lacking

    def permit(self) -> Permit:
        """What may be done now."""
        facts = self.link.facts
        return Permit(switch=facts is not None, stand_by=facts is not None and facts.way == "gated")

    def how(self) -> How:
        """The same for people."""
        facts = self.link.facts
        if facts is None:
            return How(way="", no_gate="", mode_reason=self.link.lacking)
        return How(way=facts.way, no_gate=facts.no_gate, mode_reason="")

    def published(self, status: Status) -> None:
        """After each tick: tell the person what they should know, and look after the session's bus. Never raises."""
        if self._fetch.news():
            self.probes.again()
        self._notifier.news(self._last, status)
        self._last = status
        if self._sleep is not None:
            try:
                self._sleep.tick()
            except BusError:  # the link will notice
                return
        self._look_after_session()

    def _look_after_session(self) -> None:
        if self._session is None:
            if self._clock.monotonic_ns() >= self._session_again_ns:
                self._open_session()
            return
        try:
            self._session.advance()
        except BusError as error:
            self._session.close()
            self._without_notifications(error)

    def _open_session(self) -> None:
        try:
            self._session = Bus.session()
        except BusError as error:
            self._without_notifications(error)
        else:
            self._notifier, self._told = Notifier(self._session), ""

    def _without_notifications(self, error: BusError) -> None:
        if str(error) != self._told:
            self._told = str(error)
            self.say(f"going on without notifications: {error}")
        self._session, self._notifier = None, Notifier(None)
        self._session_again_ns = self._clock.monotonic_ns() + int(_SESSION_AGAIN_S * 1e9)

    def close(self) -> None:
        """Leave both buses."""
        if self._sleep is not None:
            self._sleep.close()
        self.link.close()
        if self._session is not None:
            self._session.close()

    def _connected(self, bus: Bus) -> None:
        if self._sleep is not None:
            self._sleep.close()
        self._sleep = SleepWatch(bus, self._before_sleep, self._after_sleep, self._clock, self.say)

    def _before_sleep(self) -> None:
        if self._switcher is not None:  # a parked scheduler would be frozen in its system call
            self._switcher.asleep = True
            self._switcher.keep_ready(())

    def _after_sleep(self) -> None:
        if self._switcher is not None:
            self._switcher.asleep = False
