# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the agent: typed, with defaults, read from one YAML file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from asa import paths, yamlfile

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, Meta(ge=0.0, le=86_400.0)]


class Method(StrEnum):
    """How the current class is made of the ticks' probabilities."""

    TIME_WEIGHTED = "time-weighted"  # the paper's Algorithm 1: votes weighted by age
    NONE = "none"  # the most probable class of each tick


class Voting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From the probabilities of a tick to the current class: the paper's voting (Algorithm 1), or none."""

    method: Annotated[
        Method,
        Meta(description="how the current class is made of the ticks' probabilities; time-weighted: the paper's"),
    ] = Method.TIME_WEIGHTED
    open_world: Annotated[
        bool,
        Meta(description="take what fits no class of the model for unknown; false: for the class that is nearest"),
    ] = True

    # W, in which standbys follow what comes up, too; theta. The paper gives W alone, 6 s (5.5). What recorded
    # sequences choose follows a change sooner and is less often right while nothing changes, and short of the goal
    # there (docs/voting.md, docs/recognition.md: the row "as shipped", accuracy_voted_28_pct); uses mostly last
    window_s: Annotated[float, Meta(gt=0.0, le=600.0, description="votes older than this no longer count")] = 6.0
    threshold: Annotated[Share, Meta(description="probabilities up to this do not count as votes")] = 0.3


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a decision may become a switch."""

    # after a switch was confirmed or failed; paper 3.4 asks for one and gives no value
    cooldown_s: Annotated[
        Seconds | Literal["auto"],
        Meta(description="no switch for so long after one; auto: 20 times what one takes here, 1 to 10 s"),
    ] = "auto"
    dwell_s: Annotated[Seconds, Meta(description="how long a class must have won before it may cause a switch")] = 2.0
    weigh_cost: Annotated[
        bool, Meta(description="whether a switch has to gain more than it costs, where the table knows both")
    ] = True
    learn: Annotated[
        bool, Meta(description="whether what the guard measures in daily use may change a class's ranking here")
    ] = True
    # nobody's machine is an experiment unless they say so; a tenth, since what is tried is worse as a rule
    explore_share: Annotated[
        float, Meta(ge=0.0, le=0.1, description="share of the time in which others than the first choice are tried")
    ] = 0.0


class Gate(StrEnum):
    """Whether schedulers are loaded beside the running one and attached in its place."""

    AUTO = "auto"  # where this kernel and this environment allow it
    OFF = "off"  # the running one is stopped, then the next one started


class Backend(StrEnum):
    """Who loads schedulers."""

    AUTO = "auto"  # ASA itself, unless the distribution's scx_loader.service runs here
    OWN = "own"
    LOADER = "loader"  # org.scx.Loader, over D-Bus


class SwitchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for a scheduler that comes and one that goes."""

    attach_limit_s: Annotated[
        float, Meta(gt=0.0, le=600.0, description="a scheduler that is not in force after this is given up")
    ] = 30.0
    stop_limit_s: Annotated[
        float,
        Meta(gt=0.0, le=600.0, description="a scheduler that has not ended this long after it was told to is killed"),
    ] = 10.0
    trusted_owners: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...],
        Meta(description="user ids whose scheduler files are run besides root's; they can then run anything as root"),
    ] = ()
    gate: Annotated[
        Gate, Meta(description="whether the next scheduler is loaded beside the one in force; off: stop, then start")
    ] = Gate.AUTO
    backend: Annotated[
        Backend,
        Meta(
            description="who loads schedulers; loader: scx_loader over D-Bus; auto: ASA unless scx_loader.service runs"
        ),
    ] = Backend.AUTO


class StandbySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Schedulers kept loaded for their turn. First choices, but for the budget, which the design sets."""

    count: Annotated[int, Meta(ge=0, le=16, description="how many schedulers are kept loaded for their turn")] = 2
    budget_mb: Annotated[float, Meta(ge=0.0, le=4096.0, description="memory that they may take together")] = 48.0
    # a newcomer must have been wanted for so long: loading one takes seconds of processor time
    settle_s: Annotated[Seconds, Meta(description="how long one must have been wanted before it is loaded")] = 5.0
    margin: Annotated[
        Share, Meta(description="how much more probable a newcomer must be than the one whose place it takes")
    ] = 0.05
    pressure_share: Annotated[
        Share, Meta(description="all are let go when tasks wait for memory for more than this share of a tick")
    ] = 0.1
    calm_s: Annotated[Seconds, Meta(description="and loaded again after so long without such waits")] = 60.0


class QuarantineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a scheduler that fails."""

    backoff_s: Annotated[
        Seconds, Meta(description="a scheduler that failed is out for so long; doubles with each further failure")
    ] = 30.0
    longest_s: Annotated[Seconds, Meta(description="the longest that it is out")] = 3600.0
    failures: Annotated[
        int, Meta(ge=1, le=100, description="after so many it is off until asa resume or a new version of its file")
    ] = 3
    within_s: Annotated[Seconds, Meta(description="the time in which these are counted")] = 3600.0


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Taking back a switch that made things worse."""

    enabled: Annotated[bool, Meta(description="whether a switch that made things worse is taken back")] = True
    # false alarms a trial, all signals and looks together
    alpha: Annotated[float, Meta(gt=0.0, le=0.2, description="how probable a false alarm may be in one trial")] = 0.01
    worse_by: Annotated[float, Meta(ge=0.05, le=10.0, description="share by which a median must be worse")] = 0.25
    # what is measured for so long after a switch tells of the switch, not of the scheduler
    settle_s: Annotated[
        Seconds, Meta(description="what is measured for so long after a switch is not held against the scheduler")
    ] = 2.0
    baseline_s: Annotated[
        Seconds,
        Meta(
            description="a class met first gets no other scheduler for up to so long, to have something to compare with"
        ),
    ] = 20.0
    longest_cooldown_s: Annotated[
        Seconds, Meta(description="policy.cooldown_s doubles with each revert of a class, up to this")
    ] = 3600.0


class StandingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long the guard bars a scheduler from a class on this machine."""

    first_s: Annotated[
        float,
        Meta(
            ge=60.0,
            le=86_400.0,
            description="a scheduler that did worse is barred from the class for so long; doubles with each revert",
        ),
    ] = 600.0
    most_s: Annotated[float, Meta(ge=600.0, le=31_536_000.0, description="the longest that it is barred")] = 604_800.0
    fade_s: Annotated[
        float, Meta(ge=3600.0, le=31_536_000.0, description="one revert is forgotten after each of these")
    ] = 604_800.0


class Ebpf(StrEnum):
    """Which way the eBPF programs come into the kernel."""

    AUTO = "auto"  # core where it loads, else bcc, else none
    CORE = "core"  # compile once, run everywhere: the shipped object through libbpf, needs the kernel's BTF
    BCC = "bcc"  # compiled on this machine by BCC in a child that ends
    OFF = "off"


class CollectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which optional sources are opened. /proc and /sys are always read."""

    ebpf: Annotated[
        Ebpf, Meta(description="how the probes come into the kernel; auto: core, else bcc, else not at all")
    ] = Ebpf.AUTO
    desktop: Annotated[
        bool, Meta(description="which window has the focus: by the GNOME Shell extension, else by X11")
    ] = True
    gpu: Annotated[bool, Meta(description="how busy the graphics are")] = True
    groups: Annotated[bool, Meta(description="processor time by control group")] = True
    processes: Annotated[
        bool, Meta(description="the busiest processes' counters, without their names: what kinds of them are at work")
    ] = True
    timer: Annotated[bool, Meta(description="how late an ordinary task wakes, by a small child process")] = True


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much the journal keeps and how often it writes."""

    size_mb: Annotated[float, Meta(ge=1.0, le=100_000.0, description="the oldest samples are dropped beyond this")] = (
        64.0
    )
    commit_s: Annotated[Seconds, Meta(description="how often the journal is written to disk")] = 10.0
    costs_every: Annotated[
        int,
        Meta(ge=1, le=86_400, description="what a tick took of the agent's own time is kept of one in so many ticks"),
    ] = 60


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a user may set. `table` and `model` default to what the package ships."""

    interval_s: Annotated[float, Meta(ge=0.1, le=5.0, description="time between two looks at the machine")] = 1.0
    realtime: Annotated[
        bool,
        Meta(
            description="whether `asa run` as root goes before all ordinary tasks, so that no scheduler can starve it; "
            "false: an ordinary process, as the daemon of a user is"
        ),
    ] = True
    voting: Voting = Voting()
    policy: PolicySettings = PolicySettings()
    switch: SwitchSettings = SwitchSettings()
    standby: StandbySettings = StandbySettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    guard: GuardSettings = GuardSettings()
    standing: StandingSettings = StandingSettings()
    collect: CollectSettings = CollectSettings()
    journal: JournalSettings = JournalSettings()
    table: Annotated[
        str | None,
        Meta(
            description="mapping table to use instead of the one that suits this machine; beside this file, unless it "
            "is a whole path"
        ),
    ] = None
    model: Annotated[
        str | None,
        Meta(
            description="model to use instead of the one that the package ships; beside this file, unless it is a "
            "whole path"
        ),
    ] = None


def load(path: Path, *, required: bool = False) -> Settings:
    """Settings from `path`; a missing file means the defaults unless `required`. Raises InputError.

    A file that this user may not look at is not a missing one. The files that it names are given as whole paths.
    """
    if not required and not paths.there(path):
        return Settings()
    return beside(path, yamlfile.load(path, Settings))


def beside(path: Path, settings: Settings) -> Settings:
    """Settings of the file `path`, with whole paths: where a process was started must not decide what they name."""
    folder = path.absolute().parent
    table = str(folder / settings.table) if settings.table else settings.table
    model = str(folder / settings.model) if settings.model else settings.model
    return msgspec.structs.replace(settings, table=table, model=model)
