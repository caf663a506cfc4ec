# SPDX-License-Identifier: GPL-2.0-only
"""Does the agent do harm? What it takes back wrongly, how soon it takes back what starves, and what trials cost."""
