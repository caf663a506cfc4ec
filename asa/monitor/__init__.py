# SPDX-License-Identifier: GPL-2.0-only
"""`asa monitor`: the running agent in a terminal, live. Reads its status file and nothing else."""
