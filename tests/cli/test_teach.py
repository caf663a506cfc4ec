# SPDX-License-Identifier: GPL-2.0-only
"""`asa teach` with real samples in the agent's journal, and an agent that stands in for the real one."""

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from standin import asa, host_in
from waiting import LIMIT_S

from asa import paths
from asa.cli.journal import chosen
from asa.journal import Journal
from models import artefact, versions

KEPT = Path(__file__).parents[2] / "models/recordings/scenarios"
FILES = ("host-6", "host-7", "host-8", "host-9", "host-10")  # each has one such session of some 25 s


@pytest.fixture
def host(tmp_path, monkeypatch):
    for one in host_in(tmp_path, monkeypatch):
        places = replace(paths.default(), state=tmp_path / "state", config=tmp_path / "none.yaml")
        monkeypatch.setattr(paths, "default", lambda found=places: found)
        yield one


@pytest.fixture(scope="module")
def browsing():
    """Samples of sessions in which the browser was alone, and their headers."""
    found = []
    for name in FILES:
        with Journal.unpack(KEPT / f"{name}.journal.xz") as kept:
            alone = [one for one in kept.sessions() if one.header.label == "web"]
            found += [(one.header, list(kept.samples(one.number))) for one in alone]
    return found


def lived(state, recorded):
    """The agent's journal: as if the recorded sessions had just passed, one after the other. Returns their seconds."""
    state.mkdir(parents=True)
    whole_ns = sum(samples[-1].monotonic_ns - samples[0].monotonic_ns + 10**9 for _, samples in recorded)
    at_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - whole_ns
    with Journal.open(chosen(None)) as journal:
        journal.begin(recorded[0][0])
        for _, samples in recorded:
            shift_ns = at_ns - samples[0].monotonic_ns
            for sample in samples:
                journal.add(replace(sample, monotonic_ns=sample.monotonic_ns + shift_ns))
            at_ns += samples[-1].monotonic_ns - samples[0].monotonic_ns + 10**9
        journal.commit()
    return whole_ns // 10**9 + 5


def test_minutes_that_passed_are_a_lesson_that_the_agent_takes_and_that_is_forgotten(host, capsys, browsing):
    agent = host.agent(mode="observing")
    seconds = lived(paths.default().state, browsing)
    label = "browse"
    code, said, wrong = asa(capsys, "teach", label, f"{seconds}s", "--last", "--json")
    told = json.loads(said)
    assert (code, told["label"], told["why"]) == (0, label, ""), wrong
    assert told["figures"]["taught_right_pct"] >= told["figures"]["taught_right_before_pct"]
    assert agent.wait(LIMIT_S) == -signal.SIGHUP  # the stand-in does not know it: the real one reads its settings again
    where = versions.folder(paths.default())
    taught = artefact.load(versions.in_use(where))
    assert [one.label for one in taught.header.taught] == [label]
    assert versions.find(where, told["kept"]).facts.kind == "taught"
    code, said, _ = asa(capsys, "teach", label, "--forget")
    assert (code, said.splitlines()[0].partition(":")[0]) == (0, "forgotten")
    assert artefact.load(versions.in_use(where)).taught is None


def test_too_few_ticks_and_uses_that_nobody_knows_are_one_line(host, capsys, browsing):
    host.agent(mode="observing")
    lived(paths.default().state, browsing)
    code, said, wrong = asa(capsys, "teach", "web", "20s", "--last")
    assert (code, said) == (1, "")
    assert "60 are needed to teach and to judge; take longer" in wrong
    code, _, wrong = asa(capsys, "teach", "juggle")
    assert code == 1
    assert "the model has no use 'juggle'; it knows browse, browse+compile," in wrong
    assert asa(capsys, "teach", "web", "--forget")[0] == 1
    assert versions.in_use(versions.folder(paths.default())) == paths.base_model()


def test_the_papers_names_are_the_models_own_classes(host, capsys):
    code, _, wrong = asa(capsys, "teach", "web+archive", "--forget")
    assert code == 1
    assert "the model was not taught 'browse+compress'" in wrong


def test_without_a_journal_nobody_waits(host, capsys):
    host.agent(mode="observing")
    began_s = time.monotonic()
    code, _, wrong = asa(capsys, "teach", "compress", "2h")
    assert (code, time.monotonic() - began_s < 60) == (1, True)
    assert "there is no such journal" in wrong


def test_without_an_agent_nothing_is_watched(host, capsys):
    code, said, wrong = asa(capsys, "teach", "compress")
    assert (code, said) == (1, "")
    assert wrong.count("\n") == 1
