# SPDX-License-Identifier: GPL-2.0-only
"""Whether ASA holds up where its users are: faults that others' users reported, and what `asa doctor` says first."""
