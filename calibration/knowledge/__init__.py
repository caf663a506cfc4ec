# SPDX-License-Identifier: GPL-2.0-only
"""What a base of programs and change points are worth: docs/knowledge.md."""
