# SPDX-License-Identifier: GPL-2.0-only
"""`make evaluate` by the exit codes of `asa fleet run`: from which a page is made, and with which it ends."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"
ASA = """#!/bin/sh
echo "$1 $2" >> said
[ "$1" = evaluate ] || exit CODE
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed; apt-get install make")
@pytest.mark.parametrize("quick", ["", "1"])
@pytest.mark.parametrize(("code", "page", "ends"), [(0, True, 0), (4, True, 2), (1, False, 2), (130, False, 2)])
def test_a_page_is_made_of_what_was_played_now(tmp_path, quick, code, page, ends):
    asa = tmp_path / "asa"
    asa.write_text(ASA.replace("CODE", str(code)))
    asa.chmod(0o755)
    words = ["make", "-f", str(MAKEFILE), "-o", "setup", "evaluate", f"ASA={asa}", f"QUICK={quick}"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    said = (tmp_path / "said").read_text().splitlines()
    assert said == ["fleet run", *(["evaluate fleet"] if page else [])]
    assert done.returncode == ends  # 2 is make's own, for any code but 0
