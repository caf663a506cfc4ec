# SPDX-License-Identifier: GPL-2.0-only
"""Tuning: which values of a scheduler's flags serve a use best, found by experiment and confirmed on fresh seeds."""
