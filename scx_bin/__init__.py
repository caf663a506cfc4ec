# SPDX-License-Identifier: GPL-2.0-only
"""Data only: `manifest.yaml`, the portfolio of schedulers. A package so that an installed ASA finds it."""
