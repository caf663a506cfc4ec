# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the house are counted, not asserted: small trees of known answer, and the repository itself."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from asa.core.errors import AsaError
from calibration import house
from calibration.house import HouseFigure
from calibration.kept import figures

ROOT = Path(__file__).resolve().parents[2]
WRITES = """
import os, tempfile
from pathlib import Path

def beside(path, body):
    fresh = path.with_name(f".{path.name}")
    fresh.write_bytes(body)
    fresh.replace(path)

def by_os(path, body):
    fresh = f"{path}.new"
    open(fresh, "wb").write(body)
    os.rename(fresh, path)

def temporary(path, body):
    handle, fresh = tempfile.mkstemp(dir=path.parent)
    os.write(handle, body)
    Path(fresh).replace(path)

class Kept:
    def __init__(self, path):
        self._path, self._fresh = path, None
        self._fresh = Path(f"{path}.new")

    def write(self, body):
        self._fresh.write_bytes(body)
        self._fresh.replace(self._path)

def moves(found, folder):
    found.replace(folder / found.name)

def texts(text):
    made = f"{text}."
    return made.replace("a", "b"), made.replace("c", "d", 1)
"""
SPLITS = '''
def fields(text):
    """Those of /proc/PID/stat."""
    return text[text.rindex(")") + 2 :].split()
'''
VERSION = '''
def version(text):
    """Of `gcc (Debian 14) 14.2`."""
    return text.rpartition(")")[2]
'''


def put(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_functions_that_replace_a_file_are_counted(tmp_path):
    put(tmp_path, {"asa/a.py": WRITES, "scenarios/b.py": WRITES.partition("def by_os")[0], "tests/c.py": WRITES})
    count, where = house.atomic_writes(tmp_path)
    assert count == 5.0
    assert where == "asa/a.py:beside, asa/a.py:by_os, asa/a.py:temporary, asa/a.py:write, scenarios/b.py:beside"


def test_modules_that_split_stat_are_counted(tmp_path):
    put(tmp_path, {"asa/a.py": SPLITS, "collectors/b.py": SPLITS, "scenarios/c.py": VERSION})
    assert house.stat_splitters(tmp_path) == (2.0, "asa/a.py, collectors/b.py")


def test_the_product_is_what_its_wheel_has(tmp_path):
    wheel = (
        '[tool.hatch.build.targets.wheel]\npackages = ["asa", "models"]\nexclude = ["asa/cli/lab", "models/train"]\n'
    )
    put(
        tmp_path,
        {
            "pyproject.toml": wheel,
            "asa/a.py": "1\n2\n",
            "asa/cli/lab/b.py": "1\n",
            "models/c.py": "1\n2\n3\n",
            "models/train/d.py": "1\n",
            "models/text.md": "1\n",
            "calibration/e.py": "1\n",
        },
    )
    files = house.product(tmp_path)
    assert [path.name for path in files] == ["a.py", "c.py"]
    assert house.lines(files) == (5.0, "2 files")


def test_modules_that_an_import_loads(tmp_path):
    put(tmp_path, {"asa/__init__.py": "", "asa/a.py": "import asa.b, json\n", "asa/b.py": "", "asa/c.py": ""})
    assert house.helper(tmp_path, "asa.a") == (3.0, "by importing asa.a")
    with pytest.raises(AsaError, match="No module named"):
        house.helper(tmp_path, "asa.d")


def test_settings_are_counted_by_their_fields():
    class Group(msgspec.Struct):
        first: int = 1
        second: Annotated[float, msgspec.Meta(gt=0)] = 1.0
        third: dict[str, int] = {}

    class All(msgspec.Struct):
        group: Group
        perhaps: Group | None = None
        name: str | None = None

    assert house.settings(All) == (7.0, "")


def test_commands_are_the_lines_of_help(tmp_path):
    text = "usage: asa\\n\\nthe agent:\\n  run   go\\n        on\\n  stop  end\\n\\noptions:\\n  -h  help\\n"
    put(
        tmp_path, {"asa/__init__.py": "", "asa/cli/__init__.py": "", "asa/cli/main.py": f"def main(_): print('{text}')"}
    )
    assert house.commands(tmp_path)[0] == 2.0


def test_a_recipe_without_a_test_does_not_count(tmp_path):
    put(
        tmp_path,
        {"tests/recipes/test_metric.py": "def test_it(): ...\n", "tests/recipes/test_load.py": "def it(): ...\n"},
    )
    assert house.recipes(tmp_path) == (1.0, "metric")


def test_seconds_of_a_warm_run_alone(tmp_path):
    last = tmp_path / "last.json"
    with pytest.raises(AsaError, match="`make test` has kept nothing"):
        house.tests(last)
    last.write_text(json.dumps({"seconds": 1234.5, "parts": {"check": 60.0}, "warm": True}))
    assert house.tests(last) == (1234.5, "check 60 s")
    last.write_text(json.dumps({"seconds": 5000.0, "parts": {}, "warm": False}))
    with pytest.raises(AsaError, match="cold caches"):
        house.tests(last)


def test_measured_kept_and_printed(tmp_path):
    kept = tmp_path / "house.json"
    words = [sys.executable, "-m", "calibration.house", "--kept", kept]
    none = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [json.loads(line)["name"] for line in none] == list(HouseFigure)
    assert all("make bench-house" in json.loads(line)["reason"] for line in none)
    measured = subprocess.run([*words, "--measure"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert again == measured
    found = {line["name"]: line for line in map(json.loads, measured.splitlines())}
    assert set(next(iter(found.values()))) >= {"name", "value", "unit", "goal", "ok"}
    assert found["commands_daily"]["ok"] is True
    assert found["readme_words"]["ok"] is True
    assert found["helper_modules"]["value"] > 20
    assert found["product_modules"]["value"] > 100


def test_what_cannot_be_counted_is_unknown(tmp_path):
    put(
        tmp_path,
        {
            "pyproject.toml": '[tool.hatch.build.targets.wheel]\npackages = ["asa"]\n',
            "asa/__init__.py": "",
            "asa/a.py": "def:",
        },
    )
    made = {figure.name: figure for figure in figures(house.measure(tmp_path), HouseFigure, "make bench-house")}
    for name in (HouseFigure.WRITES, HouseFigure.README, HouseFigure.COMMANDS):
        assert made[name].value is None
        assert made[name].reason
        assert made[name].ok is False
    assert made[HouseFigure.MODULES].value == 2.0
