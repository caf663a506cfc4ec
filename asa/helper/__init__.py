# SPDX-License-Identifier: GPL-2.0-only
"""The root helper: switches for the user at the seat, and asks polkit first. No model, no decision, no network.

The table of its verbs is `asa.core.helper_api.Verb`; each has a method in `asa.helper.desk`.
"""
