# SPDX-License-Identifier: GPL-2.0-only
"""What the user daemon and the root helper say to each other: verbs on the bus, polkit actions, bodies of messages.

Stdlib only. Bodies that have a shape of their own travel as JSON in one string; both ends decode them strictly.
`Verb` is the one table of the methods: `asa.helper.desk` serves it, clients name its members, and
`python -m asa.helper.bus_files` writes the bus policy and the polkit file from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, unique

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
    """polkit actions; `ASKED` has what polkit says of each."""

    OBSERVE = "org.asa.helper1.observe"
    SWITCH = "org.asa.helper1.switch"
    SWITCH_UNAPPROVED = "org.asa.helper1.switch-unapproved"
    HOLD = "org.asa.helper1.hold"
    CONFIGURE = "org.asa.helper1.configure"
    VOUCH = "org.asa.helper1.vouch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What polkit shows of an action, and whether the person in front of the machine may do it without a password."""

    description: str
    message: str
    in_front: bool = False


ASKED: Mapping[Action, Asked] = {
    Action.OBSERVE: Asked(
        description="Read ASA's probes",
        message="Authentication is required to read what runs on this machine through ASA's probes",
        in_front=True,
    ),
    Action.SWITCH: Asked(
        description="Choose among the approved CPU schedulers",
        message="Authentication is required to choose the CPU scheduler of this machine",
        in_front=True,
    ),
    Action.SWITCH_UNAPPROVED: Asked(
        description="Load a CPU scheduler that is not approved",
        message="Authentication is required to load a CPU scheduler that is not approved on this machine",
    ),
    Action.HOLD: Asked(
        description="Keep ASA from switching schedulers, for everybody",
        message="Authentication is required to stop or resume switching of CPU schedulers for everybody",
    ),
    Action.CONFIGURE: Asked(
        description="Approve CPU schedulers",
        message="Authentication is required to say which CPU schedulers may be used on this machine",
    ),
    Action.VOUCH: Asked(
        description="Vouch for a CPU scheduler that was made or tuned here",
        message="Authentication is required to let a CPU scheduler run that was made or tuned on this machine",
    ),
}
"""In the order of the polkit file. All that is not `in_front` needs an administrator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One method: signatures of what it takes and gives, `names` of both in order, and who may.

    `lease`: only the lease's holder. `action`: what polkit is asked before it is done; None needs `lease`.
    """

    takes: str = ""
    gives: str = ""
    names: tuple[str, ...] = ()
    action: Action | None = None
    lease: bool = False
    doc: str

    def __post_init__(self) -> None:
        if self.action is None and not self.lease:
            raise ValueError(f"{self.doc!r}: a verb needs an action, a lease, or both")


@unique
class Verb(Enum):
    """The helper's methods. `KEEP_READY` is `KeepReady` on the bus and `_keep_ready` of the desk."""

    ACQUIRE = Call(
        gives="s",
        names=("facts",),
        action=Action.SWITCH,
        doc="Take the lease: one connection at a time may switch. Gives LeaseFacts as JSON.",
    )
    RELEASE = Call(lease=True, doc="Give the lease back. The kernel is as before when the answer comes.")
    SWITCH = Call(
        takes="ss",
        names=("scheduler", "why"),
        action=Action.SWITCH_UNAPPROVED,  # asked for one that is not approved alone
        lease=True,
        doc="Begin a switch to NAME[:MODE] or eevdf. Its end comes as the signal Event.",
    )
    KEEP_READY = Call(
        takes="as",
        names=("schedulers",),
        lease=True,
        doc="Have these approved schedulers stand by, and no others.",
    )
    PROBES = Call(
        gives="hs",
        names=("counters", "facts"),
        action=Action.OBSERVE,
        doc="Read the probes' counters: a descriptor of their map, and ProbeFacts as JSON.",
    )
    HOLD = Call(
        takes="u",
        names=("seconds",),
        action=Action.HOLD,
        doc="Switch nothing for anybody, for so many seconds; 0: until Resume.",
    )
    RESUME = Call(action=Action.HOLD, doc="End the hold.")
    APPROVE = Call(
        takes="sb",
        names=("scheduler", "approved"),
        action=Action.CONFIGURE,
        doc="Say whether users may choose this scheduler without an administrator.",
    )
    VOUCH = Call(
        takes="ss",
        names=("scheduler", "report"),
        action=Action.VOUCH,
        doc="Let a composed or tuned scheduler run that was verified. Takes Vouched as JSON.",
    )

    @property
    def member(self) -> str:
        """Its name on the bus."""
        return "".join(part.title() for part in self.name.split("_"))


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
class Vouched:
    """What `Vouch` takes: of a policy that passed, what was looked at."""

    sha256: str  # of the program
    flags: tuple[str, ...]
    kernels: dict[str, str]  # release -> SHA-256 of the types, of kernels that its object was checked for
    stages: tuple[str, ...]  # that it passed


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFacts:
    """What the descriptors of `Probes` are."""

    backend: str  # core or bcc
    layout: int  # `collectors.ebpf.layout.VERSION` of the helper; another one is refused
    cpus: int
    row_bytes: int
    fields: tuple[str, ...]  # of ProbeCounters, those that are filled
    lacking: dict[str, str]
