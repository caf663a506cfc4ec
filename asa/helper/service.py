# SPDX-License-Identifier: GPL-2.0-only
"""The helper's loop: one wait for the bus, the switcher, signals and systemd's watchdog.

On every way out the kernel is as it was before (`Lease.end`); after SIGKILL schedulers end with their parent, and the
next start clears the rest. What nobody expected ends the loop, after that, with a traceback: systemd starts it anew.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from asa import inbox as inboxes
from asa import paths
from asa.bus import BUS, Bus, BusError
from asa.core.errors import AsaError
from asa.core.helper_api import BUS_NAME
from asa.helper.approvals import Approvals
from asa.helper.authority import Authority
from asa.helper.callers import Callers
from asa.helper.desk import Desk
from asa.helper.hold import MachineHold
from asa.helper.lease import Lease
from asa.helper.machine import Host, Machine
from asa.helper.observers import Observers
from asa.helper.probes import Probes
from asa.helper.seats import Seats
from asa.sd_notify import ServiceManager

IDLE_S = 60.0
"""Without a lease and without a call for so long the helper ends: the bus starts it again when it is wanted."""

_SHARE_S, _DEAF_S = 0.2, 0.1  # of processor time a second for what comes from the bus; then we do not listen so long
_SECOND_S = 1.0


class Service:
    """Everything the helper opened. `open_machine` is for tests: what a lease is about."""

    def __init__(
        self,
        bus: Bus,
        host: Host,
        manager: ServiceManager,
        *,
        open_machine: Callable[[], Machine] | None = None,
        idle_s: float = IDLE_S,
    ) -> None:
        """Raises AsaError when something that it needs is wrong; nothing on the machine has changed then."""
        self._bus, self._host, self._manager, self._idle_s = bus, host, manager, idle_s
        self._since_s = self._used_s = self._deaf_until_s = 0.0
        self._lease = Lease(
            bus=bus,
            open_machine=open_machine or (lambda: Machine.open(host)),
            say=host.say,
            patience=manager.patience,
            stop_limit_s=host.settings.switch.stop_limit_s,
        )
        places = host.places
        self._probes = Probes(places.proc, places.sys, host.settings.collect.ebpf)
        self._observers = Observers(bus=bus, probes=self._probes, patience=manager.patience)
        callers = Callers(bus)
        self._desk = Desk(
            bus=bus,
            host=host,
            lease=self._lease,
            observers=self._observers,
            authority=Authority(bus, callers),
            callers=callers,
            seats=Seats(bus, self._seats_changed),
            approvals=Approvals(places.state / "approvals.json"),
            hold=MachineHold(places.state / "hold.json", time.time_ns, host.say),
        )

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT, or until nobody wants anything. 1: something of ours is left in the kernel.

        Raises BusError when the bus goes, or somebody else has the name.
        """
        with inboxes.signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as inbox:
            try:
                self._manager.patience(4 * self._host.settings.switch.stop_limit_s)
                self._host.clear_up()
                self._manager.patience(None)
                self._bus.serve(self._desk.object())
                self._bus.own(BUS_NAME)
                self._manager.ready()
                while True:
                    self._hear()
                    self._lease.advance()
                    self._probes.tick()
                    self._desk.seats.tick()
                    self._manager.alive()
                    if not self._lease.clean or self._idle() or self._wait(inbox):
                        break
            finally:
                self._manager.stopping()
                self._lease.end("the helper is ending")
                self._observers.close("the helper is ending")
                self._bus.close()
        if not self._lease.clean:
            self._host.say("ended, but a scheduler of ours is still in force; a restart stops it, or Alt-SysRq-S")
        return 0 if self._lease.clean else 1

    def _seats_changed(self) -> None:
        self._desk.seats_changed()

    def _idle(self) -> bool:
        if not self._desk.idle() or time.monotonic() - self._desk.called_s < self._idle_s:
            return False
        # Whoever calls from now on is kept waiting by systemd until the next one is there; who was faster asks again.
        self._desk.closing = True
        self._manager.stopping()
        with suppress(BusError):
            self._bus.ask(*BUS, "ReleaseName", "s", (BUS_NAME,))
            self._bus.advance()
        return True

    def _wait(self, inbox: int) -> bool:
        """Sleep until there is something to do. True when it is time to end."""
        deaf_s = max(0.0, self._deaf_until_s - time.monotonic())
        wanted_s = [self._lease.look_in_s(), deaf_s or self._bus.due_in_s(), self._probes.due_in_s()]
        wanted_s.append(self._desk.seats.due_in_s())
        if self._manager.watchdog_s is not None:
            wanted_s.append(self._manager.watchdog_s / 3)
        if self._desk.idle():
            wanted_s.append(max(0.0, self._desk.called_s + self._idle_s - time.monotonic()))
        timeout_s = min((one for one in wanted_s if one is not None), default=None)
        heard = [inbox] if deaf_s else [inbox, self._bus.fileno()]
        ready = select.select([*heard, *self._lease.descriptors()], [], [], timeout_s)[0]
        if inbox not in ready:
            return False
        received = set(os.read(inbox, 64))
        if signal.SIGHUP in received:
            self._reload()
        return bool(received & {signal.SIGINT, signal.SIGTERM})

    def _hear(self) -> None:
        # With a lease this is a real-time task: nobody is to starve the machine, or a switch, by calling it.
        now_s, used_s = time.monotonic(), time.process_time()
        if now_s < self._deaf_until_s:
            return
        if now_s - self._since_s >= _SECOND_S:
            self._since_s, self._used_s = now_s, 0.0
        self._bus.advance()
        self._used_s += time.process_time() - used_s
        if self._used_s > _SHARE_S and self._lease.machine is not None:
            self._deaf_until_s = time.monotonic() + _DEAF_S

    def _reload(self) -> None:
        try:
            self._host.reload()
        except AsaError as error:
            self._host.say(f"{error}; keeping the settings in force")
        else:
            self._probes.renew(self._host.settings.collect.ebpf)
            self._host.say("settings read again; a lease, and probes that are loaded, keep those that they began with")


def serve(address: str, config_path: Path | None, places: paths.Places, say: Callable[[str], None]) -> int:
    """Open everything and run. `address`: system, session, or a D-Bus address. Raises AsaError."""
    connect = {"system": Bus.system, "session": Bus.session}.get(address, lambda: Bus.open(address))
    host = Host.open(places, config_path, say=say, connect=connect)
    manager, bus = ServiceManager(), connect()
    try:
        service = Service(bus, host, manager)
    except BaseException:
        bus.close()
        raise
    return service.run()
