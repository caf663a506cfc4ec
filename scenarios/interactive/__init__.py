# SPDX-License-Identifier: GPL-2.0-only
"""The four applications that a person looks at: real programs and their drivers."""
