# SPDX-License-Identifier: GPL-2.0-only
"""What the agent and its probes cost, live and as a shadow."""
