# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench …`: one module for each benchmark."""
