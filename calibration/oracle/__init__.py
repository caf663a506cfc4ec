# SPDX-License-Identifier: GPL-2.0-only
"""How much is there to gain by choosing schedulers? The matrix of switchback runs, and what is judged by it."""
