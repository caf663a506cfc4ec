# SPDX-License-Identifier: GPL-2.0-only
"""Is the lab right? Its figures beside those that others published of real machines."""
