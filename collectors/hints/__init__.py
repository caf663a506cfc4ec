# SPDX-License-Identifier: GPL-2.0-only
"""What the desktop knows by itself of what is done: desktop entries, GameMode, media players, inhibitors, sound."""
