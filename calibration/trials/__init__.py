# SPDX-License-Identifier: GPL-2.0-only
"""Trials that switch back and forth, played on recorded noise: their errors, and how many pairs they need."""
