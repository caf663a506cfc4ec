# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the fleet: read from kept runs, paired, summed, named."""
