# SPDX-License-Identifier: GPL-2.0-only
"""The three stages that make the mapping table of a machine."""
