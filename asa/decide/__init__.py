# SPDX-License-Identifier: GPL-2.0-only
"""From probabilities to a wanted scheduler: voting, mapping table, policy. Pure, no I/O but reading the table."""
