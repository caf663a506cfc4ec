# SPDX-License-Identifier: GPL-2.0-only
"""The part of the switch benchmark that runs in a guest, as root: `python -m calibration.switch.guest`.

Makes switches by the agent's own switchers, driven as its loop drives them, in blocks that take turns (stop-then-start,
gated, from a standby, the kernel alone), and writes what happened to one JSON file. Judges nothing. Each block leaves
the kernel on its own scheduler.
"""

import argparse
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from asa import host, paths
from asa.act.gated.switcher import GatedSwitcher
from asa.act.plain import PlainSwitcher
from asa.act.portfolio import Portfolio
from asa.act.priority import go_first
from asa.act.undo import UndoJournal
from asa.clock import SystemClock
from asa.config import SwitchSettings
from asa.core.decision import SchedulerName, SwitchEvent, SwitchOutcome, Way
from asa.core.errors import AsaError
from asa.core.ports import Switcher
from calibration.switch import external_change
from calibration.switch.programs import Floor, Seen, beside
from calibration.switch.samples import ROTA, External, Found, Kind, Lateness, Step, Swap, Switch, write
from calibration.switch.waiting import Waiting

_SYS = Path("/sys")
_SIMPLE = SchedulerName("scx_simple")
_TICK_S = 1.0  # the agent's own
_LIMIT_S = 180.0  # for one load; emulated, on a host that others use
_CALM_S = 1.0  # after a switch or a load: what it has left to do is done before the next order
_QUIET_S = 5.0
_EXTERNAL_SHARE = 4  # one run of four changes for so many switches
_KINDS = (Kind.PLAIN, Kind.GATED, Kind.STANDBY)
_WAYS = {Kind.PLAIN: Way.PLAIN, Kind.GATED: Way.GATED, Kind.STANDBY: Way.STANDBY}


def say(line: str) -> None:
    """Progress, for who waits outside."""
    print(line, flush=True)


class Loop:
    """A switcher, and the wait that the agent's loop does for it."""

    def __init__(self, switcher: Switcher, inbox: int) -> None:
        self.switcher = switcher
        self._inbox = inbox

    def until(self, done: Callable[[SwitchEvent | None], bool], limit_s: float) -> SwitchEvent | None:
        """Serve it until `done`, which is asked after each poll. Raises AsaError after `limit_s`."""
        end_s = time.monotonic() + limit_s
        while True:
            event = self.switcher.poll()
            if done(event):
                return event
            if event is not None and event.outcome is not SwitchOutcome.CONFIRMED:
                raise AsaError(f"{event.old} -> {event.new} {event.outcome}: {event.detail}")
            left_s = end_s - time.monotonic()
            if left_s <= 0.0:
                raise AsaError(f"the switcher was not done within {limit_s:g} s")
            look_in_s = self.switcher.look_in_s()
            timeout_s = min(_TICK_S, left_s, _TICK_S if look_in_s is None else look_in_s)
            if self._inbox in select.select([self._inbox, *self.switcher.descriptors()], [], [], timeout_s)[0]:
                os.read(self._inbox, 64)

    def calm(self, seconds: float = _CALM_S) -> None:
        """Serve it for a while in which nothing is ordered."""
        end_s = time.monotonic() + seconds
        self.until(lambda _: time.monotonic() >= end_s, seconds + _LIMIT_S)

    def have_ready(self, name: SchedulerName) -> None:
        """Have a standby, and wait until it is ready."""

        def ready(_: SwitchEvent | None) -> bool:
            self.switcher.keep_ready((name,))
            return any(one.ready and one.scheduler == name for one in self.switcher.standbys())

        self.until(ready, _LIMIT_S)

    def order(self, kind: Kind, target: SchedulerName) -> tuple[Switch, tuple[int, int]]:
        """A switch, timed from here, and when it began and ended. Raises AsaError unless it is confirmed in its way."""
        old = self.switcher.current()
        first_out_ns: list[int] = []  # a switcher that tells no gap: the first look that finds the old one gone

        def ended(event: SwitchEvent | None) -> bool:
            if event is None and kind is Kind.PLAIN and not first_out_ns and self.switcher.current() != old:
                first_out_ns.append(time.monotonic_ns())
            return event is not None

        start_ns = time.monotonic_ns()
        self.switcher.begin(target, "the benchmark's rota")
        event = self.until(ended, _LIMIT_S)
        end_ns = time.monotonic_ns()
        assert event is not None  # noqa: S101  # `ended` is true of events only
        if event.outcome is not SwitchOutcome.CONFIRMED or event.way is not _WAYS[kind]:
            raise AsaError(f"{old} -> {target}: {event.outcome}, {event.way} in place of {kind}: {event.detail}")
        gap_ns = event.gap_ns
        if gap_ns is None and first_out_ns:
            gap_ns = event.monotonic_ns - first_out_ns[0]
        found = Switch(
            kind=kind,
            old=event.old,
            new=event.new,
            took_ns=event.monotonic_ns - start_ns,
            told_ns=end_ns - start_ns,
            gap_ns=gap_ns,
            load_ns=event.load.wall_ns if event.load is not None else None,
            steps=tuple(Step(name=step.name, at_ns=step.at_ns) for step in event.steps),
        )
        return found, (start_ns, event.monotonic_ns)


