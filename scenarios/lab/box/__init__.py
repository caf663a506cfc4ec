# SPDX-License-Identifier: GPL-2.0-only
"""A box: a whole machine in namespaces, with an installed ASA in it."""
