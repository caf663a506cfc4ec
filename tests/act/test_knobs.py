# SPDX-License-Identifier: GPL-2.0-only
"""Ranges of flags, the arguments made of them, and the shipped knobs beside what the installed binaries say."""

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa import paths
from asa.act import manifest
from asa.act.knobs import Knobs, Number, Scale, arguments
from asa.act.portfolio import Available, Portfolio
from asa.core.decision import SchedulerName

SLICE = Number(unit="us", low=100, high=20000, default=1000, scale=Scale.LOG)
KNOBS = Knobs(
    numbers={
        "--slice": SLICE,
        "--least": Number(unit="us", low=0, high=20000, default=0, at_most="--slice"),
        "--share": Number(unit="%", low=0, high=100, default=5, whole=False),
    },
    choices={"--domain": ("auto", "all")},
    switches=("-f", "--fast"),
)
CRATES = [one for one in manifest.read(paths.manifest()).schedulers if isinstance(one.source, manifest.Crate)]


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"--slice": 100, "-f": True, "--domain": "all"},
        {"--slice": 20000, "--least": 20000, "--share": 0.5},
        {"--least": 1000},
    ],
)
def test_what_may_be_set(flags):
    assert KNOBS.wrong(flags) is None


@pytest.mark.parametrize(
    ("flags", "flag", "allowed"),
    [
        ({"--slice": 99}, "--slice", "a whole number of us, 100 to 20000"),
        ({"--slice": 20001}, "--slice", "a whole number of us, 100 to 20000"),
        ({"--slice": 200.5}, "--slice", "a whole number of us, 100 to 20000"),
        ({"--slice": float("nan")}, "--slice", "a whole number of us, 100 to 20000"),
        ({"--slice": float("inf")}, "--slice", "a whole number of us, 100 to 20000"),
        ({"--slice": True}, "--slice", "a whole number of us, 100 to 20000"),
        ({"--slice": "1000"}, "--slice", "a whole number of us, 100 to 20000"),
        ({"-f": True, "--share": 101}, "--share", "a number of %, 0 to 100"),
        ({"--least": 1001}, "--least", "at most 1000, which --slice is"),
        ({"--least": 300, "--slice": 200}, "--least", "at most 200, which --slice is"),
        ({"--domain": "turbo"}, "--domain", "one of 'auto', 'all'"),
        ({"--fast": False}, "--fast", "true, or leave the flag out"),
        (
            {"--profile": "gaming"},
            "--profile",
            "one of its knobs in the manifest: --slice, --least, --share, --domain, -f, --fast",
        ),
    ],
)
def test_what_may_not_is_told_by_its_name(flags, flag, allowed):
    assert KNOBS.wrong(flags) == (flag, flags[flag], allowed)


def test_arguments_are_those_of_getopt_and_clap():
    flags = {"-f": True, "-s": "name", "--slice": 500, "--idle": -1, "--share": 0.25, "--fast": True}
    assert arguments(flags) == ("-f", "-s", "name", "--slice=500", "--idle=-1", "--share=0.25", "--fast")


@given(st.floats(0, 1), st.sampled_from(Scale), st.booleans())
def test_a_share_of_the_range_is_in_it_and_comes_back(share, scale, whole):
    knob = Number(unit="us", low=100, high=20000, default=None, scale=scale, whole=whole)
    value = knob.at(share)
    assert knob.low <= value <= knob.high
    assert knob.share(value) == pytest.approx(share, abs=0.01 if whole else 1e-9)


def test_the_middle_of_a_scale_of_factors_is_the_geometric_mean():
    assert SLICE.at(0.5) == round((100 * 20000) ** 0.5)
    assert (SLICE.at(-1), SLICE.at(0), SLICE.at(1), SLICE.at(2)) == (100, 100, 20000, 20000)


@pytest.mark.parametrize("entry", CRATES, ids=lambda entry: entry.name)
def test_the_installed_binarys_help_has_the_knobs_with_their_defaults(entry):
    look = Portfolio.load(paths.manifest(), paths.default().schedulers).look(SchedulerName(entry.name))
    if not isinstance(look, Available):
        pytest.skip(look.reason)
    if look.version != entry.source.version:
        pytest.skip(f"{look.path} is {look.version}, the manifest's is {entry.source.version}")
    assert set(entry.knobs.flags()) <= set(look.flags)
    done = subprocess.run([look.path, "--help"], check=False, capture_output=True, text=True)
    text = done.stdout + done.stderr  # lavd and p2dq print it on stderr
    parts = re.split(r"^\s+(?:-\w, )?(--[a-z0-9-]+)", text, flags=re.MULTILINE)
    said = dict(zip(parts[1::2], parts[2::2], strict=True))
    for flag, knob in entry.knobs.numbers.items():
        default = re.search(r"\[default: (\S+)\]", said[flag])
        assert (float(default[1]) if default else None) == knob.default, flag
    for flag, words in entry.knobs.choices.items():
        if default := re.search(r"\[default: (\S+)\]", said[flag]):
            assert default[1] == words[0], flag
        assert all(word in said[flag] for word in words), flag
