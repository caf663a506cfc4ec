# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the agent: typed, with defaults, read from one YAML file."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from asa import paths, wire, yamlfile
from asa.core.decision import SCHEDULER_PATTERN

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


class Learn(StrEnum):
    """Whether the agent may try schedulers that may serve a use better than the one in force (docs/trials.md)."""

    OFF = "off"
    ASK = "ask"  # each candidate for each use, once
    ON = "on"


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
        Learn,
        Meta(description="whether schedulers are tried against the one in force; ask: each one needs your word"),
    ] = Learn.ON


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
    never: Annotated[
        tuple[Annotated[str, Meta(pattern=SCHEDULER_PATTERN)], ...],
        Meta(description="schedulers, or modes such as scx_lavd:powersave, that are never brought up on this machine"),
    ] = ()
    respect_limits: Annotated[
        bool,
        Meta(description="whether schedulers that ignore cpu.max or cpu.weight are not chosen while such are in force"),
    ] = True
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
    """Schedulers kept loaded for their turn."""

    count: Annotated[int, Meta(ge=0, le=16, description="how many schedulers are kept loaded for their turn")] = 2


class QuarantineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a scheduler that fails."""

    backoff_s: Annotated[
        Seconds, Meta(description="a scheduler that failed is out for so long; doubles with each further failure")
    ] = 30.0


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Taking back a switch that made things worse."""

    enabled: Annotated[bool, Meta(description="whether a switch that made things worse is taken back")] = True
    baseline_s: Annotated[
        Seconds,
        Meta(
            description="a class met first gets no other scheduler for up to so long, to have something to compare with"
        ),
    ] = 20.0


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
        bool, Meta(description="the busiest processes' counters, without names; which programs work, as numbers")
    ] = True
    timer: Annotated[bool, Meta(description="how late an ordinary task wakes, by a small child process")] = True


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much the journal keeps."""

    size_mb: Annotated[float, Meta(ge=1.0, le=100_000.0, description="the oldest samples are dropped beyond this")] = (
        64.0
    )
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


GONE: dict[str, tuple[object, str]] = {
    "voting.decay": (0.8, "asa.decide.voting.DECAY"),
    "voting.memory_s": (None, ""),
    "voting.dwell_s": (None, ""),
    "voting.trust": (None, ""),
    "voting.least": (None, ""),
    "voting.certainty": (None, ""),
    "voting.bound": (None, ""),
    "voting.drift": (None, ""),
    "policy.explore_share": (None, ""),
    "standby.budget_mb": (48.0, "asa.decide.standbys.BUDGET_MB"),
    "standby.settle_s": (5.0, "asa.decide.standbys.SETTLE_S"),
    "standby.margin": (0.05, "asa.decide.standbys.MARGIN"),
    "standby.pressure_share": (0.1, "asa.decide.standbys.PRESSURE_SHARE"),
    "standby.calm_s": (60.0, "asa.decide.standbys.CALM_S"),
    "quarantine.longest_s": (3600.0, "asa.decide.quarantine.LONGEST_S"),
    "quarantine.failures": (3, "asa.decide.quarantine.FAILURES"),
    "quarantine.within_s": (3600.0, "asa.decide.quarantine.WITHIN_S"),
    "guard.alpha": (0.01, "asa.decide.guard.ALPHA"),
    "guard.worse_by": (0.25, "asa.decide.guard.WORSE_BY"),
    "guard.settle_s": (2.0, "asa.decide.guard.SETTLE_S"),
    "guard.longest_cooldown_s": (3600.0, "asa.decide.policy_state.LONGEST_REST_S"),
    "standing.first_s": (600.0, "asa.decide.penalties.FIRST_S"),
    "standing.most_s": (604_800.0, "asa.decide.penalties.MOST_S"),
    "standing.fade_s": (604_800.0, "asa.decide.penalties.FADE_S"),
    "journal.commit_s": (10.0, "asa.journal.COMMIT_S"),
}
"""Settings of earlier versions: the constant that each one is now, and where it stands; "": of what was removed.

