# SPDX-License-Identifier: GPL-2.0-only
"""What ASA thinks and what it decides: probabilities, votes, decisions, and what became of a switch."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, Protocol

Workload = NewType("Workload", str)
"""A class of use, as the model names it: `idle`, `disk`, `cpu+disk`. The set belongs to the model artefact."""

REGIME = "regime:"
"""Begins the names of contexts that are no classes: what a machine does whose use is unknown (`asa.core.regime`)."""

DEFAULT_MODE = "default"

SCHEDULER_PATTERN = r"^[a-z][a-z0-9_]{0,63}(:[a-z][a-z0-9_]{0,63})?$"
"""Of a scheduler's name, with or without a mode, where it comes from outside."""


class SchedulerName(str):
    """A scheduler with its mode: `scx_lavd:powersave`, `scx_bpfland` in its default mode, `eevdf` for the kernel's own.

    It is its text, so that it compares, sorts and hashes as in every journal and table; `asa.wire` writes and reads it.
    """

    __slots__ = ()

    @classmethod
    def of(cls, scheduler: str, mode: str = DEFAULT_MODE) -> "SchedulerName":
        """The name of a scheduler in a mode; the default mode is not written."""
        return cls(scheduler if mode == DEFAULT_MODE else f"{scheduler}:{mode}")

    @property
    def bare(self) -> "SchedulerName":
        """The scheduler alone, as the manifest names it."""
        scheduler, colon, _ = self.partition(":")
        return SchedulerName(scheduler) if colon else self

    @property
    def mode(self) -> str:
        """The mode, `default` where none is written."""
        return self.partition(":")[2] or DEFAULT_MODE

    def answers_to(self, asked: str) -> bool:
        """Is it the scheduler asked for, or a mode of it?"""
        return asked in (self, self.bare)


EEVDF = SchedulerName("eevdf")


def bar(name: SchedulerName, never: Collection[str]) -> str:
    """Which of `never` (schedulers, or modes of them) names this one, "" for none."""
    return next((one for one in (name.bare, f"{name.bare}:{name.mode}") if one in never), "")


class Numbers(Protocol):
    """A NumPy array, float64 (n,), of which the core knows no more than that."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureFrame:
    """One tick as the model sees it: finite numbers, NaN for unknown, in the order of `models.features` by its schema.

    Nobody writes to them. Frames are compared by who needs it: arrays that are equal have no single answer.
    """

    schema: int
    values: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Probabilities:
    """A distribution over workload classes: same length, values in 0..1 that sum to 1."""

    classes: tuple[Workload, ...]
    values: tuple[float, ...]

    @property
    def likeliest(self) -> Workload:
        """The class with the largest probability; of several that are alike the first."""
        return self.classes[self.values.index(max(self.values))]

    def of(self, workload: Workload) -> float:
        """Probability of one class, 0.0 for a class the model does not know."""
        return self.values[self.classes.index(workload)] if workload in self.classes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the model makes of a frame. `score` is None where the model was not given an open world."""

    probabilities: Probabilities  # over whole labels
    score: float | None  # how familiar the frame is, by the model's own measure
    known: bool  # False: none of the labels fits, whatever the probabilities say


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Outcome of the voting window: the winner (None when nothing passed the threshold) and its share, 0..1."""

    workload: Workload | None
    confidence: float
    unknown: bool = False  # nobody wins because what was seen fits no class
    regime: Workload | None = None  # what the machine did then, by its behaviour alone; None: it is known, or not told

    @property
    def why_none(self) -> str:
        """In words, where nobody wins."""
        return "workload not recognised" if self.unknown else "no workload has enough votes"


class Reason(StrEnum):
    """Why a decision came out as it did. The sentence beside it is for people, this is for programs."""

    NO_RATES = "no-rates"  # first sample, or a gap: nothing to judge by
    UNDECIDED = "undecided"  # no class passed the voting threshold
    NO_ENTRY = "no-entry"  # the table has nothing usable for the class
    SERVED = "served"  # the wanted scheduler already runs
    DWELL = "dwell"  # the class has not won for long enough yet
    COOLDOWN = "cooldown"  # the last switch is too recent
    LIGHT = "light"  # next to nothing is to do, and what speaks for the wanted scheduler was measured under more
    COST = "cost"  # the wanted scheduler is better by less than the switch to it costs
    BUSY = "busy"  # a switch is under way
    HOLD = "hold"  # somebody else changed the scheduler: they win, until told to resume
    OBSERVING = "observing"  # ASA may not switch here
    BETTER = "better"  # the table ranks another scheduler first: switch
    BASELINE = "baseline"  # the class is met first: what is in force stays until the guard can compare
    REVERTED = "reverted"  # the guard found the last switch to have made things worse: switch back
    TRYING = "trying"  # a trial is under way: the scheduler in force and a candidate take turns
    CHECKING = "checking"  # the scheduler in force looks worse than EEVDF: the two take turns of seconds
    BY_HAND = "by-hand"  # the user chose a scheduler: switch to it, and hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One tick's outcome. `switch_to` is set only when something is to be done."""

    monotonic_ns: int
    probabilities: Probabilities | None
    vote: Vote
    workload: Workload | None  # the class in force: the last winner, None once nobody has won for a dwell
    wanted: SchedulerName | None  # what the table names for it, after setting failed ones aside
    current: SchedulerName | None  # what sysfs reported, None where there is no sched_ext
    switch_to: SchedulerName | None
    reason: Reason
    sentence: str
    standbys: tuple[SchedulerName, ...] = ()  # what to keep loaded and waiting, the most wanted first
    trial: str = ""  # what a trial came to that this tick ended, for people

    @property
    def refused(self) -> str:
        """What the tick looked like though it fits no class of the model, for people; "": it was not refused."""
        seen = self.probabilities
        if not self.vote.unknown or seen is None:
            return ""
        return f"looked like {seen.likeliest} ({seen.of(seen.likeliest):.0%}), refused: fits no class"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """What the agent may do now. It changes while the agent runs: the root helper comes and goes."""

    switch: bool
    stand_by: bool = False  # the gate works here


