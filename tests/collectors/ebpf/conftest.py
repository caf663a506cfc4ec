# SPDX-License-Identifier: GPL-2.0-only
"""Makes the loads and second sources importable, which the tests in the lab use as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "load"))
