# SPDX-License-Identifier: GPL-2.0-only
"""A token speaks for one file, its flags and one kernel, until it expires; whatever else is shown is refused."""

import pytest
import tuned_policy

from asa.act.portfolio import Origin, Portfolio, Record
from asa.act.tokens import DAYS, STAGES, Tokens
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError, SchedulerError
from asa.core.helper_api import Vouched
from asa.helper import vouching
from asa.helper.machine import RefusedError

MINE, FLAGS = SchedulerName("scx_compose_mine"), ("--slice-us", "500")
FILE = "ab" * 32
NOW_S = 1_800_000_000


@pytest.fixture
def machine(tmp_path):
    """Makes the tokens of a machine: its kernel, its types and its clock."""

    def machine(*, kernel="6.18.1", types="types", wall_s=NOW_S, state="state"):
        sys = tmp_path / f"sys-{types}"
        (sys / "kernel/btf").mkdir(parents=True, exist_ok=True)
        (sys / "kernel/btf/vmlinux").write_text(types)
        return Tokens(tmp_path / state, sys=sys, kernel=kernel, wall_s=lambda: wall_s)

    return machine


@pytest.fixture
def issued(machine):
    machine().issue(MINE, FILE, FLAGS, STAGES)
    return machine


def path_of(tokens, tmp_path):
    (path,) = (tmp_path / "state/tokens").iterdir()
    return path


def test_it_speaks_for_what_was_verified(issued):
    assert issued().wrong(MINE, FILE, FLAGS, STAGES) == ""
    assert issued(wall_s=NOW_S + DAYS * 86_400 - 1).wrong(MINE, FILE, FLAGS, STAGES) == ""


def test_what_else_is_shown_is_refused_in_one_line(issued):
    refused = {
        "another file": issued().wrong(MINE, "cd" * 32, FLAGS, STAGES),
        "other flags": issued().wrong(MINE, FILE, (), STAGES),
        "kernel 6.18.1, and this is 7.1": issued(kernel="7.1").wrong(MINE, FILE, FLAGS, STAGES),
        "another build of kernel": issued(types="others").wrong(MINE, FILE, FLAGS, STAGES),
        "expired": issued(wall_s=NOW_S + DAYS * 86_400).wrong(MINE, FILE, FLAGS, STAGES),
        "the stage source": issued().wrong(MINE, FILE, FLAGS, (*STAGES, "source")),
        "without a token": issued().wrong(SchedulerName("scx_flash:mine"), FILE, FLAGS, STAGES),
    }
    for words, said in refused.items():
        assert words in said
        assert "\n" not in said
        assert "asa lab verify" in said


def test_replayed_for_another_policy(issued, tmp_path):
    path = path_of(issued, tmp_path)
    path.with_name("scx_compose_other.json").write_bytes(path.read_bytes())
    said = issued().wrong(SchedulerName("scx_compose_other"), FILE, FLAGS, STAGES)
    assert "is the token of scx_compose_mine" in said


def test_edited_by_one_bit(issued, tmp_path):
    path, tokens = path_of(issued, tmp_path), issued()
    whole = path.read_bytes()
    for place in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << place % 8
        path.write_bytes(spoiled)
        said = tokens.wrong(MINE, FILE, FLAGS, STAGES)
        assert "changed" in said, (place, said)
    path.write_bytes(whole[: len(whole) // 2])
    assert "changed" in tokens.wrong(MINE, FILE, FLAGS, STAGES)


def test_the_key_is_roots_alone(issued, tmp_path):
    key = tmp_path / "state/token.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    assert "has mode 0644, of which 0044 is too much" in issued().wrong(MINE, FILE, FLAGS, STAGES)
    key.chmod(0o600)
    key.write_bytes(bytes(32))
    assert "sealed with another key" in issued().wrong(MINE, FILE, FLAGS, STAGES)
    key.unlink()
    assert "gone" in issued().wrong(MINE, FILE, FLAGS, STAGES)
    issued(state="elsewhere").issue(MINE, FILE, FLAGS, STAGES)
    assert (tmp_path / "elsewhere/token.key").read_bytes() != bytes(32)


def test_a_withdrawn_one_is_gone(issued):
    assert issued().withdraw(MINE)
    assert not issued().withdraw(MINE)
    assert "without a token" in issued().wrong(MINE, FILE, FLAGS, STAGES)


def test_without_types_there_is_none(tmp_path):
    with pytest.raises(AsaError, match="no token can name this kernel"):
        Tokens(tmp_path, sys=tmp_path).issue(MINE, FILE, FLAGS, STAGES)


COMPOSED = """\
  - {name: scx_compose_mine, source: {kind: composed}, purpose: mine, ops: compose_mine, help: [--help], paper: false}
"""
ONE, LOUD = SchedulerName("scx_one"), SchedulerName("scx_one:tuned")


@pytest.fixture
def portfolio(tmp_path, machine):
    folder = tmp_path / "scx"
    folder.mkdir()
    found = Portfolio.load(tuned_policy.write(tmp_path, COMPOSED), folder, "")
    known = {"origin": Origin.BUILT, "version": None, "flags": None, "installed": "2026-01-01T00:00:00+00:00"}
    records = {}
    for name in ("scx_one", "scx_compose_mine"):
        program = folder / name
        program.write_text(f"#!/bin/sh\n# {name}\n")
        program.chmod(0o755)
        records[SchedulerName(name)] = Record(path=str(program), sha256=found.hash_of(name, program), **known)
    found.write_records(records)
    found.tokens = machine()
    return found


def said_of(portfolio, name, **other):
    sha256, flags = portfolio.file_of(name)
    kernel, btf = portfolio.tokens.kernel
    said = {"sha256": sha256, "flags": flags, "kernels": {kernel: btf}, "stages": portfolio.stages(name)}
    return Vouched(**said | other)


def test_the_manifest_says_who_needs_one(portfolio):
    assert portfolio.canaries() == {MINE, LOUD}
    assert portfolio.untrusted(ONE) == ""
    for name in (MINE, LOUD):
        with pytest.raises(SchedulerError, match="without a token"):
            portfolio.open(name)
        vouching.vouch(portfolio, name, said_of(portfolio, name))
        assert portfolio.untrusted(name) == ""
    portfolio.tokens = None  # the laboratory's
    assert portfolio.untrusted(MINE) == ""


def test_what_vouches_for_another_thing_makes_no_token(portfolio):
    wrong = {
        "another file": {"sha256": FILE},
        "other flags": {"flags": ("--loud", "9")},
        "other kernels": {"kernels": {"6.18.1": FILE}},
        "has not passed the stage source": {"stages": STAGES},
    }
    for words, other in wrong.items():
        with pytest.raises(RefusedError, match=words):
            vouching.vouch(portfolio, MINE, said_of(portfolio, MINE, **other))
    with pytest.raises(RefusedError, match="needs no token"):
        vouching.vouch(portfolio, ONE, said_of(portfolio, ONE))
    assert "without a token" in portfolio.untrusted(MINE)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"sha256": 1}', "x" * 70_000, "[" * 60_000])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(RefusedError, match=r"no report of `asa lab verify`"):
        vouching.read(text)
