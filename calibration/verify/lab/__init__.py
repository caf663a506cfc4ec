# SPDX-License-Identifier: GPL-2.0-only
"""The stages that run a scheduler in the lab: does it load and end, and does it treat tasks as it should?"""
