# SPDX-License-Identifier: GPL-2.0-only
"""Training, fine-tuning and evaluation of models, offline."""
