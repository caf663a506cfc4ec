# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers against numbers of CPUs, in the lab."""
