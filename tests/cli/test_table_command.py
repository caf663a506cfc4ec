# SPDX-License-Identifier: GPL-2.0-only
"""`asa table`: what each action prints, as text and as JSON, its exit code, and what it leaves behind."""

import json
import os
from dataclasses import replace

import pytest
from standin import asa, host_in
from tried_here import tried

from asa import paths
from asa.core.decision import SchedulerName, Workload
from asa.decide import learning, table
from asa.decide.learning import LEARNING, Learning
from asa.decide.trial_pairs import Verdict
from models.runtime import Ensemble

CPUINFO = "processor : 0\nmodel name : Test CPU\n"
OWN = """\
# mine
version: 2
machine: {name: here, cpu_model: Test CPU, cpus: 2}
measured: {date: 2026-11-01, command: asa adapt, tier: real, seed: 3, kernel: 6.18.1, schedulers: {scx_lavd: 1.0.9}}
provenance: calibrated
costs: {scx_lavd: {switch_ms: 41, overhead_pct: 0.6, runs: 5}, scx_flash: {runs: 1}}
classes:
  web:
    - {scheduler: scx_lavd, why: measured, score: 0.91, low: 0.88, high: 0.93, runs: 6,
       evidence: {ground: measured, effect: 0.11, low: 0.05, high: 0.17, runs: 6}}
    - {scheduler: eevdf, why: measured, score: 0.8, runs: 1}
  idle:
    - {scheduler: eevdf, why: nothing to do}
"""
RECORD = {
    "path": "/x",
    "origin": "built",
    "version": "1.1.4",
    "sha256": "ab" * 32,
    "flags": None,
    "installed": "2026-11-01",
}
OLD = "measured with scx_lavd 1.0.9, here is 1.1.4"


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A machine of two CPUs with scx_lavd 1.1.4, and nobody's table but the shipped ones."""
    for host in host_in(tmp_path, monkeypatch):
        files = {
            "proc/cpuinfo": CPUINFO,
            "proc/sys/kernel/osrelease": "6.18.7",
            "sys/devices/system/cpu/online": "0-1",
            "cache/scx/installed.json": json.dumps({"schedulers": {"scx_lavd": RECORD}}),
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        places = replace(
            paths.default(),
            state=tmp_path / "state",
            config=tmp_path / "asa.yaml",
            proc=tmp_path / "proc",
            sys=tmp_path / "sys",
        )
        monkeypatch.setattr(paths, "default", lambda places=places: places)
        monkeypatch.setattr(paths, "installed", lambda: paths.Places(state=tmp_path / "var"))
        monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "h", "6.18.7", "v", "x86_64")))
        host.places = places
        yield host


@pytest.fixture
def own(host):
    path = host.places.state / "table.yaml"
    path.parent.mkdir()
    path.write_text(OWN)
    return path


def faulty(tmp_path):
    path = tmp_path / "faulty.yaml"
    path.write_text(OWN.replace("scx_lavd, why", "scx_lavdd, why").replace("seed: 3", "sead: 3"))
    return path


def test_show_says_whose_figures_how_old_and_who_serves_what(own, capsys):
    code, said, _ = asa(capsys, "table", "show", "web+kernel", "web", "game")
    assert code == 0
    default = paths.mapping_tables() / "default.yaml"
    assert (
        said
        == f"""\
table       {own}
machine     here: cpu_model Test CPU, cpus 2
measured    2026-11-01, kernel 6.18.1, real programs, seed 3: asa adapt
provenance  calibrated
behind it   {default}
cost        scx_lavd: 41 ms to switch, 0.6 % for the agent under it (5 runs)
cost        scx_flash: time to switch unknown (1 run)
stale       scx_lavd: {OLD}

web+kernel as web
  1  scx_lavd               0.910 (0.880 to 0.930, 6 runs)   measured; stale: {OLD}
     measured here: +0.110 score against eevdf (+0.050 to +0.170), 6 runs
  2  eevdf                  0.800 (? to ?, 1 run)            measured

web
  1  scx_lavd               0.910 (0.880 to 0.930, 6 runs)   measured; stale: {OLD}
     measured here: +0.110 score against eevdf (+0.050 to +0.170), 6 runs
  2  eevdf                  0.800 (? to ?, 1 run)            measured

game by {default}
  1  eevdf                                                   nobody has measured here that another one serves \
this better
  2  scx_flash                                               runs of a burst of tasks begin earlier
     measured in the lab: +61 % of the wait saved against eevdf (interval unknown), 3 runs, guest of 8 CPUs, \
docs/scale.md, burst_p99; may only be tried
"""
    )


