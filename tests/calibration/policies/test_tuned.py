# SPDX-License-Identifier: GPL-2.0-only
"""Figures of tuning, by outcomes that are made up."""

import msgspec
import pytest

from asa.core.errors import AsaError
from calibration.policies import playing, portfolio, tuned
from calibration.policies.played import Played, Reading
from calibration.tuning import outcome
from calibration.tuning.outcome import Outcome, Race
from calibration.tuning.racing import Verdict
from calibration.tuning.screening import Effect
from calibration.tuning.tune import Method
from scenarios.conditions import Conditions
from scenarios.lab.emulator import Clock


def made(method, *gains, gain=20.0, machine="laptop-hybrid", policy="scx_lavd:tuned_messages", **changes):
    race = Race(
        machine=machine,
        verdict=Verdict.BETTER,
        seeds=(2, 3, 4),
        gain_pct=gain,
        interval_pct=(gain - 1.0, gain + 1.0),
        regression_pct=2.0,
        over_eevdf_pct=1.0,
    )
    whole = {
        "scheduler": "scx_lavd",
        "method": method,
        "workload": "messages",
        "machine": "vm120",
        "seed": 1,
        "rounds": 2,
        "trials": len(gains),
        "gains_pct": gains,
        "arguments": ("--slice-max-us=9000",),
        "upper": {"--slice-max-us": True},
        "gain_pct": max((one for one in gains if one is not None), default=None),
        "race": race,
        "policy": policy,
    }
    return Outcome(**(whole | changes))


def test_only_what_another_machine_confirmed_counts(tmp_path):
    kept = [
        made(Method.SCREEN, 1.0, gain=8.0),  # the same policy as the next one, which is surer
        made(Method.PSO, 1.0, gain=10.0),
        made(Method.GOLDEN, 1.0, gain=30.0, policy="scx_lavd:tuned_burst_p99"),
        made(Method.TPE, 1.0, gain=90.0, machine="vm120", policy="scx_flash:tuned_burst_p99"),
        made(Method.TPE, 1.0, policy=None),
    ]
    for number, one in enumerate(kept):
        outcome.write(one, tmp_path / f"{number}.json")
    assert outcome.all_of(tmp_path) == kept
    value, said = tuned.confirmed(kept)
    assert value == 2.0
    assert "scx_lavd messages by pso +10.0 % (+9.0 to +11.0, better)" in said
    assert tuned.gain_median_pct(kept)[0] == 20.0
    with pytest.raises(AsaError, match="of 1 searches none was confirmed on another machine"):
        tuned.gain_median_pct(kept[4:])
    (tmp_path / "0.json").write_text("{}")
    with pytest.raises(AsaError, match="no outcome of a tuning that can be read"):
        outcome.all_of(tmp_path)


def test_executions_are_counted_until_the_best(tmp_path):
    kept = [made(Method.PSO, 1.0, None, 4.0, 3.0, 7.0, 5.0), made(Method.GOLDEN, 2.0, 3.5, 3.0)]
    value, said = tuned.trials(kept, Method.PSO)
    assert value == 5.0
    assert "golden's best, +3.50 %, was reached after 3" in said
    value, said = tuned.trials(kept, Method.GOLDEN)
    assert value == 2.0
    assert "pso's best, +7.00 %, was not reached" in said
    with pytest.raises(AsaError, match="no golden by messages is kept; run `asa lab tune"):
        tuned.trials(kept[:1], Method.GOLDEN)


def test_a_screening_agrees_with_a_search_where_both_set_a_flag_to_one_side():
    effects = (
        Effect(flag="--slice-max-us", effect=8.0, p=0.01),
        Effect(flag="--warm-cpu-us", effect=-6.0, p=0.02),
        Effect(flag="--mig-delta-pct", effect=1.0, p=0.5),
    )
    screening = made(Method.SCREEN, 1.0, effects=effects)
    search = made(Method.PSO, 1.0, upper={"--slice-max-us": True, "--warm-cpu-us": True, "--mig-delta-pct": False})
    value, said = tuned.screen_agreement([screening, search])
    assert value == 50.0
    assert "--mig-delta-pct" not in said
    with pytest.raises(AsaError, match="no flag was judged by a screening and by a search"):
        tuned.screen_agreement([screening, msgspec.structs.replace(search, machine="vm122")])


def test_what_policies_add_is_judged_by_other_rounds_than_those_that_chose_them(monkeypatch):
    policy = made(Method.GOLDEN, 1.0, policy="scx_lavd:tuned_launch_p50", workload="launch_p50")
    times = {
        "eevdf": (40, 40, 40, 40),
        "scx_flash": (20, 20, 20, 20),
        policy.policy: (10, 30, 10, 30),  # lucky in odd rounds, where it is chosen; 50 % worse in even ones
    }
    rows = tuple(
        Reading(subject=name, round=number, label="launch", play=1, values={"p50_ns": value * 10**6})
        for name, values in times.items()
        for number, value in enumerate(values, 1)
    )
    under = Conditions(clock=Clock.PARALLEL, tick_hz=1000, machine="alike-4")
    found = Played(kernel="6.18", cpus=4, under=under, names=dict.fromkeys(times, ""), readings=rows)
    monkeypatch.setattr(playing, "played", lambda *_: found)
    monkeypatch.setattr(portfolio, "_WANTED", ())
    value, said = portfolio.gain([policy], print)
    assert value == pytest.approx(-25.0)  # chosen by odd rounds -50 %, by even ones not chosen
    assert "launch_p50 -25.0 %" in said
    with pytest.raises(AsaError, match="no policy was confirmed on another machine"):
        portfolio.gain([], print)
    with pytest.raises(AsaError, match="scx_lavd:other: not played"):
        portfolio.gain([policy, msgspec.structs.replace(policy, policy="scx_lavd:other")], print)
