# SPDX-License-Identifier: GPL-2.0-only
"""The lab: a Debian kernel with sched_ext over this host's file system, in a virtual machine."""
