# SPDX-License-Identifier: GPL-2.0-only
"""The gate: an unmodified scheduler loads and is verified beside the one in force, and waits at its attach call."""

from asa.act.gate.launch import Gated, Stage, launch, unusable

__all__ = ["Gated", "Stage", "launch", "unusable"]
