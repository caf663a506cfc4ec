# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the laptop benchmark: their names, what each is, and the goal it has to meet.

A table; nothing is measured here.
"""

from asa.core.helper_api import LEASE_LIMIT_S
from calibration.goals import Named

_BUDGET = "the project's budget"


class LaptopFigure(Named):
    """The figures, each with its goal."""

    RELEASE = (
        "lease_release_s",
        "s",
        "from the kill -9 of the lease's holder, whose scheduler is in force, until the kernel's own is; longest",
        "<=",
        LEASE_LIMIT_S,
        _BUDGET,
    )
    FUZZED = (
        "fuzzed_calls",
        "calls",
        (
            "calls of the helper with members, signatures and bodies at random, by an ordinary user and by root; "
            "met only if the helper is the same process afterwards and the kernel's scheduler was never changed"
        ),
        ">=",
        10_000.0,
        _BUDGET,
    )
    SCORE = (
        "helper_security_score",
        "of 10",
        "exposure of asa-helper.service by `systemd-analyze security`, 10 is the worst",
        "<=",
        3.5,
        _BUDGET,
    )
    LEFT = (
        "uninstall_leftover_files",
        "files",
        "what install and uninstall leave behind in a tree",
        "<=",
        0.0,
        _BUDGET,
    )
    DAEMON_RSS = (
        "daemon_rss_mb",
        "MB",
        (
            "memory resident in the user's daemon (10^6 bytes, shared pages counted), with the lease and the "
            "helper's probes"
        ),
        "<=",
        60.0,
        _BUDGET,
    )
    HELPER_RSS = ("helper_rss_mb", "MB", "the same in the helper, beside it", "<=", 30.0, _BUDGET)
    READ = (
        "probe_read_us",
        "us",
        ("a read of all probes by the descriptor that the helper hands over, as the daemon does each second; median"),
    )
    READ_MAPPED = (
        "probe_read_mapped_us",
        "us",
        "the same out of mapped memory, by the process that loaded the programs",
    )
    READ_BUS = ("probe_read_bus_us", "us", "the same as JSON in a message of D-Bus, asked and answered")
