# SPDX-License-Identifier: GPL-2.0-only
"""The lab's order of schedulers beside a published one: tau as by hand, its interval, and who is likelier wrong."""

import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy import stats

from asa import paths
from asa.cli.main import main
from asa.core.errors import AsaError, InputError
from asa.decide import table
from calibration.outside import agreement, evidence, page, plot
from calibration.scale.samples import Found, Mode, Turn, write
from scenarios.conditions import Conditions

MS = 1_000_000
SHARE = 0.011  # figures in the tables are rounded to a hundredth
NAMES = ("eevdf", "scx_a", "scx_b", "scx_c")
TEXT = """
version: 1
rows:
  - id: G1
    what: a build
    workload: kernel
    machine: {cpu: a cpu, cpus: 172}
    metric: {unit: s, more_is_better: false}
    lab: throughput
    runs: 1
    trust: low
    source: a page
    doubt: once each
    at:
      - {cpus: 172, figures: {eevdf: 10, scx_a: 8, scx_b: 12, scx_c: 20, scx_other: 1}}
"""


def turn(scheduler, play, jobs):
    return Turn(
        scheduler=scheduler,
        round=1,
        play=play,
        readings={Mode.THROUGHPUT: {"jobs": jobs, "elapsed_ns": 1000 * MS}},
    )


def found(cpus=16, jobs=((300, 302), (400, 402), (200, 202), (100, 102)), **changes):
    turns = tuple(
        turn(name, play, value)
        for name, values in zip(NAMES, jobs, strict=True)
        for play, value in enumerate(values, 1)
    )
    whole = {
        "kernel": "6.18",
        "cpus": cpus,
        "under": Conditions(clock="parallel", tick_hz=1000, machine=f"alike-{cpus}"),
        "program": "a hash",
        "seconds": 1.0,
        "versions": dict.fromkeys(NAMES, "1.0"),
        "turns": turns,
    }
    return Found(**(whole | changes))


@pytest.fixture
def published(tmp_path):
    path = tmp_path / "evidence.yaml"
    path.write_text(TEXT)
    return evidence.read(path)


def test_the_shipped_evidence_is_read_and_is_no_table():
    path = paths.mapping_tables() / table.EVIDENCE
    read = evidence.read(path)
    rows = {row.id: row for row in read.rows}
    assert {"G1", "G2", "G3", "G4-rate", "G9-wakeup", "G11", "G13", "G14"} <= rows.keys()
    (at,) = rows["G1"].at
    assert rows["G1"].effects_pct(at)["scx_rusty"] == pytest.approx(63.3, abs=0.1)
    (at,) = rows["G4-rate"].at
    assert rows["G4-rate"].effects_pct(at)["scx_flash"] == pytest.approx(33.5, abs=0.1)
    classes = table.read(paths.mapping_tables() / "default.yaml").classes
    assert {row.workload for row in read.rows} <= set(classes)
    assert path not in table.shipped(paths.mapping_tables())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("lab: throughput", "lab: speed", r"rows\[0\].lab"),
        ("runs: 1", "runs: 0", r"rows\[0\].runs"),
        ("trust: low", "trust: none", r"rows\[0\].trust"),
        ("eevdf: 10", "eevdf: 0", r"rows\[0\].at\[0\].figures"),
        ("doubt: once each", "why: once each", r"rows\[0\]"),
        ("id: G1", "id: one", r"rows\[0\].id"),
        ("version: 1", "version: 2", "version"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, old, new, words):
    path = tmp_path / "evidence.yaml"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(InputError, match=words) as error:
        evidence.read(path)
    assert "\n" not in str(error.value)


def test_tau_is_scipys():
    chance = np.random.default_rng(1)
    one = chance.integers(0, 5, 7).astype(float)
    others = chance.integers(0, 5, (50, 7)).astype(float)
    for mine, other in zip(agreement.tau_b(one, others), others, strict=True):
        assert mine == pytest.approx(stats.kendalltau(one, other).statistic)
    assert np.isnan(agreement.tau_b(one, np.ones((1, 7)))).all()


def test_orders_that_agree_and_orders_that_do_not(published):
    (same,) = agreement.compare(published, [found()])
    assert (same.tau, same.low, same.high, same.suspect) == (1.0, 1.0, 1.0, "")
    assert same.schedulers == NAMES
    assert same.lab == (301.0, 401.0, 201.0, 101.0)
    opposite = found(jobs=((200, 202), (100, 102), (300, 302), (400, 402)))
    (other,) = agreement.compare(published, [opposite])
    assert other.tau == -1.0
    assert other.suspect == "outside: once each; its 172 CPUs are 16 in the lab"
    noisy = found(jobs=((200, 300), (201, 301), (202, 302), (203, 303)))
    (unsure,) = agreement.compare(published, [noisy])
    assert unsure.high >= agreement.AGREES > unsure.tau
    assert unsure.suspect.startswith("neither")
    sure = replace(other, tau=0.0, low=-0.1, high=0.1)  # around 0, but no draw of it agrees
    assert sure.suspect == other.suspect
    alike = replace(sure, at=msgspec.structs.replace(sure.at, cpus=16))
    assert alike.suspect == "outside: once each"
    level = found(jobs=((200, 200),) * 4)
    (none,) = agreement.compare(published, [level])
    assert none.tau is None
    assert not none.counts


