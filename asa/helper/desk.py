# SPDX-License-Identifier: GPL-2.0-only
"""The helper's object on the bus: each method says who may, checks what was asked for, and has it done.

Names come from the manifest and numbers are bounded; no path and no argument of a program is ever taken from a caller.
What is refused has changed nothing. The contract is `asa.core.helper_api`: each `Verb` has a method here, which checks
what was asked for, and returns what is to be done once polkit has allowed the verb's action (None: it is done).
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import asa
from asa import wire
from asa.bus import Bus, Method, Object, Property, Request
from asa.core.decision import EEVDF
from asa.core.errors import AsaError, SourceError
from asa.core.helper_api import (
    INTERFACE,
    MOST_READY,
    NO_END,
    NOBODY,
    PATH,
    WHY_CHARACTERS,
    Action,
    Failure,
    LeaseFacts,
    Verb,
)
from asa.helper import vouching
from asa.helper.approvals import Approvals
from asa.helper.authority import Authority, Verdict
from asa.helper.callers import Callers
from asa.helper.hold import MachineHold
from asa.helper.lease import Lease
from asa.helper.machine import Host, Machine, RefusedError
from asa.helper.observers import Observers
from asa.helper.seats import Seats

_MOST_WAITING, _MOST_WAITING_EACH = 16, 8  # requests of a user, and of a connection, that wait for a password
_ROOT = 0

_Then: TypeAlias = Callable[[], None] | None


@dataclass(slots=True, kw_only=True)
class Desk:
    """Takes the requests. `closing` is set when the helper is about to end: then all of them are refused."""

    bus: Bus
    host: Host
    lease: Lease
    observers: Observers
    authority: Authority
    callers: Callers
    seats: Seats
    approvals: Approvals
    hold: MachineHold
    closing: bool = False
    called_s: float = field(default_factory=time.monotonic)
    _waiting: Counter[str] = field(default_factory=Counter)
    _watched: set[str] = field(default_factory=set)

    def object(self) -> Object:
        """What the bus serves."""
        return Object(
            path=PATH,
            interface=INTERFACE,
            methods={verb.member: self._method(verb) for verb in Verb},
            properties={
                "Version": self._property("s", lambda: asa.__version__),
                "Way": self._property("s", lambda: self.lease.way),
                "State": self._property("s", self.host.in_force),
                "Holder": self._property("u", lambda: NOBODY if self.lease.machine is None else self.lease.uid),
                "HeldUntil": self._property("t", self._held_until),
                "Approved": self._property("as", lambda: list(self._approved_or_none())),
                "Standbys": self._property("s", self._standbys),
            },
            signals={"Event": "s", "LeaseLost": "s", "ProbesLost": "s"},
        )

    def idle(self) -> bool:
        """Nobody has, reads or waits for anything."""
        return self.lease.machine is None and not self.observers and not self._waiting

    def seats_changed(self) -> None:
        """Somebody else may sit at the machine now: who does not, loses what came with it."""
        active = self.seats.active()
        if self.lease.uid != _ROOT and active is not None and self.lease.uid not in active:
            self.lease.end("the session of this user is no longer the one at the machine")
        self.observers.seats_changed(active)

    def _acquire(self, request: Request) -> _Then:
        if self.lease.machine is not None and self.lease.holder == request.sender:
            self._lend(request, self.lease.machine)
            return None
        self._check_free()

        def known(uid: int | None) -> None:
            self._guarded(request, lambda: self._take(request, uid))

        return lambda: self.callers.uid_of(request.sender, known)

    def _check_free(self) -> None:
        if self.lease.machine is not None:
            raise RefusedError(Failure.BUSY, f"user {self.lease.uid} has the lease")
        if self.hold.active():
            raise RefusedError(Failure.HELD, "an administrator wants nothing switched; see `asa machine status`")

    def _take(self, request: Request, uid: int | None) -> None:
        if uid is None:
            raise RefusedError(Failure.NOT_AUTHORIZED, "the bus does not say whose call this is")
        self._check_free()  # again: a password may have taken a minute
        self._check_in_front(uid)
        holder = request.sender
        machine = self.lease.take(holder, uid)
        self.callers.pid_of(holder, lambda pid: self.lease.follow(holder, pid))
        self._lend(request, machine)

    def _check_in_front(self, uid: int) -> None:
        active = self.seats.active()
        if uid != _ROOT and active is not None and uid not in active:
            raise RefusedError(Failure.NOT_ACTIVE, f"no session of user {uid} is the one at the machine now")

    def _lend(self, request: Request, machine: Machine) -> None:
        facts = LeaseFacts(way=machine.way, no_gate=machine.no_gate, approved=self._approved_or_none())
        request.answer(wire.json_text(facts))

    def _release(self, request: Request) -> _Then:
        self.lease.end("it was given back", tell=False)
        request.answer()
        return None

    def _switch(self, request: Request) -> _Then:
        name, why = request.body
        target, reason = self.host.known(name), _one_line(why)

        def begin() -> None:
            self.lease.of(request.sender).begin(target, reason)
            request.answer()

        if target == EEVDF or target in self._approved_or_none():
            begin()
            return None
        return begin

    def _keep_ready(self, request: Request) -> _Then:
        (names,) = request.body
        machine = self.lease.of(request.sender)
        if len(names) > MOST_READY:
            raise RefusedError(
                Failure.REFUSED, f"{len(names)} schedulers are more than the {MOST_READY} that may stand by"
            )
        wanted = tuple([self.host.known(name) for name in names])
        approved = self._approved()
        for name in wanted:
            if name != EEVDF and name not in approved:
                raise RefusedError(Failure.NOT_AUTHORIZED, f"{name} is not approved by an administrator")
        machine.keep_ready(wanted)
        request.answer()
        return None

    def _probes(self, request: Request) -> _Then:
        def known(uid: int | None) -> None:
            self._guarded(request, lambda: self._hand_over(request, uid))

        return lambda: self.callers.uid_of(request.sender, known)

    def _hand_over(self, request: Request, uid: int | None) -> None:
        if uid is None:
            raise RefusedError(Failure.NOT_AUTHORIZED, "the bus does not say whose call this is")
        if not self.observers and self.lease.machine is not None and self.lease.holder != request.sender:
            # loading them may take a minute, in which nobody would hear that the holder has gone
            raise RefusedError(Failure.BUSY, f"user {self.lease.uid} has the lease, and does not want the probes")
        if not request.interactive:  # no password was asked for: polkit may only have heard of a user switch before us
            self._check_in_front(uid)
        active = self.seats.active()
        try:
            handover = self.observers.add(request.sender, at_seat=None if active is None or uid not in active else uid)
        except SourceError as error:
            raise RefusedError(Failure.NOT_POSSIBLE, str(error)) from error
        self._watch(request.sender)
        request.answer(handover.map_fd, wire.json_text(handover.facts))

    def _hold(self, request: Request) -> _Then:
        (seconds,) = request.body

        def hold() -> None:
            try:
                self.hold.set(seconds)
            finally:  # it may hold although it could not be written down
                if self.hold.active():
                    self.lease.end("an administrator wants nothing switched")
            request.answer()

        return hold

    def _resume(self, request: Request) -> _Then:
        def resume() -> None:
            self.hold.clear()
            request.answer()

        return resume

    def _approve(self, request: Request) -> _Then:
        name, approved = request.body
        target = self.host.known(name)

        def approve() -> None:
            self.approvals.set(target, approved)
            if not approved and self.lease.machine is not None and self.lease.machine.uses(target):
                self.lease.end(f"{target} is no longer approved")
            request.answer()

        return approve

    def _vouch(self, request: Request) -> _Then:
        name, text = request.body
        target, said = self.host.known(name), vouching.read(text)

        def vouch() -> None:
            token = vouching.vouch(self.host.portfolio, target, said)
            self.host.say(f"{target} has a token for kernel {token.kernel}: {', '.join(token.stages)} were passed")
            request.answer()

        return vouch

    def _approved(self) -> tuple[str, ...]:
        return tuple(sorted(self.approvals.approved(self.host.installed())))

    def _approved_or_none(self) -> tuple[str, ...]:
        try:
            return self._approved()
        except AsaError as error:
            self.host.say(f"{error}; no scheduler counts as approved")
            return ()

    def _held_until(self) -> int:
        until_ns = self.hold.until_ns()
        return 0 if until_ns is None else until_ns or NO_END

    def _standbys(self) -> str:
        machine = self.lease.machine
        return wire.json_text(() if machine is None else machine.standbys())

    def _ask(self, request: Request, action: Action, go: Callable[[], None]) -> None:
        # Later, and only if polkit says so.
        sender, busy = request.sender, "too many requests wait for an answer of polkit; ask again later"
        if self._waiting.get(sender, 0) >= _MOST_WAITING_EACH:
            raise RefusedError(Failure.BUSY, busy)
        self._waiting[sender] += 1
        self._watch(sender)

        def decided(verdict: Verdict) -> None:
            self._settle(sender)
            if verdict.allowed:
                self._guarded(request, go)
            else:
                request.fail(Failure.NOT_AUTHORIZED, verdict.reason)

        def known(uid: int | None) -> None:
            if uid != _ROOT and self._waiting_of(uid) > _MOST_WAITING:
                self._settle(sender)
                request.fail(Failure.BUSY, busy)
            else:
                self.authority.ask(sender, action, interactive=request.interactive, then=decided)

        self.callers.uid_of(sender, known)

    def _waiting_of(self, uid: int | None) -> int:
        # by user: nobody is to take the places of others
        return sum(count for sender, count in self._waiting.items() if self.callers.known_uid(sender) == uid)

    def _settle(self, sender: str) -> None:
        self._waiting[sender] -= 1
        if self._waiting[sender] <= 0:
            del self._waiting[sender]

    def _watch(self, sender: str) -> None:
        if sender not in self._watched:
            self._watched.add(sender)
            self.callers.on_gone(sender, lambda: self._gone(sender))

    def _gone(self, sender: str) -> None:
        self._watched.discard(sender)
        del self._waiting[sender]  # a Counter does not mind; the questions are taken back by whom they were asked of
        self.observers.drop(sender)
        if self.lease.holder == sender:
            self.lease.end("its connection has ended", tell=False)

    def _guarded(self, request: Request, do: Callable[[], None]) -> None:
        # What is refused on purpose is an answer. Everything else is a fault of ours, which ends the helper.
        if self.closing:
            request.fail(Failure.BUSY, "the helper is just ending; ask again")
            return
        try:
            do()
        except RefusedError as refusal:
            request.fail(refusal.failure, str(refusal))
        except AsaError as error:
            request.fail(Failure.REFUSED, str(error))

    def _method(self, verb: Verb) -> Method:
        call = verb.value
        run: Callable[[Request], _Then] = getattr(self, f"_{verb.name.lower()}")

        def begin(request: Request) -> None:
            if call.lease:
                self.lease.of(request.sender)
            then = run(request)
            if then is not None:
                assert call.action is not None, verb  # noqa: S101  # by lease alone: nothing is left to be allowed
                self._ask(request, call.action, then)

        def taken(request: Request) -> None:
            self.called_s = time.monotonic()
            self._guarded(request, lambda: begin(request))

        return Method(takes=call.takes, gives=call.gives, run=taken, arguments=call.names, doc=call.doc)

    def _property(self, signature: str, read: Callable[[], Any]) -> Property:
        def reading() -> Any:
            self.called_s = time.monotonic()
            return read()

        return Property(signature=signature, read=reading)


def _one_line(why: str) -> str:
    # It goes into the log and into journals: nothing that a terminal would obey.
    return "".join(letter for letter in " ".join(why.split()) if letter.isprintable())[:WHY_CHARACTERS]
