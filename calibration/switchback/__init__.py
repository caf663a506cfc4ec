# SPDX-License-Identifier: GPL-2.0-only
"""Switchback runs: one guest plays one scenario once started, and all schedulers take turns in it."""
