# SPDX-License-Identifier: GPL-2.0-only
"""The command line: each command is a small function that parses, makes one call, and prints."""
