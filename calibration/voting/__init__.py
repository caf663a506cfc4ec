# SPDX-License-Identifier: GPL-2.0-only
"""The voting and its alternatives on sequences of known truth."""