@dataclass(slots=True, kw_only=True)
class Bench:
    """Where things are, and what was found so far."""

    portfolio: Portfolio
    programs: Path
    run: Path  # undo journal, logs; gone with the guest
    inbox: int  # readable when a child has ended: what the agent's loop has, too
    switches: list[Switch] = field(default_factory=list)
    floor: list[Swap] = field(default_factory=list)
    kernels: list[Swap] = field(default_factory=list)
    lateness: list[Lateness] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def block(self, kind: Kind, ring: tuple[SchedulerName, ...], count: int) -> None:
        """The ring's first scheduler, then `count` timed switches along it, then one beside which the probes run."""
        switcher = self._switcher(kind)
        loop = Loop(switcher, self.inbox)
        try:
            switcher.begin(ring[0], "the benchmark's first")
            loop.until(lambda event: event is not None and event.new == ring[0], _LIMIT_S)
            for number in range(count + 1):
                self._switch(loop, kind, ring[(number + 1) % len(ring)], witnessed=number == count)
        except AsaError as error:
            self.troubles.append(f"{kind}: {error}")
        finally:
            if not switcher.rest():
                self.troubles.append(f"{kind}: something was left in force")

    def alone(self, ring: tuple[SchedulerName, ...], count: int) -> None:
        """`count` of the kernel's own exchanges of either kind; a trouble noted when it refuses one of them."""
        fresh = [ring[place % len(ring)] for place in range(count + 1)]
        floor = Floor(self.programs)
        try:
            with Waiting((_SIMPLE, _SIMPLE), self.portfolio, self.run) as waiting:
                self.floor += waiting.swaps(floor, count)
            with Waiting(fresh, self.portfolio, self.run) as waiting:
                self.kernels += waiting.swaps(floor, count)
        except AsaError as error:
            self.troubles.append(f"the kernel alone: {error}")
        finally:
            floor.close()

    def _switch(self, loop: Loop, kind: Kind, target: SchedulerName, *, witnessed: bool) -> None:
        if kind is Kind.STANDBY:
            loop.have_ready(target)
        loop.calm()
        if not witnessed:
            self._took(loop.order(kind, target)[0])
            return
        with beside(self.programs, self.run) as seen:
            loop.calm()
            found, window = loop.order(kind, target)
            loop.calm()
            quiet_ns = time.monotonic_ns()
            if kind is Kind.STANDBY:
                loop.calm(_QUIET_S)
            quiet = (quiet_ns, time.monotonic_ns())
        self.lateness.append(_lateness(kind, seen, window))
        if kind is Kind.STANDBY:
            self.lateness.append(_lateness(Kind.QUIET, seen, quiet))
        self._took(msgspec.structs.replace(found, witnessed=True, seen_gap_ns=seen.gap_ns(*window)))

    def _took(self, found: Switch) -> None:
        gap = "untold" if found.gap_ns is None else f"{found.gap_ns / 1e6:.2f} ms"
        say(f"{found.kind}: {found.old} -> {found.new} {found.took_ns / 1e6:.2f} ms, gap {gap}")
        self.switches.append(found)

    def _switcher(self, kind: Kind) -> Switcher:
        undo = UndoJournal(self.run / "undo.json")
        limits = SwitchSettings(attach_limit_s=_LIMIT_S, stop_limit_s=60.0)
        logs, clock = self.run / "logs", SystemClock()
        if kind is Kind.PLAIN:
            return PlainSwitcher(portfolio=self.portfolio, undo=undo, clock=clock, limits=limits, sys=_SYS, logs=logs)
        return GatedSwitcher(
            portfolio=self.portfolio, undo=undo, clock=clock, limits=limits, sys=_SYS, logs=logs, run=self.run
        )


