# SPDX-License-Identifier: GPL-2.0-only
"""The running agent's public face: one small JSON file in the run folder, rewritten each tick; and its lock.

Readers need no privilege and no bus. The lock (flock on `lock`) tells a live agent from a file it left behind, and
keeps a second agent out; it can be opened by the agent's own user alone, or others could keep the agent out.
"""

import fcntl
import os
import time
from pathlib import Path

import msgspec

from asa import files, runfile, wire
from asa.core.decision import REGIME
from asa.core.errors import AsaError
from asa.core.regime import in_words

_RETRY_S = 0.05  # `asa status` holds the lock for microseconds when it looks


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler that stands by."""

    scheduler: str
    ready: bool  # False: it is still loading
    memory_bytes: int
    since_ns: int


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler in the table's ranking for the class in force, best first."""

    scheduler: str
    why: str  # the table's
    learned: str = ""  # why it stands before one that the table ranks higher; "": it stands where the table has it
    out: str = ""  # why it may not serve this class now; "": it may
    until_ns: int | None = None  # when it may again; None while out: until `asa resume`, or another version of it


class Showing(msgspec.Struct, frozen=True, kw_only=True):
    """What the class in force showed under one scheduler: medians over the blocks that the guard remembers."""

    scheduler: str
    blocks: int
    medians: dict[str, float | None]  # signal -> us, for the pressure 0..1


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What trials said of a candidate for the class in force, here."""

    candidate: str
    in_force: str  # the one that it was tried against
    verdict: str  # better, worse or alike; "": not known yet
    pairs: int  # that were made
    share: float | None  # of the wait that the candidate saves; below 0 it adds
    low: float | None  # of that, as the next one: 90 % lie between
    high: float | None
    words: str  # what the last run came to
    at_ns: int  # when


class Trying(msgspec.Struct, frozen=True, kw_only=True):
    """The trial under way, or the one that is next."""

    use: str
    candidate: str
    in_force: str
    under_way: bool
    pairs: int  # that are made
    most_pairs: int
    block_s: float | None  # how long a turn is; None: there can be no trial
    why_not: str = ""  # why the next one has not begun, in words
    question: bool = False  # it waits for the user's yes


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What trials have taught so far, in all classes, and what they took."""

    learn: str  # `policy.learn`
    asked: int  # candidates in classes
    better: int  # of these, as the next two
    worse: int
    alike: int
    here: tuple[Tried, ...]  # of the class in force
    watched_s: float  # in which others might have been tried
    tried_s: float  # of these: in which they were
    switches: int  # of trials, in the last hour
    most_switches: int


