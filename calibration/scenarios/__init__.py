# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark of scenarios: scores, tables, and whether it repeats."""
