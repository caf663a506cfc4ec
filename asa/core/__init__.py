# SPDX-License-Identifier: GPL-2.0-only
"""The vocabulary: values, protocols and errors that every layer speaks. Standard library only, no I/O."""
