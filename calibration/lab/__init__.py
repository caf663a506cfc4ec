# SPDX-License-Identifier: GPL-2.0-only
"""What the lab itself is worth: is a guest the machine that it is said to be, and what does it cost?"""
