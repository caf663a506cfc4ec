# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab record` as it is typed: real sessions of the idle workload, lists, packs, and what it refuses."""

import argparse
import contextlib
import functools
import json
import sys

import pytest

from asa.cli import main
from asa.cli.lab import record, record_display, record_lab, record_sessions
from asa.core.errors import AsaError, InputError, JournalError
from asa.core.mark import Phase
from asa.journal import Journal, SessionHeader
from scenarios import recorder, recorder_guests, scenario_recorder, sequence_recorder
from scenarios.catalogue import SCENARIOS
from scenarios.guests import conditions
from scenarios.lab.machines import alike, load

LAPTOP = load("laptop-hybrid")


def asa(*words):
    parser = argparse.ArgumentParser()
    record.register(parser.add_subparsers())
    arguments = parser.parse_args(["record", *map(str, words)])
    return arguments.run(arguments)


@pytest.fixture
def quick(monkeypatch):
    """No warm-up, and no waiting for a quiet machine: what is tested is the command."""
    fast = functools.partial(recorder.Recorder, warmup_s=0.1, most_busy_before=1.0, most_steal=1.0)
    monkeypatch.setattr(recorder, "Recorder", fast)
    limits = {"rest_s": 0.2, "most_busy_before": 1.0, "most_steal": 1.0, "noise_limit_pct": 1000.0}
    fast = functools.partial(scenario_recorder.ScenarioRecorder, **limits)
    monkeypatch.setattr(scenario_recorder, "ScenarioRecorder", fast)
    fast = functools.partial(sequence_recorder.SequenceRecorder, **limits)
    monkeypatch.setattr(sequence_recorder, "SequenceRecorder", fast)


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "r.journal"
    header = SessionHeader(
        started_ns=1_790_000_000 * 10**9, asa_version="0.1", host="host, X", kernel="6.18", cpus=2, label="cpu", seed=4
    )
    with Journal.open(path) as opened:
        opened.begin(header)
    return path


@pytest.mark.apps
def test_one_session(quick, tmp_path, capsys):
    path = tmp_path / "new" / "r.journal"
    assert asa("--label", "idle", "--for", 1, "--seed", 3, "--journal", path) == 0
    assert "idle seed 3 kept (2 samples)" in capsys.readouterr().out
    with Journal.open(path) as opened:
        (session,) = opened.sessions()
        first, second = opened.samples(session.number)
    assert (session.header.label, session.header.seed, session.header.parameters) == ("idle", 3, "sleep infinity")
    assert session.header.cpus >= 1
    assert 0.9e9 < second.monotonic_ns - first.monotonic_ns < 1.5e9
    assert second.cpu.context_switches > first.cpu.context_switches


@pytest.mark.apps
def test_campaign_goes_on_and_packs(quick, tmp_path, capsys):
    path, packed = tmp_path / "r.journal", tmp_path / "out" / "r.journal.xz"
    words = ("--campaign", "--labels", "idle", "--for", 1, "--journal", path)
    assert asa(*words, "--sessions", 1) == 0
    assert "1/1 idle seed 0 kept (2 samples)" in capsys.readouterr().out
    assert asa(*words, "--sessions", 2, "--pack", packed, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(line["seed"], line["result"]) for line in lines} == {(0, "skipped"), (1, "kept")}
    with Journal.unpack(packed) as opened:
        assert [len(list(opened.samples(s.number))) for s in opened.sessions()] == [2, 2]
    assert asa("--list", "--journal", packed) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 2
    assert "idle" in out[0]
    assert "2 samples" in out[0]


@pytest.mark.apps
def test_a_scenario_goes_on_and_packs(quick, tmp_path, capsys):
    path, packed = tmp_path / "r.journal", tmp_path / "r.journal.xz"
    words = ("--scenario", "idle", "--for", 3, "--journal", path, "--ebpf", "off")
    assert asa(*words, "--sessions", 1, "--seed", 4, "--pack", packed) == 0
    assert "1/1 idle seed 4 kept" in capsys.readouterr().out
    assert asa(*words, "--sessions", 1, "--seed", 4, "--json") == 0
    assert json.loads(capsys.readouterr().out)["result"] == "skipped"
    with Journal.unpack(packed) as opened:
        (session,) = opened.sessions()
        marks = list(opened.marks(session.number))
        samples = list(opened.samples(session.number))
    assert (session.header.label, session.header.seed, session.header.tier) == ("idle", 4, "real")
    assert [mark.phase for mark in marks] == list(Phase)
    running_ns = marks[3].monotonic_ns - marks[2].monotonic_ns
    assert running_ns >= 3e9
    assert len(samples) >= 3


def test_a_sequence_needs_something_to_change_between(tmp_path):
    with pytest.raises(InputError, match="--labels: 'idle' is not accepted; allowed: two scenarios at least"):
        asa("--sequence", 1, "--labels", "idle", "--journal", tmp_path / "r.journal")


def test_sequences_are_one_label_drawn_from_scenarios(monkeypatch, tmp_path):
    """What reaches the recorder: as many sessions as were asked for, of the one label, from all or those named."""
    seen = []

    class Fake:
        def campaign(self, labels, **words):
            seen.append((labels, words["sessions"], words["seconds"], words["seed"]))
            return []

    @contextlib.contextmanager
    def of_scenarios(journal, ebpf, tier, drawn):
        seen.append(drawn)
        yield Fake()

    monkeypatch.setattr(record_sessions, "of_scenarios", of_scenarios)
    words = ("--journal", tmp_path / "r.journal", "--sequence", 7, "--seed", 3)
    assert asa(*words) == 0
    assert (len(seen[0]), seen[1]) == (len(SCENARIOS), (("sequence",), 7, 30, 3))
    assert asa(*words, "--labels", "idle,S16", "--for", 12) == 0
    assert seen[2:] == [("idle", "web+blender"), (("sequence",), 7, 12, 3)]


