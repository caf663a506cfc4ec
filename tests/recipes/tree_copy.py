# SPDX-License-Identifier: GPL-2.0-only
"""A copy of the source tree, in which a test does what a recipe of CONTRIBUTING.md says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = (
    "asa",
    "calibration",
    "collectors",
    "mapping_tables",
    "models",
    "packaging",
    "scenarios",
    "scx_bin",
    "tests",
)
_FILES = ("README.md", "pyproject.toml")
_LIMIT_S = 240.0


class Tree:
    """The copy. Its modules come first on the path of what `run` starts."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, path, text):
        """A new file."""
        (self.folder / path).write_text(text)

    def change(self, path, old, new):
        """Replace a text that stands there exactly once."""
        text = (self.folder / path).read_text()
        assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
        (self.folder / path).write_text(text.replace(old, new))

    def run(self, *words, code=0):
        """What `python3 WORDS` printed, in the copy."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        assert done.returncode == code, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


def copied_tree(tmp_path):
    """The folders of the product and of the laboratory, without kept results and recordings."""
    folder = tmp_path / "tree"
    left_out = shutil.ignore_patterns("__pycache__", "results", "*.journal.xz", ".*cache")
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in _FILES:
        shutil.copy(ROOT / name, folder / name)
    return Tree(folder)
