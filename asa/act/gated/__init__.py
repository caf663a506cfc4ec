# SPDX-License-Identifier: GPL-2.0-only
"""The gated switcher: schedulers loaded beside the one in force, and exchanged at the gate."""
