# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the laptop benchmark: their names, what each is, and the goal it has to meet.

A table and a small type; nothing is measured here.
"""

from dataclasses import dataclass
from enum import StrEnum

from asa.core.helper_api import LEASE_LIMIT_S


class Name(StrEnum):
    """The figures, by the names that issue trackers and JSON lines use."""

    RELEASE = "lease_release_s"
    FUZZED = "fuzzed_calls"
    SCORE = "helper_security_score"
    LEFT = "uninstall_leftover_files"
    DAEMON_RSS = "daemon_rss_mb"
    HELPER_RSS = "helper_rss_mb"
    READ = "probe_read_us"
    READ_MAPPED = "probe_read_mapped_us"
    READ_BUS = "probe_read_bus_us"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is, and the bound that it has to meet; `bound` None: it is there to be compared with."""

    unit: str
    what: str
    why: str = ""
    bound: float | None = None
    at_least: bool = False


_BUDGET = "the project's budget"
GOALS: dict[Name, Goal] = {
    Name.RELEASE: Goal(
        unit="s",
        what="from the kill -9 of the lease's holder, whose scheduler is in force, until the kernel's own is; longest",
        why=_BUDGET,
        bound=LEASE_LIMIT_S,
    ),
    Name.FUZZED: Goal(
        unit="calls",
        what="calls of the helper with members, signatures and bodies at random, by an ordinary user and by root; "
        "met only if the helper is the same process afterwards and the kernel's scheduler was never changed",
        why=_BUDGET,
        bound=10_000.0,
        at_least=True,
    ),
    Name.SCORE: Goal(
        unit="of 10",
        what="exposure of asa-helper.service by `systemd-analyze security`, 10 is the worst",
        why=_BUDGET,
        bound=3.5,
    ),
    Name.LEFT: Goal(unit="files", what="what install and uninstall leave behind in a tree", why=_BUDGET, bound=0.0),
    Name.DAEMON_RSS: Goal(
        unit="MB",
        what="memory resident in the user's daemon (10^6 bytes, shared pages counted), with the lease and the helper's "
        "probes",
        why=_BUDGET,
        bound=60.0,
    ),
    Name.HELPER_RSS: Goal(unit="MB", what="the same in the helper, beside it", why=_BUDGET, bound=30.0),
    Name.READ: Goal(
        unit="us",
        what="a read of all probes by the descriptor that the helper hands over, as the daemon does each second; "
        "median",
    ),
    Name.READ_MAPPED: Goal(unit="us", what="the same out of mapped memory, by the process that loaded the programs"),
    Name.READ_BUS: Goal(unit="us", what="the same as JSON in a message of D-Bus, asked and answered"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number. `value` is None when it could not be measured; `reason` tells why. `spoiled`: the goal is missed."""

    name: Name
    value: float | None
    detail: str = ""
    reason: str = ""
    spoiled: bool = False

    @property
    def ok(self) -> bool | None:
        """Does it meet the goal? None without one."""
        goal = GOALS[self.name]
        if goal.bound is None:
            return None
        if self.value is None or self.spoiled:
            return False
        return self.value >= goal.bound if goal.at_least else self.value <= goal.bound