def test_show_as_json(own, capsys):
    code, said, _ = asa(capsys, "table", "show", "--json")
    body = json.loads(said)
    assert (code, body["path"], body["elsewhere"], list(body["stale"])) == (0, str(own), "", ["scx_lavd"])
    assert body["file"]["measured"]["kernel"] == "6.18.1"
    assert list(body["classes"])[:3] == ["web", "idle", "game"]  # its own first, then those behind it
    best = body["classes"]["web"]["ranking"][0]
    assert (best["name"], best["score"], best["stale"]) == ("scx_lavd", 0.91, body["stale"]["scx_lavd"])
    assert (best["ground"], best["choosable"], best["evidence"]["effect"]) == ("measured here", True, 0.11)
    tried = body["classes"]["game"]["ranking"][1]
    assert (tried["name"], tried["ground"], tried["choosable"]) == ("scx_flash", "measured in the lab", False)


def test_show_a_prior_and_a_file_and_no_such_class(host, tmp_path, capsys):
    code, said, _ = asa(capsys, "table", "show")
    assert (code, "elsewhere   measured on no machine\n" in said) == (0, True)
    path = tmp_path / "t.yaml"
    path.write_text(OWN.replace("cpus: 2", "cpus: 8"))
    code, said, _ = asa(capsys, "table", "show", "idle", "--table", str(path))
    assert (code, "elsewhere   measured on another machine: cpus 8 there, 2 here\n" in said) == (0, True)
    code, said, error = asa(capsys, "table", "show", "wbe")
    assert (code, said) == (1, "")
    assert "'wbe' is not accepted; allowed: idle, game, " in error


def test_diff_says_class_by_class_what_would_change(host, tmp_path, capsys):
    path = tmp_path / "t.yaml"
    path.write_text(OWN.replace("scx_lavd, why", "scx_flash, why").replace("scx_lavd: 1", "scx_flash: 1"))
    code, said, _ = asa(capsys, "table", "diff", str(path))
    lines = said.splitlines()
    assert (code, lines[0]) == (0, f"{paths.mapping_tables() / 'default.yaml'} -> {path}")
    figures = "measured here: +0.110 score against eevdf (+0.050 to +0.170), 6 runs"
    assert f"web: eevdf -> scx_flash (measured; {figures})" in lines
    assert f"browse+render: eevdf -> scx_flash (measured (of web); {figures})" in lines
    assert not [line for line in lines if line.startswith(("idle", "game", "blender", "browse:"))]
    count = len(Ensemble.load(paths.base_model()).classes)  # the tables rank no other use
    assert lines[-1] == f"8 of {count} classes would get another scheduler"  # web alone and with seven loads
    code, said, _ = asa(capsys, "table", "diff", str(path), str(path), "--json")
    assert (code, json.loads(said)) == (0, {"one": str(path), "other": str(path), "classes": count, "rows": []})


def test_check_names_every_fault(own, tmp_path, capsys):
    assert asa(capsys, "table", "check")[:2] == (
        0,
        f"{own} is right; it ranks 2 classes\nstale: scx_lavd: {OLD}\n",
    )
    path = faulty(tmp_path)
    code, said, error = asa(capsys, "table", "check", str(path))
    one, two, count = said.splitlines()
    assert (code, error, count) == (1, "", f"2 faults in {path}")
    assert one.startswith(f"{path}:4: measured.sead: there is no such key; allowed: one of the keys date, ")
    assert two.startswith(f"{path}:9: classes.web[0].scheduler: 'scx_lavdd' is not accepted; allowed: eevdf, ")
    code, said, _ = asa(capsys, "table", "check", str(path), "--json")
    assert (code, [one["key"] for one in json.loads(said)["faults"]]) == (
        1,
        ["measured.sead", "classes.web[0].scheduler"],
    )
    own.write_text("version: [")
    code, said, _ = asa(capsys, "table", "check")
    assert (code, said.splitlines()[-1]) == (1, f"1 fault in {own}")