def _lateness(kind: Kind, seen: Seen, window: tuple[int, int]) -> Lateness:
    wakeups, worst_ns = seen.worst_ns(*window)
    return Lateness(kind=kind, window_ns=window[1] - window[0], wakeups=wakeups, worst_ns=worst_ns)


def measure(bench: Bench, switches: int) -> Found:
    """`switches` of each kind, in rounds as long as the rota. Raises AsaError when a scheduler does not even load."""
    rounds = -(-switches // len(ROTA))
    say("schedulers that wait")
    with Waiting(ROTA, bench.portfolio, bench.run) as waiting:
        parked = tuple(waiting.cost())
    for number in range(rounds):
        count = min(len(ROTA), switches - number * len(ROTA))
        first = number % len(ROTA)
        ring = ROTA[first:] + ROTA[:first]
        turn = number % len(_KINDS)  # no kind is always the first after the rest
        for kind in _KINDS[turn:] + _KINDS[:turn]:
            say(f"round {number + 1} of {rounds}: {kind}")
            bench.block(kind, ring, count)
            if kind is Kind.STANDBY:  # what it is compared with comes right after it
                bench.alone(ring, count)
    say("changes from outside")
    return Found(
        kernel=os.uname().release,
        cpus=host.cpus(),
        rounds=rounds,
        rota=ROTA,
        switches=tuple(bench.switches),
        floor=tuple(bench.floor),
        kernels=tuple(bench.kernels),
        parked=parked,
        lateness=tuple(bench.lateness),
        external=_external(bench, -(-switches // _EXTERNAL_SHARE)),
        troubles=tuple(bench.troubles),
    )


def _external(bench: Bench, runs: int) -> tuple[External, ...]:
    try:
        seen = external_change.measure(runs, portfolio=bench.portfolio)
    except AsaError as error:
        bench.troubles.append(f"changes from outside: {error}")
        return ()
    return tuple(External(change=one.change, event_ms=one.event_ms, poll_ms=one.poll_ms) for one in seen)


def main(words: list[str]) -> int:
    """Entry point. Exit code 1 with one line on stderr when nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m calibration.switch.guest")
    parser.add_argument("--programs", type=Path, required=True, help="folder of the compiled C programs")
    parser.add_argument("--json", type=Path, required=True, help="file to write")
    parser.add_argument("--switches", type=int, default=20)
    arguments = parser.parse_args(words)
    places = paths.default()
    owner = places.cache.stat().st_uid  # who built the schedulers on the host
    go_first()
    inbox, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        portfolio = Portfolio.load(paths.manifest(), places.schedulers, owners=[owner])
        places.run.mkdir(parents=True, exist_ok=True)
        bench = Bench(portfolio=portfolio, programs=arguments.programs, run=places.run, inbox=inbox)
        write(measure(bench, arguments.switches), arguments.json)
    except AsaError as error:
        print(f"switch_guest: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
