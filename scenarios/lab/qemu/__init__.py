# SPDX-License-Identifier: GPL-2.0-only
"""The lab's own QEMU, with the parallel clock: built from the distribution's source package with our change."""