class OrderKind(StrEnum):
    """What a person told the agent."""

    RESUME = "resume"  # `asa resume`: go on after a hold, and give what was out another chance
    RELOAD = "reload"  # SIGHUP: settings were read again; as RESUME, but the user's hold, a stranger's scheduler and
    # off marks stay
    HOLD = "hold"  # `asa hold`: switch nothing
    SWITCH = "switch"  # `asa switch`: bring this scheduler up, then hold
    TRY = "try"  # `asa trial NAME`: try this scheduler for what is done now; without a name, the one in question
    UNTRY = "untry"  # `asa trial stop`, `no`: end the trial under way, else the one in question is not to be tried
    LAPSE = "lapse"  # a client's word has ended: it has gone, or takes it back (`asa.lease`)
    HINT = "hint"  # a client says what the machine is used for now


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A person's word to the policy.

    `scheduler`: for RESUME whose marks are forgotten (without a mode: all its modes), for
    SWITCH the one to bring up, for TRY the candidate. A client's order (`asa mcp`) has its name and its lease's number;
    the user's own have neither.
    """

    kind: OrderKind
    scheduler: SchedulerName | None = None
    until_ns: int | None = None  # CLOCK_REALTIME, when a hold ends by itself; None: not before RESUME
    until: str = ""  # the same for people: local time, which a replay elsewhere could not tell
    client: str = ""
    lease: str = ""
    kept: bool = False  # it stays when the lease ends; what was there before it does not come back
    use: str = ""  # of HINT: a label of kinds
    sure: float = 0.0  # and how surely, 0..1


class SwitchOutcome(StrEnum):
    """How a switch, or a running scheduler, ended up."""

    CONFIRMED = "confirmed"  # sysfs shows the wanted scheduler
    REFUSED = "refused"  # it could not be made ready; nothing has changed, what ran goes on
    FAILED = "failed"  # it did not come up; the kernel is on EEVDF
    LOST = "lost"  # it ran, and ended by itself; the kernel is on EEVDF
    FOREIGN = "foreign"  # somebody else's scheduler is attached
    SHADOWED = "shadowed"  # it loaded and was verified, and its attach was denied as intended: nothing has changed


class Way(StrEnum):
    """How a switch was made."""

    PLAIN = "plain"  # the old scheduler was stopped, then the new one started
    GATED = "gated"  # the new one was loaded beside the old one, then attached in its place
    STANDBY = "standby"  # as gated, and it had been loaded before it was wanted


class ExitKind(StrEnum):
    """Why a scheduler left the kernel (enum scx_exit_kind, kernel/sched/ext_internal.h), as far as it can be known."""

    UNREGISTERED = "unregistered"  # 64 to 66: it or the kernel let go in order
    HOTPLUG = "hotplug"  # 66 with a restart code: a CPU came or went, and it loads itself anew
    SYSRQ = "sysrq"  # 67: Alt-SysRq-S
    ERROR = "error"  # 1024, 1025: the kernel or the scheduler found a fault
    STALL = "stall"  # 1026: a task able to run was not run, the kernel's watchdog took it out
    KILLED = "killed"  # its process was ended by a signal
    WITHDRAWN = (
        "withdrawn"  # by ASA's own helper, which or whose lease has ended, or which took no order: not its fault
    )
    QUIT = "quit"  # its process ended by itself and nothing says why


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerExit:
    """The end of a scheduler and who says so."""

    kind: ExitKind
    reason: str  # one line
    source: str  # "the scheduler", "the kernel's log", "its exit code"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCost:
    """What a scheduler's process took from its start until it asked to attach."""

    wall_ns: int
    user_ns: int  # processor time in user space: reading its own programs, relocating them
    system_ns: int  # and in the kernel: nearly all of it verification (BPF_PROG_LOAD)
    memory_bytes: int  # resident, the largest


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStep:
    """One step of a switch and when it was done, in ns since the order."""

    name: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """A scheduler that waits, loaded and verified, for its turn (or is still loading)."""

    scheduler: SchedulerName
    ready: bool
    memory_bytes: int  # proportional share (Pss of /proc/PID/smaps_rollup)
    since_ns: int  # CLOCK_MONOTONIC, when it became ready or was started


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchEvent:
    """What the switcher reports. `old -> new` and `undo` make it possible to tell the story backwards."""

    monotonic_ns: int
    outcome: SwitchOutcome
    old: SchedulerName
    new: SchedulerName
    elapsed_ns: int  # from the order to this outcome
    detail: str  # one line; for failures the scheduler's own last words
    undo: str  # what puts the old state back
    why: str = ""  # the decision's sentence
    way: Way = Way.PLAIN
    gap_ns: int | None = None  # the time within `elapsed_ns` in which neither the old nor the new one was in force
    steps: tuple[SwitchStep, ...] = ()
    exit: SchedulerExit | None = None  # of the scheduler that failed or was lost
    load: LoadCost | None = None  # of the new one

    @property
    def withdrawn(self) -> bool:
        """Is ASA's own side the reason, and not the scheduler?"""
        return self.exit is not None and self.exit.kind is ExitKind.WITHDRAWN
