# SPDX-License-Identifier: GPL-2.0-only
"""A module never imports from a higher layer, and the agent never loads what only offline work needs."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

from asa.paths import LABORATORY

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("asa", "collectors", "models", "calibration", "scenarios")
# Longest prefix wins.
LAYERS = {
    "asa.core": 0,
    "asa": 0,  # the package itself: the version
    "asa.accepted": 1,
    "asa.bus": 1,
    "asa.clock": 1,
    "asa.config": 1,
    "asa.files": 1,
    "asa.procstat": 1,
    "asa.debian": 1,
    "asa.host": 1,
    "asa.inbox": 1,
    "asa.journal": 1,
    "asa.lease": 1,
    "asa.journal_file": 1,
    "asa.paths": 1,
    "asa.requests": 1,
    "asa.runfile": 1,
    "asa.sd_notify": 1,
    "asa.status": 1,
    "asa.wire": 1,
    "asa.yamlfile": 1,
    "asa.act": 2,
    "asa.adviser": 2,
    "asa.notify": 2,
    "asa.sleep": 2,
    "asa.decide": 2,
    "collectors": 2,
    "models": 2,
    "scenarios": 3,
    "asa.heed": 5,
    "asa.lateness": 4,
    "asa.meter": 4,
    "asa.model": 4,
    "asa.pipeline": 4,
    "asa.daemon": 5,
    "asa.assembly": 5,
    "asa.book": 5,
    "asa.remote": 5,
    "asa.replay": 5,
    "asa.replayed": 1,
    "asa.report": 5,
    "asa.reporter": 5,
    "asa.doctor": 5,
    "asa.takeover": 5,
    "asa.verdict": 5,
    "asa.helper": 5,
    "asa.install": 5,
    "asa.monitor": 6,
    "asa.mcp": 7,
    "calibration": 6,
    "asa.cli": 7,
}
MOST_LINES, MOST_SIBLINGS = 800, 4
# Tests of guests, of a whole machine, of CONTRIBUTING.md's recipes, and of the folder packaging.
OF_NO_FOLDER = (("guest",), ("system",), ("recipes",), ("packaging",))
OF_THE_REPOSITORY = {"layers", "makefile", "wheel", "kept", "dependencies", "documents"}
ASK_BY_NAME = {"import_module", "find_spec", "__import__", "files"}
CORE_MAY_IMPORT = sys.stdlib_module_names | {"asa"}


def modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def named(path):
    """What is asked for by a name in a string: `import_module("…")` and its like."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ASK_BY_NAME:
            yield from (one.value for one in node.args[:1] if isinstance(one, ast.Constant))


def layer(name):
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in LAYERS and (length > 1 or parts[0] != "asa" or len(parts) == 1):
            return LAYERS[".".join(parts[:length])]
    if parts[0] == "asa" and len(parts) == 2 and not (ROOT / "asa" / parts[1]).exists():
        return LAYERS["asa"]  # asa.__version__
    raise AssertionError(f"{name}: give this module a layer in {Path(__file__).name}")


def test_every_module_has_a_layer_and_imports_downwards():
    wrong, seen = [], 0
    for name, path in modules():
        for imported in imports(path):
            if imported.split(".")[0] not in PACKAGES:
                continue
            seen += 1
            if layer(imported) > layer(name):
                wrong.append(f"{name} (layer {layer(name)}) imports {imported} (layer {layer(imported)})")
    assert seen > 50
    assert wrong == []


def is_laboratory(name):
    return any(f"{name}.".startswith(f"{folder.replace('/', '.')}.") for folder in LABORATORY)


def test_the_product_never_imports_the_laboratory():
    """Not inside a function, either: `asa.cli.main` alone loads it, by name, where it is installed."""
    wrong = [
        f"{name} imports {imported}"
        for name, path in modules()
        if not is_laboratory(name)
        for imported in (*imports(path), *named(path))
        if is_laboratory(imported)
    ]
    assert wrong == []


def test_a_name_in_a_string_counts_as_an_import(tmp_path):
    source = tmp_path / "one.py"
    source.write_text(
        'import importlib\ndef one():\n    return importlib.import_module("scenarios.workloads").LABELS\n'
    )
    assert [name for name in named(source) if is_laboratory(name)] == ["scenarios.workloads"]


def test_core_needs_the_standard_library_only():
    for name, path in modules():
        if name.startswith("asa.core"):
            assert {imported.split(".")[0] for imported in imports(path)} <= CORE_MAY_IMPORT, name


def test_the_agent_stays_light():
    code = "import sys, asa.assembly, asa.cli.main; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "asa" in loaded
    heavy = {"calibration", "pandas", "sklearn", "scipy", "xgboost", "joblib", "matplotlib", "rich", "psutil"}
    heavy |= {"textual", "mcp", "pydantic"}
    assert not heavy & set(loaded)


def test_files_and_functions_stay_readable():
    for _, path in modules():
        text = path.read_text()
        assert text.startswith("# SPDX-License-Identifier: GPL-2.0-only\n"), path
        assert text.count("\n") <= MOST_LINES, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path}: {node.name}"


def families(names):
    """Files of one folder that share the first word of their name: five of them want a folder."""
    counts = Counter(name.partition("_")[0] for name in names)
    return {word for word, count in counts.items() if count > MOST_SIBLINGS}


def test_a_family_of_files_has_a_folder():
    assert families(["fleet", "fleet_run", "fleet_page", "fleet_task", "fleet_scores", "stages"]) == {"fleet"}
    assert families(["fleet", "fleet_run", "fleet_page", "fleet_task"]) == set()
    folders = {}
    for _, path in modules():
        if path.name != "__init__.py":
            folders.setdefault(path.parent, []).append(path.stem)
    assert {folder: found for folder, names in folders.items() if (found := families(names))} == {}


def test_tests_stand_where_their_source_does():
    wrong = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        folder = path.parent.relative_to(ROOT / "tests")
        if folder.parts[:1] in OF_NO_FOLDER:
            continue
        source = ROOT / (folder if folder.parts[:1] and folder.parts[0] in PACKAGES else Path("asa") / folder)
        known = {one.name.partition(".")[0] for one in source.iterdir()} if source.is_dir() else set()
        known |= {source.name} | (OF_THE_REPOSITORY if folder == Path() else set())
        subject = path.stem.removeprefix("test_")
        if not any(subject == name or subject.startswith(f"{name}_") for name in known):
            wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []
