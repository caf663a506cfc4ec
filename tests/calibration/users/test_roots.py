# SPDX-License-Identifier: GPL-2.0-only
"""What counts as an ASA that runs in a root, as what it leaves there, and how both become figures."""

import json
from subprocess import CompletedProcess

import pytest

import asa
from asa.core.errors import AsaError, SetupError
from calibration.users import benchmark, roots
from calibration.users.benchmark import UsersFigure
from calibration.users.roots import Tried, judge, there

RUNS = f"asa {asa.__version__}\n"


def doctor(code, verdict):
    return CompletedProcess((), code, json.dumps({"verdict": verdict, "findings": []}), "")


def test_an_asa_that_works_or_only_observes_runs():
    judge(doctor(0, "works"), RUNS)
    judge(doctor(1, "observes"), RUNS)


@pytest.mark.parametrize(
    ("said", "version", "why"),
    [
        (doctor(3, "fails"), RUNS, "ended with 3, fails"),
        (doctor(0, "observes"), RUNS, "ended with 0, observes"),
        (doctor(0, "works"), "asa 0.0.9", "--version said"),
        (CompletedProcess((), 1, "", "Traceback: ImportError"), RUNS, "ImportError"),
    ],
)
def test_anything_else_does_not(said, version, why):
    with pytest.raises(SetupError, match=why):
        judge(said, version)


def test_databases_of_package_tools_are_not_left_overs(tmp_path):
    for name in ("var/lib/dpkg/status", "var/lib/asa/undo.json", "etc/asa/asa.yaml", "proc/1/stat"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "etc/link").symlink_to("nowhere")
    assert there(tmp_path) == {
        *("etc", "etc/asa", "etc/asa/asa.yaml", "etc/link"),
        *("var", "var/lib", "var/lib/asa", "var/lib/asa/undo.json"),
    }


def test_both_figures_are_of_one_run(monkeypatch):
    runs = []
    found = (Tried(root="Debian", fault="", left=()), Tried(root="RPM", fault="", left=("usr/share/fish",)))
    monkeypatch.setattr(roots, "tried", lambda: runs.append(1) or found)
    counts = benchmark.counts()
    assert counts[UsersFigure.INSTALLS]() == (2.0, "Debian; RPM")
    assert counts[UsersFigure.LEFT]() == (1.0, "RPM: usr/share/fish")
    assert runs == [1]


def test_left_overs_are_unknown_where_a_package_could_not_be_installed(monkeypatch):
    monkeypatch.setattr(roots, "tried", lambda: (Tried(root="RPM", fault="no rpm", left=()),))
    counts = benchmark.counts()
    assert counts[UsersFigure.INSTALLS]() == (0.0, "RPM: no rpm")
    with pytest.raises(AsaError, match="RPM: no rpm"):
        counts[UsersFigure.LEFT]()
