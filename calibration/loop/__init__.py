# SPDX-License-Identifier: GPL-2.0-only
"""The agent's loop: observe, plan, execute, learn. One controller; a language model may take the plan's part alone."""
