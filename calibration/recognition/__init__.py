# SPDX-License-Identifier: GPL-2.0-only
"""What recognition is worth, and what each runtime of the model costs."""
