# SPDX-License-Identifier: GPL-2.0-only
"""What is declared in pyproject.toml is imported, and what is imported is declared, by extra."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from asa.install.payload import DISTRIBUTION
from asa.paths import LABORATORY

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("asa", "collectors", "models", "calibration", "scenarios")
EXTRAS_OF = {  # beside what the agent itself needs
    "product": ("mcp", "monitor"),
    "laboratory": ("bench", "cluster", "export", "guests", "train"),
    "tests": ("bench", "cluster", "dev", "export", "guests", "mcp", "monitor", "train"),
}
OF_OTHERS = {  # not from PyPI: a program brings it, or a distribution that is declared does
    "bpy": "Blender's own Python",
    "gi": "python3-gi, of the desktop's tests",
    "uno": "LibreOffice",
    "dask": "distributed is a part of it, of the same version",
}
RUN_BY = {  # distributions that are run or built with, and the file that says so
    "editables": "docs/dependencies.md",
    "hatchling": "pyproject.toml",
    "meson": "scenarios/lab/qemu/build.py",
    "mypy": ".pre-commit-config.yaml",
    "pre-commit": "Makefile",
    "pycotap": "scenarios/lab/qemu/build.py",
    "pytest-rerunfailures": "tests/kept_runs.py",
    "ruff": ".pre-commit-config.yaml",
    "types-psutil": "docs/dependencies.md",
    "types-pyyaml": "docs/dependencies.md",
    "uv": "Makefile",
    "virtme-ng": "scenarios/lab/machine.py",
}


def declared():
    """Names by extra, "" for what the agent itself needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {re.split(r"[><=~!\[; ]", one)[0].lower() for one in wanted} - {f"{DISTRIBUTION}-lab"}
        for extra, wanted in groups.items()
    }


def imported():
    """Kind -> module that is neither Python's nor ours -> a file that imports it, or asks for it by `need`."""
    found = {kind: {} for kind in EXTRAS_OF}
    of_tests = {path.stem for path in (ROOT / "tests").rglob("*.py")}
    for top in (*PACKAGES, "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            of_laboratory = any(name.startswith(f"{part}/") for part in LABORATORY)
            kind = "tests" if top == "tests" else "laboratory" if of_laboratory else "product"
            known = {*sys.stdlib_module_names, *PACKAGES, "tests", *(of_tests if kind == "tests" else ())}
            for module in modules(ast.parse(path.read_bytes())) - known:
                found[kind].setdefault(module, name)
    return found


def modules(tree):
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
        elif isinstance(node, ast.Call):
            names |= set(asked(node)[0])
    return {name.partition(".")[0] for name in names}


def asked(call):
    """Of a call of `need`: modules, and the extras that have them."""
    if getattr(call.func, "id", "") != "need":
        return [], []
    return [one.value for one in call.args], call.keywords[0].value.value.split(",")


def distribution(module):
    """Its name in pyproject.toml."""
    names = {name.lower() for name in packages_distributions().get(module, [module])}
    assert len(names) == 1, f"{module} is of {names}"
    return names.pop()


@pytest.mark.parametrize("kind", EXTRAS_OF)
def test_what_is_imported_is_declared(kind):
    there = declared()
    allowed = there[""].union(*(there[extra] for extra in EXTRAS_OF[kind]))
    modules_of = imported()[kind]
    assert len(modules_of) > 5
    wrong = {
        f"{where} imports {module}, which no extra of the {kind} declares"
        for module, where in modules_of.items()
        if module not in OF_OTHERS and distribution(module) not in allowed
    }
    assert not wrong


def test_what_is_declared_is_imported_by_whom_it_is_for():
    found = {kind: {distribution(module) for module in names} for kind, names in imported().items()}
    users = {"": ("product",), "mcp": ("product",), "monitor": ("product",), "dev": ("tests",)}
    wrong = []
    for extra, names in declared().items():
        used = set().union(*(found[kind] for kind in users.get(extra, ("laboratory",))))
        wrong += [f"{extra or 'the agent'}: {name} is imported nowhere" for name in sorted(names - used - set(RUN_BY))]
    assert not wrong


def test_a_program_that_is_declared_is_run():
    every = set().union(*declared().values())
    assert set(RUN_BY) <= every
    assert {name for name, path in RUN_BY.items() if name not in (ROOT / path).read_text()} == set()


def test_the_laboratory_brings_all_that_it_imports():
    lab = tomllib.loads((ROOT / "calibration/pyproject.toml").read_text())["project"]["dependencies"]
    brought = set(lab[0].removeprefix(f"{DISTRIBUTION}[").removesuffix("]").split(","))
    assert brought == set(EXTRAS_OF["laboratory"]) - {"cluster"}  # Dask is for who has several hosts


def test_a_command_names_the_extras_that_have_what_it_needs():
    there, seen = declared(), 0
    for path in sorted((ROOT / "asa").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names, extras = asked(node) if isinstance(node, ast.Call) else ([], [])
            had = there[""].union(*(there[extra] for extra in extras))
            assert {distribution(name) for name in names} <= had, f"{path}:{getattr(node, 'lineno', 0)}"
            seen += len(names)
    assert seen > 10
