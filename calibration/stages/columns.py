# SPDX-License-Identifier: GPL-2.0-only
"""What stages 2 and 3 call their columns: a scheduler's name, and how it was kept at work.

By itself, because guests need it and nothing of the statistics that rank: emulated, SciPy and pandas take a guest as
long to import as a trial takes.
"""

from asa.core.decision import SchedulerName

LIVE = "live:"
"""Before a scheduler's name: the agent brought it into force and worked beside it (`calibration.stages.agent`)."""

SHADOW = "shadow:"
"""Before a scheduler's name: the agent only loaded it. It is in no ranking."""


def plain(name: str) -> SchedulerName:
    """A column's name without the words for how it was kept at work."""
    return SchedulerName(name.removeprefix(LIVE))
