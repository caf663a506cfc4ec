# SPDX-License-Identifier: GPL-2.0-only
"""The figures of policies beyond the portfolio: what tuning, composing and verifying are worth."""
