# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel says about sched_ext, read from sysfs (kernel/sched/ext.c)."""

import os
from collections.abc import Callable
from pathlib import Path

from asa.core.decision import EEVDF, SchedulerName
from asa.core.sample import SchedExtState


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
