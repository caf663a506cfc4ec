# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel says about sched_ext, read from sysfs (kernel/sched/ext.c)."""

import os
from collections.abc import Callable
from pathlib import Path

from asa.core.decision import EEVDF, SchedulerName
from asa.core.sample import SchedExtState

DETACH_LIMIT_S = 5.0
"""Within this the kernel's own worker detaches a scheduler whose process has ended, and one that was detached ends."""

STIR_NS = 50_000_000
"""After the kernel's word on schedulers sysfs follows within this: it changes after the event."""

CLOSE_LOOK_S = 0.002
"""How soon to look at sysfs again when it may be changing."""


def sched_ext_state(sys: Path) -> SchedExtState | None:
    """State, attached scheduler and enable count below `sys`/kernel/sched_ext; None on a kernel without sched_ext."""
    folder = f"{sys}/kernel/sched_ext"
    # The count first: a switch in between then shows as a new name with an old count, never as an old name that a new
    # count seems to confirm.
    enable_seq, state = _text(f"{folder}/enable_seq"), _text(f"{folder}/state")
    if state is None or enable_seq is None or not enable_seq.isdigit():
        return None
    # Nothing attached: the folder `root` comes and goes with a scheduler.
    return SchedExtState(state=state, ops=_text(f"{folder}/root/ops") or "", enable_seq=int(enable_seq))


def _text(path: str) -> str | None:
    # Beside a switch and in each tick: a tenth of what Path.read_text costs.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, 256).decode(errors="replace").strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def carries(
    state: SchedExtState | None, name: SchedulerName, name_of_ops: Callable[[str], SchedulerName | None]
) -> bool:
    """Does sysfs show the scheduler in force?"""
    return state is not None and state.state == "enabled" and name_of_ops(state.ops) == name.bare


def came_up(
    state: SchedExtState | None,
    name: SchedulerName,
    sequence: int,
    name_of_ops: Callable[[str], SchedulerName | None],
) -> SchedExtState | None:
    """What a switch to `name` counts by, None while it does not count.

    It counts when `state` is enabled, `ops` carries the wanted name, and `enable_seq` grew beyond `sequence`.
    """
    grown = state is not None and state.enable_seq > sequence
    return state if grown and carries(state, name, name_of_ops) else None


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
    return running if running is not None and running.bare == name else name
