# SPDX-License-Identifier: GPL-2.0-only
"""Flags that binaries tell by their help, and policies that must use no other."""

import subprocess

import pytest
from build_desk import HELP, SCHEDULER, desk
from hypothesis import given
from hypothesis import strategies as st

from asa import paths
from asa.act import manifest
from asa.act.build import Status, parse_flags
from asa.act.portfolio import Available, Portfolio

__all__ = ["desk"]  # a fixture
# tools/sched_ext/scx_simple.c, help_fmt
C_HELP = """A simple sched_ext scheduler.

Usage: scx_simple [-f] [-v]

  -f            Use FIFO scheduling instead of weighted vtime scheduling
  -v            Print libbpf debug messages
  -h            Display this help and exit
"""


def test_a_policy_must_use_flags_that_the_binary_has(desk):
    desk.crate("scx_one", policies={"fast": {"--speed": 3}})
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    outcome = desk.install()["scx_one"]
    assert outcome.status is Status.FAILED
    assert "does not name '--speed', which the policy scx_one:fast sets" in outcome.detail
    assert not isinstance(desk.portfolio().look("scx_one"), Available)


def test_a_binary_that_does_not_tell_its_flags_is_usable(desk):
    desk.crate("scx_one", policies={"fast": {"--speed": 3}})
    desk.executable(desk.crates / "scx_one", "#!/bin/sh\necho '[SCX_BUG] kernel too old?' >&2\nexit 1\n")
    assert desk.install()["scx_one"].status is Status.BUILT
    record = desk.portfolio().records()["scx_one"]
    assert record.flags is None
    assert "kernel too old?" in record.flags_reason


def test_help_on_stderr_with_an_error_code_counts(desk):
    desk.crate("scx_one")
    desk.executable(desk.crates / "scx_one", f"#!/bin/sh\ncat >&2 <<'END'\n{HELP}\nEND\nexit 255\n")
    desk.install()
    assert "--slice-us" in desk.portfolio().records()["scx_one"].flags


def test_policies_are_checked_again_though_the_binary_is_kept(desk):
    desk.crate("scx_one")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    desk.install()
    desk.entries.clear()
    desk.crate("scx_one", policies={"fast": {"--speed": 3}})
    outcome = desk.install()["scx_one"]
    assert outcome.status is Status.FAILED
    assert "'--speed'" in outcome.detail
    assert desk.built() == ["scx_one@1.2.3"]


def test_flags_of_the_c_schedulers():
    assert parse_flags(C_HELP) == ("-f", "-v", "-h")


@given(st.text() | st.from_regex(r"\A *(-\w, )?--?[\w<>\[\]=. -]*\n?\Z"))
def test_flags_of_any_text_look_like_flags(text):
    for flag in parse_flags(text):
        assert flag.startswith("-")
        assert flag in text
        assert " " not in flag


CRATES = [one.name for one in manifest.read(paths.manifest()).schedulers if isinstance(one.source, manifest.Crate)]


@pytest.mark.parametrize("name", CRATES)
def test_long_and_short_help_of_the_real_ones_agree(name):
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    look = portfolio.look(name)
    if not isinstance(look, Available):
        pytest.skip(f"{look.reason}")
    short = subprocess.run([look.path, "-h"], check=False, capture_output=True, text=True)  # lavd ends with 255
    assert set(parse_flags(short.stdout + short.stderr)) == set(look.flags)
    assert {"--help", "-h", "--stats", "--kconfig"} <= set(look.flags)