A file that has one is still accepted, for an agent must start after an upgrade: it is ignored, and that is said.
"""
_INSTEAD = {
    "voting": "was removed (docs/voting.md); delete this line",
    "policy": "was removed: `policy.learn` is off, ask or on (docs/trials.md); delete this line",
}
_GONE_METHODS = ("mean", "majority", "smoothing", "markov", "change-point")
_MOST_NAMED = 3


def gone(key: str) -> str:
    """What became of a setting of an earlier version, and what to do."""
    value, where = GONE.get(key, (None, ""))
    if where:
        return f"is a constant now, {value:g} ({where}); delete this line"
    if key == "voting.method":
        return "was removed, time-weighted is used (docs/voting.md); delete this line"
    return _INSTEAD[key.partition(".")[0]]


def without_gone(data: Any) -> tuple[Any, dict[str, object]]:
    """Plain data of a settings file without what is no setting any more, and that by key."""
    found: dict[str, object] = {}
    if not isinstance(data, dict):
        return data, found
    kept = dict(data)
    for key in GONE:
        section, _, name = key.partition(".")
        if isinstance(kept.get(section), dict) and name in kept[section]:
            found[key] = kept[section][name]
            kept[section] = {other: value for other, value in kept[section].items() if other != name}
            if not kept[section] and section not in Settings.__struct_fields__:
                del kept[section]
    policy = kept.get("policy")
    if isinstance(policy, dict) and isinstance(policy.get("learn"), bool):  # as earlier versions had it
        kept["policy"] = policy | {"learn": Learn.ON.value if policy["learn"] else Learn.OFF.value}
    voting = kept.get("voting")
    if isinstance(voting, dict) and voting.get("method") in _GONE_METHODS:
        found["voting.method"] = voting["method"]
        kept["voting"] = {name: value for name, value in voting.items() if name != "method"}
    return kept, found


def recorded(text: str) -> tuple[Settings, list[str]]:
    """Settings as a journal keeps them, and the keys in which this version differs. Raises msgspec.DecodeError."""
    data, found = without_gone(_untried(wire.from_json(text, Any)))
    now = {key: value for key, (value, where) in GONE.items() if where} | {"voting.method": Method.TIME_WEIGHTED}
    return wire.shaped(data, Settings), [key for key, value in found.items() if now.get(key, value) != value]


def _untried(data: Any) -> Any:
    # a recording of before has no trials, whatever was learnt in it
    policy = data.get("policy") if isinstance(data, dict) else None
    if not isinstance(policy, dict) or not isinstance(policy.get("learn"), bool):
        return data
    return data | {"policy": policy | {"learn": False}}


def load(path: Path, *, required: bool = False, say: Callable[[str], None] = lambda _: None) -> Settings:
    """Settings from `path`; a missing file means the defaults unless `required`. Raises InputError.

    A file that this user may not look at is not a missing one. The files that it names are given as whole paths. `say`
    gets one line when the file sets what is no setting any more.
    """
    if not required and not paths.there(path):
        return Settings()
    found: dict[str, object] = {}

    def pruned(data: Any) -> Any:
        kept, old = without_gone(data)
        found.update(old)
        return kept

    settings = beside(path, yamlfile.load(path, Settings, pruned))
    if found:
        more = len(found) - _MOST_NAMED
        named = ", ".join(list(found)[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        say(f"{path}: ignored, no settings any more: {named}; delete them (`asa config check` names the lines)")
    return settings


def beside(path: Path, settings: Settings) -> Settings:
    """Settings of the file `path`, with whole paths: where a process was started must not decide what they name."""
    folder = path.absolute().parent
    table = str(folder / settings.table) if settings.table else settings.table
    model = str(folder / settings.model) if settings.model else settings.model
    return msgspec.structs.replace(settings, table=table, model=model)
