# SPDX-License-Identifier: GPL-2.0-only
"""The laptop benchmark: what daemon and helper cost on an installed machine."""
