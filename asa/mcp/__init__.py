# SPDX-License-Identifier: GPL-2.0-only
"""A server of the Model Context Protocol (MCP): what the agent knows, as tools for other programs and for assistants.

A process of its own, which the client starts (`asa mcp`) and which ends with it. The daemon never imports it. `server`
alone imports the SDK; all other modules go without, so that they are tested without it. docs/mcp.md is for users.
"""
