# SPDX-License-Identifier: GPL-2.0-only
"""What somebody else says of programs that nobody here knows: a table of well-known ones, or a language model's server.

Off unless `adviser.yaml` says otherwise. Its word is a prior with a cap (`asa.decide.knowledge`); docs/adviser.md.
"""
