# SPDX-License-Identifier: GPL-2.0-only
"""The word that is still in force, of the user or of a client: a hold, on a scheduler chosen by hand or on what runs.
Pure.

Holds for other reasons are the policy's (`asa.decide.policy`), which also obeys. A client's word (`asa mcp`) is worth
less than the user's: the guard judges what it chose, it ends with its lease, and what served before then comes back.
"""

from dataclasses import dataclass, replace

from asa.core.decision import Order, SchedulerName, SwitchEvent, SwitchOutcome

_DID = {
    SwitchOutcome.REFUSED: "could not be loaded, and what ran goes on",
    SwitchOutcome.FAILED: "did not come up, and the kernel is on eevdf",
    SwitchOutcome.LOST: "ended by itself, and the kernel is on eevdf",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A hold by the user, or by a client."""

    until_ns: int | None  # CLOCK_REALTIME; None: until told to resume
    until: str  # the same for people
    scheduler: SchedulerName | None = None  # chosen by hand: in force, or on its way
    lost: str = ""  # what became of the one that had been chosen
    client: str = ""  # "": the user
    lease: str = ""
    back: SchedulerName | None = None  # what served before a client's trial
    returning: bool = False  # the trial is over; `scheduler` is what served before it

    def over(self, wall_ns: int) -> bool:
        """Has its time come?"""
        return self.until_ns is not None and wall_ns >= self.until_ns

    @property
    def words(self) -> str:
        """Why nothing is switched, and until when."""
        if self.returning:
            return f"the trial by {self.client} is over: back to {self.scheduler}"
        who = f"the client {self.client}" if self.client else "the user"
        by = f"held by {who}" if self.scheduler is None else f"held by {who} on {self.scheduler}"
        text = f"{by} until {self.until or '`asa resume`'}"
        return f"{self.lost}; {text}" if self.lost else text

    @property
    def choice(self) -> str:
        """Why it is switched."""
        if self.returning:
            return self.words
        return f"the client {self.client} tries {self.scheduler}" if self.lease else f"the user chose {self.scheduler}"


def hold(order: Order, earlier: Held | None) -> Held:
    """Nothing is to be switched; what the user chose by hand before stays chosen, what a client tried goes."""
    scheduler = None if earlier is None else earlier.back if earlier.client else earlier.scheduler
    return Held(until_ns=order.until_ns, until=order.until, scheduler=scheduler, client=order.client, lease=order.lease)


def choose(order: Order, earlier: Held | None, current: SchedulerName | None) -> Held:
    """Somebody says what is to run. After a client's trial what ran before its first change comes back."""
    back = earlier.back if earlier is not None and earlier.back is not None else current
    return Held(
        until_ns=order.until_ns,
        until=order.until,
        scheduler=order.scheduler,
        client=order.client,
        lease=order.lease,
        back=back if order.client and not order.kept else None,
    )


def heeds(held: Held | None, order: Order, outside: str) -> bool:
    """Does the order count? A client's does not against the user's word, nor where a stranger or SysRq has the say."""
    return not order.client or (not outside and (held is None or bool(held.client)))


def ended(held: Held) -> Held | None:
    """A word whose time is over, or which was taken back: None, but after a trial what served before it is due."""
    if held.back is None or held.returning:
        return None
    return Held(until_ns=None, until="", scheduler=held.back, client=held.client, returning=True)


def lapsed(held: Held | None, lease: str) -> Held | None:
    """After the end of a lease."""
    return ended(held) if held is not None and lease and held.lease == lease else held


def chose_no_more(held: Held | None) -> Held | None:
    """Somebody else has decided what runs; that nothing is switched still holds, where it was the user's word."""
    return None if held is None or held.client else replace(held, scheduler=None)


def failed(held: Held, event: SwitchEvent) -> Held:
    """What was chosen by hand has not come up, or has ended; the hold goes on."""
    why = event.exit.reason if event.exit is not None else event.detail
    lost = f"{event.new}, chosen by hand, {_DID[event.outcome]}"
    return replace(held, scheduler=None, lost=f"{lost} ({why})" if why else lost)
