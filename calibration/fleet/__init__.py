# SPDX-License-Identifier: GPL-2.0-only
"""The fleet: machines of the lab after the paper, what is played on them, and the evaluation of the agent."""
