# SPDX-License-Identifier: GPL-2.0-only
"""Effects on the machine: the portfolio of schedulers, what the kernel says, and switching between them."""
