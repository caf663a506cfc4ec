# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel says about sched_ext, read from sysfs (kernel/sched/ext.c)."""

from collections.abc import Callable
from pathlib import Path

from asa.core.decision import EEVDF, SchedulerName
from asa.core.sample import SchedExtState


def sched_ext_state(sys: Path) -> SchedExtState | None:
    """State, attached scheduler and enable count below `sys`/kernel/sched_ext; None on a kernel without sched_ext."""
    folder = sys / "kernel/sched_ext"
    try:
        # The count first: a switch in between then shows as a new name with an old count, never as an old name that a
        # new count seems to confirm.
        enable_seq = int((folder / "enable_seq").read_text())
        state = (folder / "state").read_text().strip()
    except (OSError, ValueError):
        return None
    try:
        ops = (folder / "root/ops").read_text().strip()
    except OSError:
        ops = ""  # nothing attached: the folder `root` comes and goes with a scheduler
    return SchedExtState(state=state, ops=ops, enable_seq=enable_seq)


def scheduler_in_force(
    state: SchedExtState | None,
    name_of_ops: Callable[[str], SchedulerName | None],
    running: SchedulerName | None = None,
) -> SchedulerName | None:
    """The scheduler that sysfs reports, by the manifest's name (its own name when the manifest has none for it).

    `running` is what we brought up: it adds the mode, which sysfs does not know. None without sched_ext.
    """
    if state is None:
        return None
    if state.state != "enabled" or not state.ops:
        return EEVDF
    name = name_of_ops(state.ops) or SchedulerName(state.ops)
    return running if running is not None and running.partition(":")[0] == name else name
