# SPDX-License-Identifier: GPL-2.0-only
"""What a client says the machine is used for now (`asa mcp`, `hint`): evidence beside the model, never a switch. Pure.

It counts as an adviser's word does (`asa.decide.knowledge`): the odds of two labels change by a bounded factor, and the
votes still decide. The half of it that the model itself contradicts is silent. It ends with its time, with its lease
(`asa.lease`), or when the user says `asa resume`. What it is worth, and what lies cost: docs/mcp.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from asa.core.decision import Judgement, Order, Workload
from asa.core.evidence import Evidence
from asa.core.kinds import Kind, halves
from asa.decide.knowledge import MOST_ADVISED, contradicted


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A client's word. `said` counts the ticks since in which the model named a class by itself."""

    use: Workload  # a label of kinds
    sure: float  # 0..1
    until_ns: int | None  # CLOCK_REALTIME
    until: str  # the same for people
    client: str
    lease: str
    said: Mapping[Workload, int] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[Kind | None, Kind | None]:
        """Those of its halves that the model does not contradict."""
        front, back = halves(self.use)
        return (
            None if front is None or contradicted(self.said, front) else front,
            None if back is None or contradicted(self.said, back) else back,
        )


def of_order(order: Order) -> Told:
    """The word of an order of that kind."""
    return Told(
        use=Workload(order.use),
        sure=min(order.sure, MOST_ADVISED),
        until_ns=order.until_ns,
        until=order.until,
        client=order.client,
        lease=order.lease,
    )


def lapsed(told: Told | None, lease: str) -> Told | None:
    """After the end of a lease."""
    return None if told is not None and told.lease == lease else told


def heard(told: Told | None, judged: Judgement, wall_ns: int) -> Told | None:
    """After a tick of the model; `judged` is its own word. None: there is none, or its time is over."""
    if told is None or (told.until_ns is not None and wall_ns >= told.until_ns):
        return None
    if not judged.known:
        return told
    word = judged.probabilities.likeliest
    return replace(told, said={**told.said, word: told.said.get(word, 0) + 1})


def evidence(told: Told | None) -> Evidence | None:
    """What it speaks for; None for nothing."""
    if told is None:
        return None
    front, back = told.kinds
    return Evidence(
        interactive={front: told.sure} if front else {},
        background={back: told.sure} if back else {},
    )
