# SPDX-License-Identifier: GPL-2.0-only
"""The seven loads that a person waits for: real programs and their drivers."""
