# SPDX-License-Identifier: GPL-2.0-only
"""KDE Plasma: the window in front, as a script inside KWin tells it."""
