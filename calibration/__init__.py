# SPDX-License-Identifier: GPL-2.0-only
"""Offline stages that turn runs of the scenarios into mapping tables. Empty until calibration is built."""
