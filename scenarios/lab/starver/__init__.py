# SPDX-License-Identifier: GPL-2.0-only
"""A scheduler of the lab's own that starves tasks on purpose, and how it is built."""
