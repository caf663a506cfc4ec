# SPDX-License-Identifier: GPL-2.0-only
"""The true label of a recording as it changes in its course: which applications are there, and in which phase.

Values alone; the recorder makes them, the journal keeps them, the dataset joins them to the samples.
"""

from dataclasses import dataclass
from enum import StrEnum

from asa.core.decision import Workload

SEQUENCE = Workload("sequence")
"""The label of a recording of one scenario after another: no class, its marks say what was there."""


class Phase(StrEnum):
    """Of a recorded session, in their order."""

    BEFORE = "before"  # nothing of the scenario is there yet
    STARTING = "starting"  # an application comes up; one that was started before it works already
    RUNNING = "running"  # all of the scenario works; of idle: the machine rests
    ENDING = "ending"  # an application goes
    AFTER = "after"  # nothing of the scenario is there any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What holds from a moment until the next mark. An application that comes or goes is there; "" is none."""

    monotonic_ns: int
    phase: Phase
    interactive: str = ""
    background: str = ""
