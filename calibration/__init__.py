# SPDX-License-Identifier: GPL-2.0-only
"""Offline measurement: what the agent costs. The stages that make mapping tables come here too."""
