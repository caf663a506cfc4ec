# SPDX-License-Identifier: GPL-2.0-only
"""The user's word that is still in force: a hold, on a scheduler chosen by hand or on what runs. Pure.

It knows the user's word alone: holds for other reasons are the policy's (`asa.decide.policy`), which also obeys.
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
    """A hold by the user."""

    until_ns: int | None  # CLOCK_REALTIME; None: until told to resume
    until: str  # the same for people
    scheduler: SchedulerName | None = None  # chosen by hand: in force, or on its way
    lost: str = ""  # what became of the one that had been chosen

    def over(self, wall_ns: int) -> bool:
        """Has its time come?"""
        return self.until_ns is not None and wall_ns >= self.until_ns

    @property
    def words(self) -> str:
        """Why nothing is switched, and until when."""
        by = "held by the user" if self.scheduler is None else f"held by the user on {self.scheduler}"
        text = f"{by} until {self.until or '`asa resume`'}"
        return f"{self.lost}; {text}" if self.lost else text


def hold(order: Order, earlier: Held | None) -> Held:
    """The user says that nothing is to be switched; what they chose by hand before stays chosen."""
    scheduler = earlier.scheduler if earlier is not None else None
    return Held(until_ns=order.until_ns, until=order.until, scheduler=scheduler)


def choose(order: Order) -> Held:
    """The user says what is to run."""
    return Held(until_ns=order.until_ns, until=order.until, scheduler=order.scheduler)


def chose_no_more(held: Held | None) -> Held | None:
    """Somebody else has decided what runs; that nothing is switched still holds."""
    return None if held is None else replace(held, scheduler=None)


def failed(held: Held, event: SwitchEvent) -> Held:
    """What was chosen by hand has not come up, or has ended; the hold goes on."""
    why = event.exit.reason if event.exit is not None else event.detail
    lost = f"{event.new}, chosen by hand, {_DID[event.outcome]}"
    return replace(held, scheduler=None, lost=f"{lost} ({why})" if why else lost)
