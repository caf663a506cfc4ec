# SPDX-License-Identifier: GPL-2.0-only
"""A journal as figures, pictures and one HTML page. Offline: the agent never loads it."""
