# SPDX-License-Identifier: GPL-2.0-only
"""How `asa mcp` holds up: foreign clients, fuzzed calls, servers that are killed, and what it costs."""
