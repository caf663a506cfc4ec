# SPDX-License-Identifier: GPL-2.0-only
"""The rules on a scheduler's source: each reads a `Program` and yields findings."""
