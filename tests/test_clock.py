# SPDX-License-Identifier: GPL-2.0-only
"""What the root helper loads: the clock alone, and no collector before somebody asks for probes."""

import subprocess
import sys

MOST = 70  # modules of ours; 77 before the clock had a module of its own. Two check flags, two tokens


def test_the_helper_loads_few_modules():
    code = "import sys, asa.helper.service; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    loaded = [name for name in names if name.partition(".")[0] in ("asa", "collectors", "models", "scenarios")]
    assert [name for name in loaded if not name.startswith("asa")] == []
    assert "asa.clock" in loaded
    assert len(loaded) <= MOST, loaded
