# SPDX-License-Identifier: GPL-2.0-only
"""Programs of each kind of use, beside the benchmark's own: a module a kind, its `PROGRAMS` the list.

Recognition is judged on programs that it has not learnt from, so each kind has several. They are recorded and not
scored: their one metric is `passes`. `scenarios.catalogue` lists the modules.
"""
