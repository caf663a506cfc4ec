# SPDX-License-Identifier: GPL-2.0-only
"""The product by itself: every daily command runs from a copy in which no file of the laboratory is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asa.cli.main import COMMANDS, GROUPS, HIDDEN
from asa.paths import LABORATORY

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("asa", "collectors", "models", "mapping_tables", "scx_bin")
PROGRAM = """
import sys
copy, checkout = sys.argv[1:3]
sys.path[:] = [copy, *(path for path in sys.path if path not in ("", checkout))]
from asa.cli.main import main
main(sys.argv[3:])
"""
NO_AGENT = 3
# What a machine without a running agent answers; `run` is the agent itself.
RUNS = {
    ("run", "--observe", "--ebpf", "off", "--for", "2"): {0},
    ("status",): {NO_AGENT},
    ("monitor", "--help"): {0},  # it waits for an agent; tests/monitor has one
    ("explain",): {NO_AGENT},
    ("proof",): {0},
    ("hold", "1m"): {1, NO_AGENT},
    ("switch", "eevdf"): {1, NO_AGENT},
    ("resume",): {1, NO_AGENT},
    ("trial",): {NO_AGENT},
    ("trial", "stop"): {1, NO_AGENT},
    ("teach", "compress"): {1, NO_AGENT},
    ("machine", "status"): {1},
    ("journal", "list", "JOURNAL"): {0},
    ("report", "JOURNAL", "--out", "OUT"): {0},
    ("journal", "replay", "JOURNAL", "--json"): {0, 1},
    ("doctor", "--json"): {0, 1},
    ("config", "show"): {0},
    ("schedulers", "list", "--json"): {0},
    ("table", "show"): {0},
    ("table", "diff", "TABLE"): {0},
    ("model", "list"): {0},
    ("metrics", "--json"): {0},
    ("gnome", "status"): {0, 1},
    ("setup", "--dry-run"): {0, 1},
    ("install", "--dry-run"): {0},
    ("uninstall",): {0, 1},
    ("completion", "fish"): {0},
    ("daemon", "--for", "1"): {0, 1},
    ("mcp", "--help"): {0},  # it waits for a client; tests/mcp has some
    ("helper", "--help"): {0},  # what else it does needs a bus of its own: tests/helper
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("product")
    for package in PRODUCT:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "recordings"))
    for part in LABORATORY:
        shutil.rmtree(folder / part, ignore_errors=True)
    return folder


def asa(copy, place, *words):
    names = ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    env = {**os.environ, **{name: str(place) for name in names}, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-c", PROGRAM, str(copy), str(ROOT), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=env, cwd=place)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout + done.stderr
    return done


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_a_daily_command_runs(copy, tmp_path, words):
    shutil.copy(ROOT / "tests/journals/version-1.journal.xz", tmp_path / "one.journal.xz")
    given = {"JOURNAL": tmp_path / "one.journal.xz", "OUT": tmp_path / "report.html"}
    given["TABLE"] = copy / "mapping_tables/default.yaml"
    done = asa(copy, tmp_path, *(str(given.get(word, word)) for word in words))
    assert done.returncode in RUNS[words], done.stderr


def test_all_daily_commands_are_tried():
    assert {words[0] for words in RUNS} == {*COMMANDS} - {*GROUPS["laboratory"]}
    assert len(COMMANDS) - len(HIDDEN) <= 24


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each(copy, tmp_path, name):
    done = asa(copy, tmp_path, name, "--help")
    if name in GROUPS["laboratory"]:
        said = f"asa: asa {name} comes with the package asa-lab; install it: "
        assert (done.returncode, done.stdout, done.stderr[: len(said)]) == (1, "", said)
        assert done.stderr.count("\n") == 1
    else:
        assert done.returncode == 0
        assert done.stdout.startswith(f"usage: asa {name}")


def test_help_shows_the_laboratory_and_where_it_is_from(copy, tmp_path):
    shown = asa(copy, tmp_path, "--help").stdout
    assert "calibrate   comes with the package asa-lab\n" in shown
    assert asa(copy, tmp_path, "lab", "bench", "run").returncode == 1
