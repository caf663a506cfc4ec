# SPDX-License-Identifier: GPL-2.0-only
"""ASA, the Adaptive Scheduling Agent: a learned router over sched_ext schedulers."""

__version__ = "0.1.0"
