# SPDX-License-Identifier: GPL-2.0-only
"""What a switch of schedulers takes, each way."""
