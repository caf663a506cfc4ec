# SPDX-License-Identifier: GPL-2.0-only
"""Commands of the laboratory, `asa lab …`: calibration, benchmarks, recordings, training, evaluations."""
