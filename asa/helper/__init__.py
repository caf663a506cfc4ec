# SPDX-License-Identifier: GPL-2.0-only
"""The root helper: switches for the user at the seat, and asks polkit first. No model, no decision, no network."""
