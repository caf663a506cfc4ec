# SPDX-License-Identifier: GPL-2.0-only
"""The fields of one tick as rates and levels, as `collectors.metrics` declares them. It computes nothing."""

from dataclasses import dataclass

from collectors.metrics.desktop import DesktopRates
from collectors.metrics.felt import FeltRates
from collectors.metrics.probes import ProbeRates
from collectors.metrics.processes import ProcessRates
from collectors.metrics.procfs import ProcfsRates


@dataclass(frozen=True, kw_only=True)  # no slots: `derive` makes one of a dictionary
class Rates(ProcessRates, DesktopRates, FeltRates, ProbeRates, ProcfsRates):
    """One tick: finite, never negative, or None. Names end with the unit; `_share` is 0..1, yes and no are 1 and 0."""
