# SPDX-License-Identifier: GPL-2.0-only
"""Recognition: features, training (offline), the shipped artefact, and inference without any training library."""
