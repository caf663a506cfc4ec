# SPDX-License-Identifier: GPL-2.0-only
"""The recipe "a scheduler" of CONTRIBUTING.md, its minimum: an entry of the manifest, a line of a table, in a copy."""

import json

import pytest
from tree_copy import copied_tree

ENTRY = """\
  - name: scx_made
    source: {kind: host, reason: it is made up}
    purpose: nothing, it shows what an entry needs
    ops: made
    help: [--help]
    paper: false
    writes: [made_up_knob, no_turbo]
    knobs:
      switches: [--loud]

"""
POLICY = """\
id: scx_made:loud
version: "1.0"
purpose: says more
flags: {--loud: true}
provenance: {kind: author, source: scx_made --help}
"""
SETTING = '  devices/system/cpu/cpu*/power/made_up_knob: "[01]"\n'
BINARY = '#!/bin/sh\ncase "$1" in --help) echo "      --loud    says more";; --version) echo "scx_made 1.0";; esac\n'
KNOWN = """\
import json
from pathlib import Path
from asa import paths
from asa.act import settings
from asa.act.portfolio import Portfolio
from asa.core.decision import SchedulerName
from asa.decide import table

portfolio = Portfolio.load(paths.manifest(), Path("/none"), "")
mapping = table.load(paths.mapping_tables() / "default.yaml", portfolio.modes())
print(json.dumps({
    "ops": portfolio.name_of_ops("made_1.0"),
    "read": settings.acceptable("devices/system/cpu/cpu3/power/made_up_knob", "1"),
    "held": settings.acceptable("devices/system/cpu/cpu3/power/made_up_knob", "2"),
    "doubtful": sorted(settings.doubtful()),
    "web": [(str(one.name), str(one.ground)) for one in mapping.offers("web")],
}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The copy, in which the recipe has been followed."""
    copy = copied_tree(tmp_path_factory.mktemp("scheduler"))
    first = "  - name: scx_cosmos\n"
    copy.change("scx_bin/manifest.yaml", first, ENTRY + first)
    copy.add("scx_bin/policies/scx_made-loud.yaml", POLICY)
    pstate = '  devices/system/cpu/intel_pstate/no_turbo: "[01]"\n'
    copy.change("scx_bin/manifest.yaml", pstate, SETTING + pstate)
    trigger = "interest-noawait /usr/bin/scx_cosmos\n"
    copy.change("packaging/debian/asa.triggers", trigger, trigger + trigger.replace("cosmos", "made"))
    copy.change(
        "mapping_tables/default.yaml",
        "  web: *launch\n",
        "  web:\n    - *own\n    - {scheduler: scx_made, mode: loud, why: made up}\n",
    )
    return copy


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """A host with the scheduler's program on PATH, and a cache of its own."""
    binary = tmp_path / "bin/scx_made"
    binary.parent.mkdir()
    binary.write_text(BINARY)
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", f"{binary.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return binary


def listed(tree):
    rows = json.loads(tree.run("-m", "asa.cli", "schedulers", "list", "--json"))
    return next(row for row in rows if row["name"] == "scx_made")


def test_it_is_listed_and_its_hash_recorded(tree, host):
    before = listed(tree)
    assert (before["available"], before["modes"]) == (False, {"default": [], "loud": ["--loud"]})
    assert "not recorded yet; run `asa schedulers install scx_made`" in before["reason"]
    tree.run("-m", "asa.cli", "schedulers", "install", "scx_made")
    after = listed(tree)
    assert (after["available"], after["path"], after["origin"]) == (True, str(host), "path")
    assert len(after["sha256"]) == 64


def test_agent_and_undo_know_it(tree):
    found = json.loads(tree.run("-c", KNOWN))
    assert (found["ops"], found["web"][1]) == ("scx_made", ["scx_made:loud", "opinion"])
    assert (found["read"], found["held"]) == (True, False)
    assert {"made_up_knob", "no_turbo", "pm_qos_resume_latency_us"} <= set(found["doubtful"])


def test_commands_know_it(tree):
    tree.run("-m", "asa.cli", "table", "check", str(tree.folder / "mapping_tables/default.yaml"))
    assert "scx_made" in tree.run("-m", "asa.cli", "completion", "bash")


def test_the_tests_that_look_at_manifest_and_tables_pass(tree):
    files = (
        *("tests/act/test_manifest.py", "tests/act/test_policies.py", "tests/act/test_portfolio.py"),
        "tests/act/test_settings.py",
        *("tests/act/test_undo_settings.py", "tests/decide/test_table.py"),
        "tests/packaging/test_debian_scripts.py",
    )
    said = tree.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert "passed" in said


def test_a_file_that_the_sandbox_does_not_let_be_written_is_found(tree):
    elsewhere = SETTING.replace("devices/system/cpu/cpu*/power", "kernel/mm/made_up")
    tree.change("scx_bin/manifest.yaml", SETTING, elsewhere)
    try:
        said = tree.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/act/test_manifest.py", code=1)
    finally:
        tree.change("scx_bin/manifest.yaml", elsewhere, SETTING)
    assert "test_the_helpers_unit_lets_be_written_what_the_manifest_names" in said
    assert "-/sys/kernel/mm/made_up/made_up_knob" in said
