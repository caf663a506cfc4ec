# SPDX-License-Identifier: GPL-2.0-only
"""Workloads of real programs, the player and recorder for them, and the lab: guests with a sched_ext kernel."""
