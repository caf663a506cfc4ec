# SPDX-License-Identifier: GPL-2.0-only
"""What the code base is like to live in, as figures: commands, settings, words, lines, and what stands several times.

Counts the repository itself: what `asa --help` prints, the fields of the settings, syntax trees, what an import loads.
`make bench-house` measures and keeps, `make figures-house` prints what is kept; it changes nothing else.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from asa import paths
from asa.config import Settings
from asa.core.errors import AsaError
from calibration.goals import Named, as_json
from calibration.kept import Kept, collect, figures, read, write

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).parent / "results" / "house.json"
_RECIPES = ("scheduler", "metric", "load")
_ENTRY = "asa.helper.service"
_LOADED = "import sys, {entry}; print(*sorted(name for name in sys.modules if name.partition('.')[0] in {ours}))"
_LIMIT_S = 60.0
_SIBLING = {"with_name", "with_suffix", "with_stem", "mkstemp", "NamedTemporaryFile"}
_FROM_THE_END = {"rfind", "rindex", "rpartition", "rsplit"}


class HouseFigure(Named):
    """The figures, each with its goal."""

    COMMANDS = "commands_daily", "commands", "shown by `asa --help`", "<=", 24.0
    SETTINGS = "settings", "settings", "values that a settings file may have", "<=", 32.0
    README = "readme_words", "words", "of README.md", "<=", 900.0
    MODULES = "product_modules", "modules", "Python files of what a laptop gets: the wheel without the laboratory"
    LINES = "product_lines", "lines", "of these files", "<=", 28_000.0
    HELPER = "helper_modules", "modules", "of ours that importing the root helper loads", "<", 77.0
    WRITES = "atomic_write_copies", "functions", "that write a file beside its place and rename it", "<=", 1.0
    SPLITTERS = "stat_splitters", "modules", "that split /proc/PID/stat at its last bracket", "<=", 1.0
    RECIPES = "recipes_tested", "recipes", "of CONTRIBUTING.md that a test does: scheduler, metric, load", ">=", 3.0
    TESTS = "test_seconds_warm", "s", "`make test` with warm caches, as it last took", "<=", 2_100.0


def commands(root: Path) -> tuple[float, str]:
    """Names at the left of what `asa --help` prints, and which they are."""
    text = _output([sys.executable, "-P", "-c", "from asa.cli.main import main; main(['--help'])"], root)
    shown = text.partition("\noptions:")[0].splitlines()
    names = [line.split()[0] for line in shown if line.startswith("  ") and not line.startswith("   ")]
    return float(len(names)), ""


def settings(kind: type = Settings) -> tuple[float, str]:
    """Fields of a settings file, groups counted by their fields."""

    def leaves(info: msgspec.inspect.Type) -> int:
        if isinstance(info, msgspec.inspect.UnionType):
            return max(map(leaves, info.types))
        if isinstance(info, msgspec.inspect.StructType):
            return sum(leaves(field.type) for field in info.fields)
        return 1

    return float(leaves(msgspec.inspect.type_info(kind))), ""


def product(root: Path) -> list[Path]:
    """The Python files that the product's wheel has, by pyproject.toml."""
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    left = [root / part for part in wheel.get("exclude", ())]
    every = [path for package in wheel["packages"] for path in sorted((root / package).rglob("*.py"))]
    return [path for path in every if not any(path.is_relative_to(part) for part in left)]


def lines(files: Sequence[Path]) -> tuple[float, str]:
    """Of all of them."""
    return float(sum(path.read_bytes().count(b"\n") for path in files)), f"{len(files)} files"


def helper(root: Path, entry: str = _ENTRY, ours: Sequence[str] = ("asa", "collectors", "models")) -> tuple[float, str]:
    """Modules of ours that are loaded when the helper's entry is."""
    code = _LOADED.format(entry=entry, ours=tuple(ours))
    return float(len(_output([sys.executable, "-P", "-c", code], root).split())), f"by importing {entry}"


def ours(root: Path) -> Iterator[Path]:
    """All Python files of the repository that are no tests."""
    for folder in ("asa", "calibration", "collectors", "models", "scenarios"):
        yield from sorted((root / folder).rglob("*.py"))


def atomic_writes(root: Path) -> tuple[float, str]:
    """Functions that rename a file onto another whose name they, or their class, have made up beside it."""
    found = []
    for path in ours(root):
        tree = ast.parse(path.read_bytes())
        beside = {target for target, value in _assigned(tree) if target.startswith("self.") and _sibling(value)}
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        found += [f"{path.relative_to(root)}:{one.name}" for one in functions if _replaces(one, beside)]
    return float(len(found)), ", ".join(found)


