# SPDX-License-Identifier: GPL-2.0-only
"""What the user daemon and the root helper say to each other: names on the bus, polkit actions, bodies of messages.

Stdlib only. Bodies that have a shape of their own travel as JSON in one string; both ends decode them strictly.
"""

from dataclasses import dataclass
from enum import StrEnum

BUS_NAME = "org.asa.Helper1"
PATH = "/org/asa/Helper1"
INTERFACE = "org.asa.Helper1"
LEASE_LIMIT_S = 5.0
"""The longest from the end of a daemon to the scheduler that was there before it."""

PROBES_LIMIT_S = 180.0
"""How long the helper may take to load the probes: BCC compiles for up to a minute."""

WHY_CHARACTERS = 400
"""The longest reason that a switch may carry."""

NOBODY = 0xFFFFFFFF
"""Property `Holder`: nobody has the lease; else the holder's user id."""

NO_END = 0xFFFFFFFFFFFFFFFF
"""Property `HeldUntil`: held until `Resume`; 0: not held; else CLOCK_REALTIME in ns."""

MOST_READY = 16
"""The most schedulers that may be asked for as standbys."""


class Action(StrEnum):
    """polkit actions, one for each verb."""

    OBSERVE = "org.asa.helper1.observe"
    SWITCH = "org.asa.helper1.switch"
    SWITCH_UNAPPROVED = "org.asa.helper1.switch-unapproved"
    HOLD = "org.asa.helper1.hold"
    CONFIGURE = "org.asa.helper1.configure"


class Failure(StrEnum):
    """Names of errors that the helper answers with, beside those of the bus itself."""

    NOT_AUTHORIZED = "org.asa.Helper1.Error.NotAuthorized"  # polkit said no
    BUSY = "org.asa.Helper1.Error.Busy"  # somebody else has the lease
    NOT_ACTIVE = "org.asa.Helper1.Error.NotActive"  # the caller's session is not the one in front of its seat
    NO_LEASE = "org.asa.Helper1.Error.NoLease"  # only the holder may do this
    HELD = "org.asa.Helper1.Error.Held"  # an administrator wants nothing switched
    UNKNOWN_SCHEDULER = "org.asa.Helper1.Error.UnknownScheduler"
    REFUSED = "org.asa.Helper1.Error.Refused"  # it cannot be started; nothing has changed
    NOT_POSSIBLE = "org.asa.Helper1.Error.NotPossible"  # this machine cannot: no sched_ext, no probes


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """What `Acquire` answers."""

    way: str  # gated or plain
    no_gate: str  # why not by the gate; "" where it works
    approved: tuple[str, ...]  # schedulers that need no administrator


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFacts:
    """What the descriptors of `Probes` are."""

    backend: str  # core or bcc
    layout: int  # `collectors.ebpf.layout.VERSION` of the helper; another one is refused
    cpus: int
    row_bytes: int
    fields: tuple[str, ...]  # of ProbeCounters, those that are filled
    lacking: dict[str, str]
