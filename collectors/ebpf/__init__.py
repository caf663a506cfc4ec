# SPDX-License-Identifier: GPL-2.0-only
"""Counters and latencies from inside the kernel: eBPF programs, two ways to load them, and one reader for both."""