def _replaces(function: ast.FunctionDef, beside: set[str]) -> bool:
    made = beside | {target for target, value in _assigned(function) if _sibling(value)}
    return any(_renamed(node) in made for node in ast.walk(function) if isinstance(node, ast.Call))


def _assigned(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                every = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from ((ast.unparse(one), node.value) for one in every)


def _sibling(value: ast.expr) -> bool:
    # `path.with_name(...)`, `mkstemp(dir=...)`, or a text such as f".{name}.new"
    if isinstance(value, ast.BinOp):
        return _sibling(value.right)
    called = value.func if isinstance(value, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if isinstance(value, ast.Call) and name == "Path":
        return any(map(_sibling, value.args))
    return isinstance(value, ast.JoinedStr) or name in _SIBLING


def _renamed(call: ast.Call) -> str:
    # what `fresh.replace(path)`, `Path(fresh).replace(path)` and `os.replace(fresh, path)` rename; "" for another call
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"replace", "rename"}:
        return ""
    of_os = ast.unparse(call.func.value) == "os"
    if not of_os and (len(call.args) != 1 or call.keywords):
        return ""  # str.replace takes two texts, datetime.replace keywords
    renamed = call.args[0] if of_os else call.func.value
    inside = renamed.args if isinstance(renamed, ast.Call) else []
    return ast.unparse(inside[0] if len(inside) == 1 else renamed)


def stat_splitters(root: Path) -> tuple[float, str]:
    """Modules that speak of stat and look for the last bracket of a text."""
    found = []
    for path in ours(root):
        body = path.read_text(encoding="utf-8")
        tree = ast.parse(body)
        if "stat" in _words(tree) and any(_from_the_last_bracket(node) for node in ast.walk(tree)):
            found.append(str(path.relative_to(root)))
    return float(len(found)), ", ".join(found)


def _words(tree: ast.Module) -> set[str]:
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {word.strip(".,;:()`'\"{}") for text in texts for part in text.split() for word in part.split("/")}


def _from_the_last_bracket(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    first = node.args[0]
    told = first.value if isinstance(first, ast.Constant) else None
    return node.func.attr in _FROM_THE_END and told in {")", b")", ") ", b") "}


def recipes(root: Path) -> tuple[float, str]:
    """Recipes whose file has a test."""
    there = []
    for name in _RECIPES:
        path = root / "tests" / "recipes" / f"test_{name}.py"
        tree = ast.parse(path.read_bytes()) if path.is_file() else ast.Module(body=[], type_ignores=[])
        if any(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body):
            there.append(name)
    return float(len(there)), ", ".join(there)


def tests(kept: Path) -> tuple[float, str]:
    """What the last `make test` kept, where its caches were warm. Raises AsaError without."""
    try:
        last = json.loads(kept.read_bytes())
        seconds, warm = float(last["seconds"]), bool(last["warm"])
    except (OSError, ValueError, KeyError, TypeError):
        raise AsaError(f"{kept.name}: `make test` has kept nothing in the cache; run it") from None
    if not warm:
        raise AsaError(f"{kept.name}: the last run had cold caches ({seconds:.0f} s); run `make test` again")
    return seconds, ", ".join(f"{name} {took:.0f} s" for name, took in last.get("parts", {}).items())


def measure(root: Path = ROOT) -> Kept:
    """All figures; one that cannot be counted is unknown, with the reason."""
    files = product(root)
    return collect(
        {
            HouseFigure.COMMANDS: lambda: commands(root),
            HouseFigure.SETTINGS: settings,
            HouseFigure.README: lambda: (float(len((root / "README.md").read_text(encoding="utf-8").split())), ""),
            HouseFigure.MODULES: lambda: (float(len(files)), ""),
            HouseFigure.LINES: lambda: lines(files),
            HouseFigure.HELPER: lambda: helper(root),
            HouseFigure.WRITES: lambda: atomic_writes(root),
            HouseFigure.SPLITTERS: lambda: stat_splitters(root),
            HouseFigure.RECIPES: lambda: recipes(root),
            HouseFigure.TESTS: lambda: tests(paths.default().cache / "tests" / "last.json"),
        }
    )


def _output(words: Sequence[str], root: Path) -> str:
    # of a program that imports this repository; a terminal's width does not matter
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "120"}
    done = subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        raise AsaError(f"{words[-1]!r}: exit code {done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures as JSON lines, measured anew with `--measure`. 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="python -m calibration.house", description=main.__doc__)
    parser.add_argument("--measure", action="store_true", help="count anew, and keep it")
    parser.add_argument(
        "--kept", type=Path, default=KEPT, metavar="FILE", help="where it is kept (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    if given.measure:
        write(measure(), given.kept)
    for figure in figures(read(given.kept), HouseFigure, "make bench-house"):
        print(as_json(figure))
    return 0


if __name__ == "__main__":
    sys.exit(main())
