# SPDX-License-Identifier: GPL-2.0-only
"""A model in a scheduler's path, as in the post "I Put an LLM Inside the Linux Kernel Scheduler": what it costs."""