def test_import_puts_it_in_its_place_and_keeps_the_old_one(own, host, tmp_path, capsys):
    new = tmp_path / "new.yaml"
    new.write_text(OWN.replace("# mine", "# yours").replace("cpus: 2", "cpus: 64"))
    host.agent(mode="switching", scheduler="eevdf")
    code, said, _ = asa(capsys, "table", "import", str(new))
    assert code == 0
    assert said.splitlines() == [
        f"{own} is this machine's table now; the old one is {own}.1",
        "it is no measurement of this machine: measured on another machine: cpus 64 there, 2 here",
        f"stale: scx_lavd: {OLD}",
        f"the running agent takes it at: kill -HUP {host.agents[0].pid}",
    ]
    assert own.read_text() == new.read_text()
    assert own.with_name("table.yaml.1").read_text() == OWN
    host.places.config.write_text(f"table: {new}\n")
    code, said, _ = asa(capsys, "table", "import", str(own.with_name("table.yaml.1")), "--json")
    body = json.loads(said)
    assert (code, body["kept"], body["settings"], body["elsewhere"]) == (0, f"{own}.2", str(new), "")
    assert own.read_text() == OWN


def test_show_prints_nothing_that_a_terminal_obeys(own, capsys):
    own.write_text(OWN.replace("why: nothing to do", r'why: "a\nb\e[2Jc"').replace("calibrated", r'"p\e]0;x\a"'))
    code, said, _ = asa(capsys, "table", "show", "idle")
    assert (code, said.splitlines()[-1].split(maxsplit=2)[2]) == (0, "a b [2Jc")
    assert "\x1b" not in said
    own.write_text(OWN.replace("idle:", r'"\e[2J":').replace("eevdf, why: n", "evdf, why: n"))
    assert asa(capsys, "table", "check")[1].startswith(f"{own}:13: classes. [2J[0].scheduler: 'evdf' is not")


def test_check_as_json_says_what_the_text_says(own, capsys):
    code, said, _ = asa(capsys, "table", "check", "--json")
    assert (code, json.loads(said)) == (
        0,
        {"file": str(own), "faults": [], "classes": 2, "elsewhere": "", "stale": {"scx_lavd": OLD}},
    )


def test_import_says_what_stands_before_it(own, host, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(table, "own", lambda places: tmp_path / "var/table.yaml")  # root's, of an installed ASA
    new = tmp_path / "new.yaml"
    new.write_text(OWN)
    code, said, _ = asa(capsys, "table", "import", str(new))
    assert (code, f"{own} comes first; move it away" in said.splitlines()) == (0, True)
    assert json.loads(asa(capsys, "table", "import", str(new), "--json")[1])["in_use"] == str(own)


def test_an_import_that_cannot_tell_its_standing_changes_nothing(own, tmp_path, monkeypatch, capsys):
    new = tmp_path / "new.yaml"
    new.write_text(OWN.replace("# mine", "# yours"))
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / "default.yaml").write_text("version: [")
    monkeypatch.setattr(paths, "mapping_tables", lambda: shipped)
    code, said, error = asa(capsys, "table", "import", str(new))
    assert (code, said, "default.yaml" in error) == (1, "", True)
    assert own.read_text() == OWN


def test_export_to_a_place_that_cannot_be(own, tmp_path, capsys):
    code, said, error = asa(capsys, "table", "export", str(tmp_path / ("a" * 300)))
    assert (code, said, "File name too long" in error, error.count("\n")) == (1, "", True, 1)


