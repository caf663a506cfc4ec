# SPDX-License-Identifier: GPL-2.0-only
"""ASA on a machine for good: which files that are, putting them there, taking them away, and the Debian package."""
