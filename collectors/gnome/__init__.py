# SPDX-License-Identifier: GPL-2.0-only
"""What GNOME Shell knows about the person at the screen: the extension that tells it, its installation, its reader."""