def test_import_takes_the_first_version(host, tmp_path, capsys):
    new = tmp_path / "old.yaml"
    head = "version: 1\nmachine: {name: m, cpu_model: Test}\nprovenance: p\n"
    new.write_text(f"{head}classes:\n  web: [{{scheduler: eevdf, why: w}}]\n")
    code, said, _ = asa(capsys, "table", "import", str(new))
    assert (code, "measured on no machine" in said, "takes it when it starts" in said) == (0, True, True)
    assert table.read(table.own(host.places)).version == 1


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_faulty_file_is_not_taken_in(own, tmp_path, capsys, words):
    code, said, _ = asa(capsys, "table", "import", str(faulty(tmp_path)), *words)
    assert (code, "classes.web[0].scheduler" in said, "measured.sead" in said) == (1, True, True)
    assert own.read_text() == OWN
    assert [one.name for one in own.parent.iterdir()] == ["table.yaml"]
    code, said, _ = asa(capsys, "table", "import", str(tmp_path / "none.yaml"), *words)
    assert (code, "No such file" in said) == (1, True)


def test_what_is_exported_can_be_imported(own, tmp_path, capsys):
    out = tmp_path / "out.yaml"
    assert asa(capsys, "table", "export", str(out))[:2] == (0, f"{out}: 2 classes, of here\n")
    assert table.read(out) == table.read(own)
    code, said, error = asa(capsys, "table", "export", str(out))
    assert (code, said, "the name of a new file" in error) == (1, "", True)
    assert asa(capsys, "table", "export")[1] == out.read_text()
    assert json.loads(asa(capsys, "table", "export", "--json")[1])["machine"]["name"] == "here"
    assert asa(capsys, "table", "import", str(out))[0] == 0
    assert table.read(own) == table.read(out)


FOUND = {"kernel": "6.18.7", "versions": ("", f"{'ab' * 32} on 6.18.7, Test CPU")}


def test_what_trials_found_stands_beside_the_table(host, own, capsys):
    web = tried(SchedulerName("scx_flash"), use=Workload("browse"), in_force=SchedulerName("scx_lavd"), kernel="6.18.7")
    second = tried(SchedulerName("scx_lavd"), Verdict.ALIKE, use=Workload("web"), **FOUND)
    learning.save(host.places.state / LEARNING, Learning(asked=(web, second)))
    shown = asa(capsys, "table", "show", "web")[1].partition("\n\n")[2]
    measured = (
        "measured here: +20 % of the wait saved against scx_lavd (+10 % to +30 %), 9 pairs, asa trial, kernel 6.18.7"
    )
    lines = shown.splitlines()
    assert lines[1].split() == ["1", "scx_flash", "tried", "by", "hand"]
    assert lines[2] == f"     {measured}, better"
    assert lines[3].split()[:2] == ["2", "scx_lavd"]
    assert lines[4].startswith("     measured here: +0.110 score against eevdf")
    assert lines[5].endswith("version abababababab, alike")
    found = json.loads(asa(capsys, "table", "show", "web", "--json")[1])["classes"]["web"]
    assert found["order"] == ["scx_flash", "scx_lavd", "eevdf"]
    (one,) = found["measured_here"]["scx_flash"]
    assert (one["verdict"], one["serves"], one["evidence"]["kernel"]) == ("better", "scx_flash", "6.18.7")
    assert "by hand" not in asa(capsys, "table", "show", "web", "--table", str(own))[1]  # a file, as it is written


def test_what_trials_found_outlives_another_table_and_is_gone_with_another_kernel(host, own, capsys):
    one = tried(SchedulerName("scx_flash"), use=Workload("web"), in_force=SchedulerName("scx_lavd"), kernel="6.18.7")
    learning.save(host.places.state / LEARNING, Learning(asked=(one,)))
    copy = host.places.state / "new.yaml"
    copy.write_text(OWN)
    assert asa(capsys, "table", "import", str(copy))[0] == 0
    assert "measured here: +20 % of the wait saved" in asa(capsys, "table", "show", "web")[1]
    learning.save(host.places.state / LEARNING, Learning(asked=(replace(one, kernel="6.17.0"),)))
    assert "of the wait saved" not in asa(capsys, "table", "show", "web")[1]
    host.places.config.write_text("policy: {learn: off}\n")
    learning.save(host.places.state / LEARNING, Learning(asked=(one,)))
    assert "of the wait saved" not in asa(capsys, "table", "show", "web")[1]