def test_the_nearest_guest_is_taken_and_serial_clocks_are_refused(published):
    hybrid = found(8, under=Conditions(clock="parallel", tick_hz=1000, machine="laptop-hybrid"))
    slow = found(32, under=Conditions(clock="parallel", tick_hz=250, machine="alike-32"))
    (one,) = agreement.compare(published, [found(2), found(16), hybrid, slow])
    assert one.lab_cpus == 16
    with pytest.raises(AsaError, match="clock icount"):
        agreement.compare(published, [found(2, under=Conditions())])
    with pytest.raises(AsaError, match="no guest of alike CPUs"):
        agreement.compare(published, [hybrid])


def test_the_whole_is_the_mean_of_rows(published):
    made = agreement.compare(published, [found()])
    whole = agreement.whole(made)
    assert (whole.tau, whole.low, whole.high, whole.rows) == (1.0, 1.0, 1.0, 1)
    assert agreement.whole([]).tau is None
    two = found(turns=tuple(one for one in found().turns if one.scheduler in NAMES[:2]))
    assert agreement.whole(agreement.compare(published, [two])).rows == 0


def test_page_picture_and_figures(published, tmp_path):
    made = agreement.compare(published, [found()])
    tau, rows = page.figures(made)
    assert (tau.value, tau.ok, rows.value) == (1.0, True, 1.0)
    how = page.Made(command="asa", version="1", when_s=0.0, image="x.svg")
    text = page.document(published, [found()], made, how)
    assert "| G1 | 172 CPUs | throughput, 16 CPUs | 4 | +1.00 | +1.00 to +1.00 |" in text
    assert "| scx_a | 8 | 401 |" in text
    assert "scx_a +25" in text
    plot.draw(tmp_path / "x.svg", made)
    assert "<svg" in (tmp_path / "x.svg").read_text()


def test_the_command_compares_what_is_kept(tmp_path, capsys):
    (tmp_path / "evidence.yaml").write_text(TEXT)
    kept = tmp_path / "kept"
    kept.mkdir()
    words = ["lab", "evaluate", "outside", str(kept), "--evidence", str(tmp_path / "evidence.yaml"), "--json"]
    with pytest.raises(SystemExit, match="1"):
        main(words)
    assert "no records of the scale benchmark" in capsys.readouterr().err
    write(found(), kept / "alike-16-1000.json")
    page_path = tmp_path / "outside.md"
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--page", str(page_path)])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["name"], line["value"]) for line in lines] == [("outside_tau", 1.0), ("outside_rows", 1.0)]
    assert "G1" in page_path.read_text()
    assert Path(page_path.with_suffix(".svg")).is_file()


def saved(metric, own, other):
    """The share of the metric's time that is saved."""
    return 1.0 - own / other if metric else 1.0 - other / own


@pytest.mark.parametrize("name", ["default.yaml", "lab.yaml"])
def test_what_a_shipped_table_calls_published_is_published(name):
    rows = {row.id: row for row in evidence.read(paths.mapping_tables() / table.EVIDENCE).rows}
    scale = (Path(__file__).parents[3] / "docs/scale.prom").read_text()
    told = 0
    for ranking in table.read(paths.mapping_tables() / name).classes.values():
        for entry in ranking:
            found = entry.evidence
            if found is None:
                assert entry.name == "eevdf"  # nothing that is shipped is an opinion
                continue
            told += 1
            if found.ground == "published":
                row = rows[found.source.removeprefix("evidence.yaml ")]
                assert (row.runs, f"{row.machine.cpu}, {row.machine.cpus} CPUs") == (found.runs, found.machine)
                figures = row.at[0].figures
                share = saved(row.metric.more_is_better, figures["eevdf"], figures[entry.scheduler])
            else:
                metric = found.source.removeprefix("docs/scale.md, ")
                own, other = (
                    float(re.search(rf'{metric}_\w+{{scheduler="{one}",cpus="8",guest="8 CPUs"}} (\S+)', scale)[1])
                    for one in ("eevdf", entry.scheduler)
                )
                share = saved(metric == "throughput", own, other)
            assert abs(share - found.effect) < SHARE, (entry, share)
    assert told >= 10
