# SPDX-License-Identifier: GPL-2.0-only
"""Columns of a run that decide which scheduler is in force: the agent, the rule of scx_loader, a die."""