@pytest.mark.parametrize("words", [("--label", "cpu"), ("--scenario", "idle", "--tier", "real"), ("--list",)])
def test_in_lab_takes_scenarios_alone(words, tmp_path):
    with pytest.raises(AsaError, match="--in-lab plays the stand-ins of --scenario"):
        asa(*words, "--in-lab", tmp_path)


@pytest.mark.parametrize("words", [("--cpus", 2), ("--machine", "vm122")])
def test_a_machine_is_a_guests(words, tmp_path):
    with pytest.raises(AsaError, match=f"{words[0]} is of guests: name --in-lab DIR, too"):
        asa("--scenario", "pigz", *words, "--journal", tmp_path / "r.journal")
    assert not (tmp_path / "r.journal").exists()


def test_a_machine_has_its_own_cpus(tmp_path):
    with pytest.raises(AsaError, match="--cpus: a machine has its own"):
        asa("--scenario", "pigz", "--in-lab", tmp_path, "--machine", "vm122", "--cpus", 2)


@pytest.mark.parametrize(
    ("words", "machine"), [((), alike(4)), (("--cpus", 2), alike(2)), (("--machine", "laptop-hybrid"), LAPTOP)]
)
def test_in_lab_with_nothing_left_boots_nothing(words, machine, tmp_path, capsys):
    """Programs of kinds, too. Each machine is a place of its own: what another one recorded is not there."""
    header = SessionHeader(
        started_ns=1,
        asa_version="0.1",
        host=recorder.guest(conditions(machine)),
        kernel="6",
        cpus=machine.cpus,
        label="compress",
        seed=0,
        tier="lab",
        parameters='{"pigz": {}}',
    )
    with Journal.open(tmp_path / "r.sqlite") as opened:
        opened.begin(header)
        opened.pack(tmp_path / "r.journal.xz")
    assert recorder_guests.present(tmp_path, 8, conditions(alike(8))) == set()
    assert asa("--scenario", "pigz", "--sessions", 1, "--in-lab", tmp_path, *words) == 0
    assert f"0 sessions kept, 0 not, 1 were in {tmp_path} already" in capsys.readouterr().err


def test_unknown_scenario(tmp_path):
    with pytest.raises(InputError, match="--scenario: 'S99' is not accepted"):
        asa("--scenario", "S99", "--journal", tmp_path / "r.journal")


def test_dropped_session_fails_the_command(quick, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asa("--label", "idle", "--for", 1, "--journal", tmp_path / "r.journal") == 1
    assert "idle seed 0 dropped: sleep: is not installed; run: apt-get install coreutils" in capsys.readouterr().out


def test_list_as_json(journal, capsys):
    assert asa("--list", "--json", "--journal", journal) == 0
    (line,) = capsys.readouterr().out.splitlines()
    shown = json.loads(line)
    assert (shown["label"], shown["seed"], shown["samples"], shown["host"]) == ("cpu", 4, 0, "host, X")
    assert shown["started"] == "2026-09-21T14:13:20+00:00"


def test_list_of_a_missing_journal_makes_none(tmp_path):
    with pytest.raises(JournalError, match="there is no such journal"):
        asa("--list", "--journal", tmp_path / "r.journal")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "value"), [(("--label", "games"), "games"), (("--campaign", "--labels", "cpu,gpu"), "gpu")]
)
def test_unknown_label(words, value, tmp_path):
    with pytest.raises(InputError, match=rf"{words[-2]}: '{value}' is not accepted; allowed: idle, cpu") as caught:
        asa(*words, "--journal", tmp_path / "r.journal")
    assert caught.value.value == value


def test_packed_recording_cannot_be_added_to(tmp_path):
    with pytest.raises(JournalError, match="cannot be added to"):
        asa("--label", "idle", "--journal", tmp_path / "r.journal.xz")


@pytest.mark.parametrize("words", [(), ("--label", "cpu", "--campaign"), ("--label", "cpu", "--for", "0")])
def test_senseless_words(words):
    with pytest.raises(SystemExit):
        asa(*words)


def test_plain_lines_where_rich_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with record_display.display() as show:
        show.start("cpu", 1, 2, 9)
        show.outcome(recorder.Outcome(workload="cpu", seed=1, result=recorder.Result.DROPPED, reason="too noisy"))
    assert capsys.readouterr().out == "2/9 cpu seed 1 dropped: too noisy\n"


def test_bar_where_there_is_a_terminal(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with record_display.display() as show:
        assert isinstance(show, record_display.Bar)
        show.start("cpu", 1, 1, 1)
        show.outcome(recorder.Outcome(workload="cpu", seed=1, result=recorder.Result.KEPT, samples=46))
    assert "cpu seed 1 kept (46 samples)" in capsys.readouterr().out


def test_the_command_for_a_guest_is_one_that_asa_has(tmp_path):
    (part,) = recorder_guests.plan(("idle",), sessions=1, seed=5, schedulers=("scx_lavd",), done=set())
    words = record_lab._command(argparse.Namespace(ebpf=None), part, tmp_path / "one.xz", 20)
    given = main.parser("lab", "record").parse_args(words[words.index("asa.cli") + 1 :])
    assert (given.run, given.scenario, given.scheduler, given.seed) == (record.run, "idle", "scx_lavd", 5)
