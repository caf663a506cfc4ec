# SPDX-License-Identifier: GPL-2.0-only
"""The verifier of schedulers: what is wrong with an object or a source is found in stages, before it may run."""