class Switched(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one switch, or of a scheduler that ran."""

    at_ns: int
    outcome: str
    old: str
    new: str
    way: str
    why: str
    detail: str
    elapsed_ns: int
    gap_ns: int | None
    ended: str  # how the failed or lost one ended, in words; "" when that is not told


class Hinted(msgspec.Struct, frozen=True, kw_only=True):
    """What the desktop's own knowledge spoke for in this tick, beside the model."""

    because: tuple[str, ...]  # what was seen, for people
    interactive: dict[str, float]  # kind -> 0..1
    background: dict[str, float]
    weight: float  # how much it counts against the model; 0: it does not

    @property
    def words(self) -> str:
        """In one line."""
        counts = f"counts with weight {self.weight:g}" if self.weight else "does not count: its weight is 0"
        return f"{'; '.join(self.because) or 'none seen'}; {counts}"


class ToldUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says the machine is used for (`asa.decide.told`)."""

    use: str
    sure: float  # 0..1
    until: str  # for people
    client: str
    lease: str
    silent: tuple[str, ...] = ()  # those of its kinds that the model contradicts: they do not count

    @property
    def words(self) -> str:
        """In one line."""
        but = f"; not counted, for the model says otherwise: {', '.join(self.silent)}" if self.silent else ""
        return f"{self.use} ({self.sure:.1f}), by the client {self.client} until {self.until}{but}"


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What `asa status` shows. Times are CLOCK_REALTIME ns; None is unknown."""

    pid: int
    asa_version: str
    started_ns: int
    updated_ns: int
    mode: str  # switching, observing or hold
    mode_reason: str
    workload: str | None
    confidence: float
    probabilities: dict[str, float]
    wanted: str | None
    scheduler: str | None
    scheduler_since_ns: int
    reason: str
    sentence: str
    switches: int
    failures: int
    set_aside: list[str]
    last_event: str
    table: str
    model: str
    interval_s: float
    ticks: int
    overruns: int
    worst_late_ms: float  # that a tick began after it was due
    backends: dict[str, str]  # source -> the way to its figures that is in use
    missing_sources: dict[str, str]  # source or part of it -> why there is nothing of it
    slow_sources: dict[str, str]  # source -> how much less often it is read
    cost_us: dict[str, float]  # source -> microseconds that a read takes
    held: bool = False  # by the user
    held_until_ns: int | None = None  # None: until `asa resume`
    chosen: str | None = None  # by hand: in force, or on its way
    client: str = ""  # who holds, where that is not the user: a client of `asa mcp`
    lease: str = ""  # and its lease (`asa.lease`)
    way: str = ""  # how switches are made: gated, plain, shadow; "" while observing
    way_reason: str = ""  # why not by the gate
    standbys: tuple[Waiting, ...] = ()
    barred: tuple[str, ...] = ()  # by the guard, from the class in force
    ranking: tuple[Place, ...] = ()
    keeps_to: str = ""  # what the class in force keeps to for now, after the guard took a switch back; "": nothing
    guard: tuple[Showing, ...] = ()  # the scheduler in force last
    guard_blocks: int = 0  # of evidence in the present trial
    guard_next_look: int | None = None  # at so many; None: the trial is over, or the guard has nothing to judge
    learned: Learned | None = None
    trial: Trying | None = None  # None: there is nothing to try
    lately: tuple[Switched, ...] = ()  # newest last
    table_elsewhere: str = ""  # why the table is no measurement of this machine, "" when it is one
    never: list[str] = []  # what the settings bar from this machine
    table_stale: dict[str, str] = {}  # scheduler -> what has changed since it was measured
    limits: str = ""  # of control groups, and who is not chosen for them
    hint: Hinted | None = None  # None: no desktop is looked at
    told: ToldUse | None = None  # None: no client has said anything
    regime: str = ""  # what the machine does while its use is unknown, as a table has it; "": its use is known
    signals: dict[str, float | None] = {}  # of this tick, by the names of `asa.decide.signals.Signals`
    cpu_ns: int = 0  # processor time of the agent since its start
    resident_bytes: int | None = None


def seen(found: Status) -> str:
    """What the machine is used for now, in words; of the class in force, too, where what is seen fits none."""
    if not found.regime:
        return in_words(found.workload or "not recognised yet")
    before = found.workload
    if before is None or before == found.regime:
        return in_words(found.regime)
    what = f"what serves {before.removeprefix(REGIME)}" if before.startswith(REGIME) else before
    return f"{in_words(found.regime)}; {what} stays"


class StatusFile:
    """Writer's side: holds the lock as long as it lives."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises AsaError when another agent holds it or the folder cannot be written."""
        self._path = folder / "status.json"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AsaError(f"{folder}: cannot be used for the agent's state: {error.strerror}") from error
        for last in (False, False, True):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if last:
                    os.close(self._lock)
                    raise AsaError(f"{folder}/lock: another agent is running here; see `asa status`") from error
                time.sleep(_RETRY_S)
            else:
                return

    def write(self, status: Status) -> None:
        """Publish. A full or read-only file system is not worth stopping for: the old file then grows stale."""
        try:
            files.replace(self._path, wire.json_bytes(status), mode=0o644)
        except OSError:
            return

    def close(self) -> None:
        """Withdraw the status and give the lock back."""
        self._path.unlink(missing_ok=True)
        os.close(self._lock)


def read(folder: Path) -> Status | None:
    """Status of the agent that runs now; None when none does. Raises AsaError for a damaged file."""
    try:
        body = (folder / "status.json").read_bytes()
    except OSError:
        return None
    try:
        found = wire.from_json(body, Status)
    except msgspec.DecodeError as error:
        if not _locked(folder / "lock", 0):
            return None
        raise AsaError(f"{folder}/status.json: not written by this version of asa: {error}") from error
    return found if _locked(folder / "lock", found.pid) else None


def _locked(path: Path, pid: int) -> bool:
    try:
        return runfile.locked(path)
    except PermissionError:
        return Path(f"/proc/{pid}").exists()  # another user's agent: its process has to do
    except OSError:
        return False
