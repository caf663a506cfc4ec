# SPDX-License-Identifier: GPL-2.0-only
"""`python -m asa.cli` is `asa`."""

from asa.cli.main import main

main()
