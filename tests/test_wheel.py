# SPDX-License-Identifier: GPL-2.0-only
"""What a wheel brings along: an installed ASA needs no compiler and no checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

from asa.paths import LABORATORY

ROOT = Path(__file__).resolve().parent.parent
COMPILED = ("collectors/ebpf/probes.bpf.o", "models/members.so")  # by `make bpf`


def test_the_wheel_has_what_the_agent_loads(tmp_path):
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("adaptive_scheduling_agent-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
        shipped = {name: archive.read(name) for name in COMPILED}
    assert shipped == {name: (ROOT / name).read_bytes() for name in COMPILED}
    needed = {
        "collectors/ebpf/bcc.c",
        "collectors/ebpf/probes.h",
        "collectors/gnome/extension/core.js.in",
        "collectors/gnome/extension/esm.js.in",
        "collectors/gnome/extension/legacy.js.in",
        "mapping_tables/default.yaml",
        "mapping_tables/hints.yaml",
        "mapping_tables/known_programs.yaml",
        "models/artefacts/base.npz",
        "models/members.c",
        "scx_bin/manifest.yaml",
        "scx_bin/policies/scx_lavd-powersave.yaml",
    }
    known = {str(path.relative_to(ROOT)) for path in (ROOT / "models/artefacts").glob("*.json")}  # by `asa lab train`
    assert needed | known <= there
    assert not [name for name in there if name.startswith(tuple(f"{part}/" for part in LABORATORY))]


def test_the_laboratorys_wheel_has_the_rest(tmp_path):
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=ROOT / "calibration", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("adaptive_scheduling_agent_lab-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        code = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert all(name.startswith(tuple(f"{part}/" for part in LABORATORY)) for name in code)
    ours = {path.relative_to(ROOT) for part in LABORATORY for path in (ROOT / part).rglob("*.py")}
    assert {str(path) for path in ours} <= code
