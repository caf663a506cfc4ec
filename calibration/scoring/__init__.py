# SPDX-License-Identifier: GPL-2.0-only
"""Scores from 0 to 1 for what a person feels of a benchmark's run (User Experience Oriented Evaluation Criteria)."""
