# SPDX-License-Identifier: GPL-2.0-only
"""How `asa mcp` holds up: foreign clients, fuzzed calls, killed servers, and what it costs; what advice is worth."""
