# SPDX-License-Identifier: GPL-2.0-only
"""What the probes' numbers mean, and that a guest which ends early never makes a pass."""

import pytest

from asa.core.errors import LabError
from calibration.verify import report
from calibration.verify.lab import judge
from calibration.verify.lab.judge import Probed
from calibration.verify.report import Level, Stage, Verdict

OWN = {
    "fair-floating": {"p10": 0.9, "work_per_s": 100.0, "missing": 0.0},
    "nice": {"ratio": 9.3, "share": 0.1, "missing": 0.0},
    "starvation": {"longest_s": 0.02, "p99_s": 0.01, "missing": 0.0},
    "groups": {"ratio": 4.0, "missing": 0.0},
    "realtime": {"least_s": 1.0, "longest_s": 0.01, "missing": 0.0},
    "affinity": {"moves": 200.0, "astray": 0.0, "missing": 0.0},
    "pipe": {"per_s": 1000.0, "longest_s": 0.01, "missing": 0.0},
}
PLAYED = (*OWN, "counters")


def told(its=None, own=None, **more):
    """What a guest tells: EEVDF as it should be, and its scheduler alike but for `its`."""
    kept = {probe: {**values, **(own or {}).get(probe, {})} for probe, values in OWN.items()}
    lines = [Probed(probe=probe, own=True, values=values) for probe, values in kept.items()]
    for probe in PLAYED:
        values = {**OWN.get(probe, {}), **(its or {}).get(probe, {})}
        lines.append(Probed(probe=probe, values=values, gone=more.get(probe.replace("-", "_"), "")))
    return lines


def verdict(lines, names=PLAYED):
    return report.stage(Stage.BEHAVIOUR, lambda: judge.behaviour(lines, names))


def faults(lines):
    return {one.rule for one in judge.behaviour(lines, PLAYED) if one.level is Level.FAULT}


def test_one_that_is_as_eevdf_passes_and_the_pair_is_told():
    found = verdict(told())
    assert found.verdict is Verdict.PASS
    assert "work 1.00, p99 of a wakeup 1.00, rounds by pipe 1.00" in found.findings[-1].text


@pytest.mark.parametrize(
    ("probe", "values", "rule"),
    [
        ("fair-floating", {"p10": 0.59}, "fair-floating"),
        ("fair-floating", {"work_per_s": 49.0}, "fair-floating"),
        ("fair-floating", {"missing": 1.0}, "fair-floating"),
        ("nice", {"ratio": 0.5}, "nice"),
        ("nice", {"share": 0.0}, "nice"),
        ("starvation", {"longest_s": 2.1}, "starvation"),
        ("groups", {"ratio": 0.25}, "groups"),
        ("realtime", {"least_s": 0.0}, "realtime"),
        ("affinity", {"astray": 1.0}, "affinity"),
        ("affinity", {"moves": 3.0}, "affinity"),
        ("pipe", {"per_s": 90.0}, "pipe"),
        ("counters", {"fallbacks_per_s": 1.1}, "fallbacks"),
        ("counters", {"grown_bytes": 5e6}, "grows"),
    ],
)
def test_each_bound(probe, values, rule):
    assert faults(told({probe: values})) == {rule}


def test_one_that_the_kernel_took_out_fails():
    assert faults(told(pipe="stall: runnable task stall")) == {"pipe"}


def test_a_guest_that_dies_is_no_pass_and_what_it_told_counts():
    half = told()[: len(OWN) + 2]
    assert verdict(half).verdict is Verdict.INCONCLUSIVE
    assert verdict([]).verdict is Verdict.INCONCLUSIVE
    assert verdict([*half, Probed(probe="starvation", gone="stall")]).verdict is Verdict.FAIL


def test_an_instrument_that_fails_eevdf_finds_nothing_out():
    found = verdict(told({"pipe": {"longest_s": 9.0}}, own={"fair-floating": {"p10": 0.1}}))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "the instrument is at fault" in found.died


def test_loads_and_ends_with_each_kernel():
    both = [Probed(probe="load", values={"seconds": 2.0}), Probed(probe="end")]
    (only,) = judge.load(both, "6.18", 4)
    assert (only.level, only.text) == (Level.NOTE, "kernel 6.18, 4 CPUs: in force after 2.0 s, and ends in order")
    (only,) = judge.load([Probed(probe="load", gone="it ended: no such kfunc")], "6.18", 9)
    assert (only.level, only.rule) == (Level.FAULT, "load-6.18")
    assert "9 CPUs" in only.text
    with pytest.raises(LabError, match="ended before the scheduler's end"):
        list(judge.load(both[:1], "6.18", 4))


def test_what_it_claims():
    (found,) = judge.claim(told({"pipe": {"per_s": 900.0}}), "pipe")
    assert found.level is Level.DOUBT
    (found,) = judge.claim(told({"starvation": {"p99_s": 0.005}}), "wakeup")
    assert found.level is Level.NOTE
    (found,) = judge.claim([], "work")
    assert (found.level, found.text) == (Level.DOUBT, "work: not measured")


def test_fallbacks_are_counted_where_the_kernel_tells_them():
    before, after = {"SCX_EV_SELECT_CPU_FALLBACK": 5}, {"SCX_EV_SELECT_CPU_FALLBACK": 25, "SCX_EV_REENQ_IMMED": 9}
    assert judge.fallbacks(before, after, 10.0) == 2.0
    assert judge.fallbacks({}, {"SCX_EV_REENQ_IMMED": 9}, 10.0) is None
