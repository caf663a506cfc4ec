# SPDX-License-Identifier: GPL-2.0-only
"""Collectors over /proc: processor, memory, disk, network and process counters, read as bytes from open descriptors."""
