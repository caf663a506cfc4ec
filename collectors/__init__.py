# SPDX-License-Identifier: GPL-2.0-only
"""Perception: raw counters from the kernel and the desktop, and rates from two samples."""
