# SPDX-License-Identifier: GPL-2.0-only
"""Journals of scenarios become one table: phases by the marks, all rates and histograms, and no session twice."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from asa.cli.main import parser
from asa.core.errors import JournalError, ModelError
from asa.core.mark import Mark, Phase
from asa.core.sample import CpuCounters, ProbeCounters, RawSample, SchedExtState, TimerCounters
from asa.journal import Journal, SessionHeader
from collectors import rates
from collectors.ebpf.layout import LATENCY_SLOTS
from models.train import recorded, recorded_table
from models.train.recorded_table import Facts
from scenarios.catalogue import PAPER

LABELS = [one.label for one in PAPER]


def sample(second, ops="", probes=True):
    ticks = (50 * second, 0, 10 * second, 40 * second, 0, 0, 0, 0)
    cpu = CpuCounters(
        total=ticks,
        cores=((0, ticks),),
        interrupts=100 * second,
        context_switches=500 * second,
        forks=0,
        softirqs=(0,) * 10,
        runnable=1,
        blocked=0,
    )
    hist = tuple(second * (3 if slot == 17 else 0) for slot in range(LATENCY_SLOTS))
    return RawSample(
        monotonic_ns=second * 10**9,
        wall_ns=second * 10**9,
        cpu=cpu,
        sched_ext=SchedExtState(state="enabled" if ops else "disabled", ops=ops, enable_seq=1),
        probes=ProbeCounters(switches=700 * second, wakeup_latency_hist=hist) if probes else None,
        timer=TimerCounters(late_ns=second, late_hist=hist),
    )


def add(journal, label="web+kernel", seed=1, started=1, count=20, tier="lab", ops="", **other):
    """Twenty seconds: two before, starting at 2.4, running from 5, ending from 15, after from 17.6."""
    front, _, back = label.partition("+")
    header = SessionHeader(
        started_ns=started,
        asa_version="0.5",
        host="lab, QEMU",
        kernel="6.12",
        cpus=4,
        scheduler=ops or "eevdf",
        label=label,
        seed=seed,
        parameters='{"web": {"pages": 3}}',
        tier=tier,
        programs={"chromium": "142"},
    )
    journal.begin(header)
    for second in range(started, started + count):
        journal.add(sample(second, ops, **other))
    both = {"interactive": front, "background": back}
    phases = (
        (0.0, Phase.BEFORE),
        (2.4, Phase.STARTING),
        (5.0, Phase.RUNNING),
        (15.0, Phase.ENDING),
        (17.6, Phase.AFTER),
    )
    journal.mark(
        Mark(
            monotonic_ns=int((started + at_s) * 1e9),
            phase=phase,
            **(both if phase not in (Phase.BEFORE, Phase.AFTER) else {}),
        )
        for at_s, phase in phases
    )


@pytest.fixture
def journal(tmp_path):
    """Makes packed journals of what it is given: name and sessions."""

    def make(name, *sessions):
        with Journal.open(tmp_path / f"{name}.sqlite") as opened:
            for session in sessions:
                add(opened, **session)
            path = tmp_path / f"{name}.journal.xz"
            opened.pack(path)
        return path

    return make


def built(paths, out):
    digest = recorded_table.write(out, recorded.sessions(paths))
    return digest, pq.read_table(out).to_pylist()


def test_a_row_has_the_phase_of_its_middle(journal, tmp_path):
    _, rows = built([journal("a", {})], tmp_path / "d.parquet")
    phases = [row["phase"] for row in rows]
    assert phases == ["before"] * 2 + ["starting"] * 3 + ["running"] * 10 + ["ending"] * 3 + ["after"]
    assert {(row["interactive"], row["background"]) for row in rows if row["phase"] == "running"} == {("web", "kernel")}
    assert {(row["interactive"], row["background"]) for row in rows if row["phase"] in ("before", "after")} == {
        ("", "")
    }
    assert [row["at_s"] for row in rows] == list(range(1, 20))


def test_a_row_has_everything(journal, tmp_path):
    _, rows = built([journal("a", {"ops": "simple"})], tmp_path / "d.parquet")
    row = rows[7]
    expected = rates.derive(sample(8, "simple"), sample(9, "simple"))
    for name in ("cpu_user_share", "switches_per_s", "context_switches_per_s", "wakeup_latency_p50_us"):
        assert row[name] == pytest.approx(getattr(expected, name))
    assert row["disk_reads_per_s"] is None
    assert (row["wakeup_latency_hist017_per_s"], row["wakeup_latency_hist018_per_s"]) == (3.0, 0.0)
    assert row["timer_late_hist017_per_s"] == 3.0
    assert row["burst_hist000_per_s"] is None
    facts = {
        name: row[name] for name in ("label", "host", "kernel", "cpus", "tier", "scheduler", "seed", "asa_version")
    }
    assert facts == {
        "label": "web+kernel",
        "host": "lab, QEMU",
        "kernel": "6.12",
        "cpus": 4,
        "tier": "lab",
        "scheduler": "simple",
        "seed": 1,
        "asa_version": "0.5",
    }
    assert json.loads(row["programs"]) == {"chromium": "142"}
    assert json.loads(row["parameters"]) == {"web": {"pages": 3}}
    assert set(rates.Rates.__dataclass_fields__) <= row.keys()


def test_a_gap_gives_no_row_and_events_are_a_second_s(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as opened:
        add(opened, count=10)
        add(opened, count=1, started=100)
    with pytest.raises(ModelError, match="no two consecutive samples of 'web\\+kernel'"):
        recorded.sessions([tmp_path / "j.sqlite"])
    (one, _) = recorded.read(tmp_path / "j.sqlite")
    gap = replace(one, samples=(*one.samples[:3], *(sample(second) for second in (40, 42))))
    found = recorded.rows(gap)
    assert [(row.at_s, row.elapsed_s) for row in found.rows] == [(1.0, 1.0), (2.0, 1.0), (41.0, 2.0)]
    assert found.values[:, recorded.VALUES.index("wakeup_latency_hist017_per_s")].tolist() == [3.0] * 3
    assert np.isnan(found.values).any()


def test_the_same_journals_give_the_same_file(journal, tmp_path):
    paths = [journal("a", {"seed": 1}), journal("b", {"seed": 2, "started": 100})]
    first, rows = built(paths, tmp_path / "1.parquet")
    second, _ = built(paths[::-1], tmp_path / "2.parquet")
    assert first == second
    assert len({row["session"] for row in rows}) == 2
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_a_session_stands_once(journal, tmp_path):
    with pytest.raises(
        ModelError, match=r"b\.journal\.xz: its session of 'web\+kernel' seed 1 stands in .*a\.journal\.xz too"
    ):
        recorded.sessions([journal("a", {}), journal("b", {})])
    with pytest.raises(ModelError, match="stands twice in it"):
        recorded.sessions([journal("c", {}, {"label": "audio"})])  # the same one, under another label too


def test_what_is_no_recording_of_a_scenario_is_one_line(journal, tmp_path):
    path = journal("a", {})
    (tmp_path / "cut.journal.xz").write_bytes(path.read_bytes()[:-60])
    with pytest.raises(JournalError, match=r"cut\.journal\.xz: not a packed recording"):
        recorded.sessions([tmp_path / "cut.journal.xz"])
    with pytest.raises(JournalError, match="there is no such journal"):
        recorded.sessions([tmp_path / "none.sqlite"])
    with pytest.raises(ModelError, match=r"lab-eevdf\.journal\.xz: a session of '\w+' that is no scenario's"):
        recorded.sessions(recorded_shipped())
    with Journal.open(tmp_path / "empty.sqlite"):
        pass
    with pytest.raises(ModelError, match="no session in these journals"):
        recorded.sessions([tmp_path / "empty.sqlite"])


def recorded_shipped():
    from asa import paths

    return [paths.base_model().parent.parent / "recordings" / "lab-eevdf.journal.xz"]


def test_a_file_that_is_no_dataset_is_one_line(journal, tmp_path):
    built([journal("a", {})], tmp_path / "d.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "d.parquet").read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"cut\.parquet: cannot be read as a dataset"):
        recorded_table.read(tmp_path / "cut.parquet")
    pq.write_table(pq.read_table(tmp_path / "d.parquet").replace_schema_metadata({"asa": "0"}), tmp_path / "o.parquet")
    with pytest.raises(ModelError, match="not a dataset of this version"):
        recorded_table.read(tmp_path / "o.parquet")
    with pytest.raises(ModelError, match="cannot be written"):
        recorded_table.write(tmp_path / "none" / "d.parquet", recorded.sessions([journal("b", {})]))


def test_facts_of_a_dataset(journal, tmp_path):
    built(
        [journal("a", {"probes": False}, {"label": "audio", "seed": 9, "started": 50, "ops": "lavd"})], tmp_path / "d"
    )
    audio, web = recorded_table.read(tmp_path / "d")
    assert (audio.label, audio.seed, audio.scheduler, audio.rows, audio.running) == ("audio", 9, "lavd", 19, 10)
    assert "ebpf" in web.missing
    assert "ebpf" not in audio.missing
    assert {"disk", "pressure"} <= set(audio.missing)
    assert not {"cpu", "timer"} & set(audio.missing)


def facts(label, seed, *, tier="real", scheduler="eevdf", running=60, missing=()):
    return Facts(
        id=f"{label}{seed}{tier}{scheduler}",
        label=label,
        tier=tier,
        host="host",
        cpus=2,
        scheduler=scheduler,
        seed=seed,
        rows=running,
        running=running,
        missing=missing,
    )


def test_a_dataset_of_before_a_metric_is_read_and_does_not_know_it(journal, tmp_path):
    path = tmp_path / "d.parquet"
    built([journal("a", {})], path)
    before = recorded_table.read(path)
    rows = pq.read_table(path)
    pq.write_table(rows.drop_columns(["page_faults_per_s", "realtime_threads"]), path)
    (one,) = recorded_table.read(path)
    assert one == replace(before[0], missing=one.missing)
    assert set(one.missing) == {*before[0].missing, "paging"}


def test_what_a_dataset_lacks():
    whole = [facts(label, seed) for label in LABELS for seed in range(3)]
    whole += [facts(label, 9, tier="lab", scheduler=name) for label in LABELS for name in ("eevdf", "eevdf", "lavd")]
    assert recorded_table.lacks(whole, LABELS) == []
    real = whole[:120]
    assert recorded_table.lacks(real, LABELS) == ["no session of the lab tier"]
    assert recorded_table.lacks(whole[3:], LABELS) == ["idle: 1 seeds of 3, a session each"]
    short = [facts("idle", 0, running=20), *whole[1:119], facts("audio+video", 1), *whole[120:]]
    assert recorded_table.lacks(short, LABELS)[0] == "1 sessions run for less than 60 s and do not count"
    blind = [replace(whole[0], missing=("ebpf",)), *whole[1:]]
    assert recorded_table.lacks(blind, LABELS) == ["ebpf: not read in 1 of 240 sessions (1 real)"]
    tame = [replace(one, scheduler="eevdf") if one.label == "web" else one for one in whole]
    assert recorded_table.lacks(tame, LABELS) == [
        "39 of 120 lab sessions under another scheduler than eevdf, a third is needed"
    ]


def asa(*words):
    arguments = parser("lab", "dataset").parse_args(["lab", "dataset", *map(str, words)])
    return arguments.run(arguments)


def test_the_commands(journal, tmp_path, capsys):
    out = tmp_path / "d.parquet"
    assert asa("build", "--out", out, journal("a", {}), "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["sessions"], body["labels"], body["rows"]) == (1, 1, 19)
    assert asa("list", out) == 0
    assert "web+kernel       seed 1      19 rows,  10 running  lab  eevdf" in capsys.readouterr().out
    assert asa("check", out, "--for", 10, "--sessions", 1) == 1
    said = capsys.readouterr().out.splitlines()
    assert not any(line.startswith("web+kernel:") for line in said)
    assert "idle: 0 seeds of 1, a session each" in said
    assert said[-1] == f"1 sessions: {len(said) - 1} things are lacking"
