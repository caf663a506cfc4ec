# SPDX-License-Identifier: GPL-2.0-only
"""The comparison of programs and stand-ins: what it samples, and what it writes."""

import argparse
import dataclasses
import json
import sys

import pytest

from asa import paths
from asa.cli.lab.bench import stand_ins as bench_stand_ins
from asa.core.errors import InputError
from calibration.goals import Host
from calibration.scenarios import stand_ins, stand_ins_report
from calibration.scenarios.stand_ins import Half, Options, Pair, Result
from scenarios.application import Tier
from scenarios.standins import APPLICATIONS

MACHINE = Host(cpu="a CPU", cpus=2, kernel="6.12", version="1.0", command="asa lab bench stand-ins")


def half(reason="", **values):
    return Half(values=values, versions={} if reason else {"program": "7"}, reason=reason)


def result(*pairs, idle=3.0):
    return Result(began_s=0.0, took_s=90.0, idle=half(cpu_busy_pct=idle), pairs=list(pairs))


WEB = Pair(
    name="web",
    real=half(context_switches_per_s=9_000.0, execs_per_s=0.2, wakeups_per_s=5_000.0),
    lab=half(context_switches_per_s=800.0, execs_per_s=4.0, wakeups_per_s=4_000.0),
)
LOST = Pair(name="disk", real=half("fio is not installed"), lab=half(context_switches_per_s=5.0))


def test_another_order_of_magnitude_is_told_unless_it_is_about_nothing():
    assert [one.name for one in WEB.far()] == ["context_switches_per_s"]  # 0.2 execs/s and 4 are both next to none
    by_name = {one.name: one for one in stand_ins.QUANTITIES}
    assert WEB.ratio(by_name["wakeups_per_s"]) == 0.8
    assert WEB.ratio(by_name["burst_p50_us"]) is None
    assert LOST.far() == []


def test_the_document_has_each_pair_and_what_is_doubtful():
    text = stand_ins_report.document(result(WEB, LOST, idle=40.0), MACHINE)
    assert "| switches/s | 9,000 | 800 | 0.089 |" in text
    assert "- web: switches/s\n" in text
    assert "- program: fio is not installed" in text
    assert "**Doubtful**: the host was not idle: its CPUs were 40 % busy" in text
    assert "Doubtful" not in stand_ins_report.document(result(WEB), MACHINE)


def test_a_line_holds_both_and_null_for_what_is_unknown():
    lines = [json.loads(line) for line in stand_ins_report.lines(result(WEB, LOST))]
    assert len(lines) == 2 * len(stand_ins.QUANTITIES)
    switches = next(one for one in lines if one["quantity"] == "context_switches_per_s")
    assert (switches["real"], switches["lab"], switches["far"]) == (9_000.0, 800.0, True)
    lost = next(one for one in lines if one["application"] == "disk")
    assert (lost["real"], lost["real_reason"]) == (None, "fio is not installed")


@pytest.mark.apps
def test_both_are_sampled_and_one_that_fails_costs_itself_alone():
    ends = (sys.executable, "-c", "print('{\"ready\": {}}', flush=True)")
    broken = dataclasses.replace(APPLICATIONS["audio"], command=lambda _place, _parameters: ends)
    tiers = {Tier.REAL: {**APPLICATIONS, "audio": broken}, Tier.LAB: APPLICATIONS}
    options = Options(names=("game", "audio"), seconds=1.5, settle_s=0.1, seeds=(1,))
    told = []
    found = stand_ins.compare(options, tiers, paths.default(), lambda what, share: told.append((what, share)))
    game, audio = found.pairs
    for half_of_it in (game.real, game.lab, audio.lab):
        assert half_of_it.reason == ""
        assert half_of_it.values["context_switches_per_s"] > 50
    assert "audio: its driver ended with code 0" in audio.real.reason
    assert [what for what, _ in told][1:3] == ["game: the program", "game: the stand-in"]
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert max(share for _, share in told) < 1.0


def test_an_application_that_is_none_is_refused(tmp_path):
    parser = argparse.ArgumentParser()
    bench_stand_ins.register(parser.add_subparsers())
    with pytest.raises(InputError, match="chess"):
        bench_stand_ins.run(parser.parse_args(["stand-ins", "--only", "web,chess"]))
