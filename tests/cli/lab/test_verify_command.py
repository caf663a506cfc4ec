# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab verify` on sources: its verdict is its exit status, and --json has the whole report."""

import argparse
import json

import pytest
import tuned_policy

from asa import paths
from asa.act.portfolio import Origin, Portfolio, Record
from asa.act.tokens import Tokens
from asa.cli.lab import verify as command
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from calibration.verify import corpus, subject
from calibration.verify.lab import play
from calibration.verify.report import Stage, StageReport
from calibration.verify.rules import findings


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_BTF", tmp_path / "none")


def answered(words, capsys):
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    given = parser.parse_args(["verify", *map(str, words)])
    code = given.run(given)
    return code, capsys.readouterr().out


def test_a_planted_fault_fails_and_is_named(tmp_path, capsys):
    planted = next(one for one in corpus.planted() if one.name.startswith("names-"))
    source = tmp_path / "scx_mine.bpf.c"
    source.write_text(planted.source)
    code, said = answered([source, "--composed", "--json"], capsys)
    told = json.loads(said)
    assert (code, told["verdict"]) == (command.EXIT_FAIL, "fail")
    code, said = answered([source, "--composed"], capsys)
    assert code == command.EXIT_FAIL
    assert planted.rule in said


def test_a_sound_source_passes(tmp_path, capsys):
    source = tmp_path / "scx_mine.bpf.c"
    source.write_text(corpus.good())
    code, said = answered([source, "--composed", "--json"], capsys)
    assert (code, json.loads(said)["verdict"]) == (0, "pass")


def test_what_is_no_scheduler_is_one_line(tmp_path, capsys):
    with pytest.raises(AsaError, match=r"nothing.bpf.c"):
        answered([tmp_path / "nothing.bpf.c"], capsys)
    with pytest.raises(AsaError, match="eevdf: it is the kernel's own"):
        answered(["eevdf"], capsys)


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """A machine with a tuned policy whose object has no fault. Gives trials in guests, and faults found there."""
    manifest = tuned_policy.write(tmp_path)
    program = tmp_path / "scx_one"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(paths, "manifest", lambda: manifest)
    monkeypatch.setattr(paths, "default", lambda: paths.Places(cache=tmp_path, state=tmp_path / "state"))
    monkeypatch.setattr(Tokens, "kernel", ("6.18.1", "ab" * 32))
    found = Portfolio.load(paths.manifest(), paths.default().schedulers, "")
    known = {"origin": Origin.BUILT, "version": None, "flags": None, "installed": "2026-01-01T00:00:00+00:00"}
    sha256 = found.hash_of(SchedulerName("scx_one"), program)
    found.write_records({SchedulerName("scx_one"): Record(path=str(program), sha256=sha256, **known)})
    trials, faults = [], []

    def stages(trial, *_):
        trials.append(trial)
        return StageReport(stage=Stage.LOAD), StageReport(stage=Stage.BEHAVIOUR, findings=tuple(faults))

    monkeypatch.setattr(play, "stages", stages)
    monkeypatch.setattr(subject.objects, "check", lambda *_, **__: ())
    return trials, faults


def test_what_passes_gets_its_token(tuned, tmp_path, capsys):
    trials, _ = tuned
    assert answered(["scx_one:tuned", "--token", "--soak", "5", "--cpus", "2"], capsys)[0] == 0
    (trial,) = trials
    assert (trial.program, trial.soak_s, trial.cpus) == ((str(tmp_path / "scx_one"), "--loud=3"), 5.0, 2)
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers, "")
    portfolio.tokens = Tokens(tmp_path / "state")
    assert portfolio.untrusted(SchedulerName("scx_one:tuned")) == ""
    with pytest.raises(AsaError, match="a token is for the kernel that runs here"):
        answered(["scx_one:tuned", "--token", "--btf", "x"], capsys)


def test_what_fails_gets_none(tuned, tmp_path, capsys):
    tuned[1].append(findings.fault("starvation", "a task waited 9 s"))
    assert answered(["scx_one:tuned", "--token"], capsys)[0] == command.EXIT_FAIL
    assert not (tmp_path / "state").exists()


def test_source_alone_cannot_be_loaded(tmp_path, capsys):
    source = tmp_path / "scx_mine.bpf.c"
    source.write_text(corpus.good())
    with pytest.raises(AsaError, match="source alone cannot be loaded"):
        answered([source, "--composed", "--lab"], capsys)
