# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers composed of primitives: a C file with five slots, its loader, what fills the slots, and a model of it."""
