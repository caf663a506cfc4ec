# SPDX-License-Identifier: GPL-2.0-only
"""Points become flags, trials are kept and not played twice, and only what fresh seeds confirm becomes a policy."""

import math

import pytest

from asa import paths
from asa.act import manifest, policies
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from calibration.tuning import space, tune
from calibration.tuning.racing import Verdict
from calibration.tuning.trials import Gain, Trials
from calibration.tuning.tune import Asked, Method

ENTRIES = {SchedulerName(one.name): one for one in manifest.read(paths.manifest()).schedulers}
LAVD = ENTRIES[SchedulerName("scx_lavd")].knobs


class Valley:
    """The gain is largest at a slice of 2000 us; each seed adds its own part. EEVDF is `behind_pct` ahead."""

    def __init__(self, *, fresh_pct=0.0, behind_pct=0.0, fails=False):
        self.fresh_pct, self.behind_pct, self.fails = fresh_pct, behind_pct, fails
        self.played, self.calls = [], 0

    def gains(self, pairs):
        self.played += [(dict(flags), seed) for flags, seed in pairs]
        self.calls += 1
        if self.fails:
            return [None for _ in pairs]
        off = [abs(math.log(flags.get("--slice-max-us", 5000) / 2000)) for flags, _ in pairs]
        fresh = [self.fresh_pct if seed > 1 else 0.0 for _, seed in pairs]
        gains = [10.0 - 5.0 * one + more for one, more in zip(off, fresh, strict=True)]
        return [Gain(pct=gain, over_eevdf_pct=gain - self.behind_pct) for gain in gains]


class Switch:
    """One switch has a gain."""

    def __init__(self, pct):
        self.pct = pct

    def gains(self, pairs):
        return [Gain(pct=self.pct * ("--no-futex-boost" in flags), over_eevdf_pct=0.0) for flags, _ in pairs]


def asked(method, **changes):
    whole = {"scheduler": SchedulerName("scx_lavd"), "knobs": LAVD, "method": method, "trials": 12, "seed": 1}
    return Asked(**(whole | changes))


@pytest.mark.parametrize("name", space.LEADS)
def test_the_leading_flags_default_gives_the_defaults_of_those_that_follow(name):
    knobs = ENTRIES[SchedulerName(name)].knobs
    lead, *others = space.LEADS[name]
    knob = knobs.numbers[lead]
    found = space.derived(name, knobs, knob.share(knob.default))
    assert found == pytest.approx({one: knobs.numbers[one].default for one in (lead, *others)}, rel=0.01)
    for share in (0.0, 0.3, 1.0):
        assert knobs.wrong(space.derived(name, knobs, share)) is None


def test_all_points_are_flags_that_can_be():
    place = space.space("scx_lavd", LAVD)
    for point in ([0.0] * len(place.names), [1.0] * len(place.names), [0.0, *[1.0] * (len(place.names) - 1)]):
        assert LAVD.wrong(place.flags(point)) is None
    assert place.flags([0.0, *[1.0] * (len(place.names) - 1)])["--slice-min-us"] == 500
    with pytest.raises(AsaError, match="--nothing is no number that may be set of scx_lavd"):
        space.space("scx_lavd", LAVD, ["--nothing"])
    with pytest.raises(AsaError, match="no leading flag; golden section can tune scx_bpfland"):
        space.derived("scx_simple", LAVD, 0.5)


def test_levels_are_low_and_high():
    knobs = ENTRIES[SchedulerName("scx_p2dq")].knobs
    assert space.levels(knobs, "--autoslice") == ({}, {"--autoslice": True})
    assert space.levels(knobs, "--sched-mode") == ({"--sched-mode": "default"}, {"--sched-mode": "efficiency"})
    assert space.levels(knobs, "--dispatch-lb-busy") == ({"--dispatch-lb-busy": 25}, {"--dispatch-lb-busy": 75})
    with pytest.raises(AsaError, match="--nothing is none of the flags"):
        space.levels(knobs, "--nothing")


def test_golden_section_finds_the_valley_and_goes_on_where_it_was(tmp_path):
    valley = Valley()
    found = tune.search(asked(Method.GOLDEN), Trials(valley, tmp_path / "trials.jsonl"))
    assert found.flags["--slice-max-us"] == pytest.approx(2000, rel=0.03)
    assert found.trials == len(valley.played) <= 12
    assert valley.calls == len(valley.played) - 1  # the first two at once
    again = Valley()
    assert tune.search(asked(Method.GOLDEN), Trials(again, tmp_path / "trials.jsonl")) == found
    assert again.played == []


@pytest.mark.parametrize("method", [Method.PSO, Method.TPE])
def test_a_search_takes_the_flags_that_were_named(method, tmp_path):
    valley = Valley()
    found = tune.search(
        asked(method, trials=60, flags=("--slice-max-us", "--warm-cpu-us")), Trials(valley, tmp_path / "t.jsonl")
    )
    assert set(found.flags) == {"--slice-max-us", "--warm-cpu-us"}
    assert found.gain_pct == max(one.pct for one in Valley().gains(valley.played))
    assert found.gain_pct > 9.0
    assert len(valley.played) <= 60
    assert max(found.gains_pct) == found.gain_pct
    assert len(found.gains_pct) == len(valley.played)


def test_a_screening_finds_the_slice(tmp_path):
    flags = ("--slice-max-us", "--warm-cpu-us", "--no-futex-boost")
    trials = Trials(Valley(), tmp_path / "t.jsonl")
    screened = tune.screen(asked(Method.SCREEN, flags=flags), trials)
    first, *others = screened.effects
    assert (first.flag, first.matters) == ("--slice-max-us", True)
    assert not any(one.matters for one in others)
    low, high = (Valley().gains([(level, 1)])[0].pct for level in space.levels(LAVD, "--slice-max-us"))
    assert first.effect == pytest.approx(high - low)
    assert screened.found.flags == space.levels(LAVD, "--slice-max-us")[high > low]
    assert screened.found.gain_pct == pytest.approx(max(low, high))
    assert tune.confirm(screened.found, trials, range(2, 11)).regression_pct == pytest.approx(0.0)
    with pytest.raises(AsaError, match="a screening takes 8; name some of"):
        tune.screen(asked(Method.SCREEN), Trials(Valley(), tmp_path / "t.jsonl"))
    with pytest.raises(AsaError, match="12 of 12 trials failed"):
        tune.screen(asked(Method.SCREEN, flags=flags), Trials(Valley(fails=True), tmp_path / "other.jsonl"))


def test_a_screening_without_a_flag_that_helps_has_no_candidate(tmp_path):
    flags = ("--warm-cpu-us", "--no-futex-boost")
    nothing = tune.screen(asked(Method.SCREEN, flags=flags), Trials(Valley(), tmp_path / "t.jsonl"))
    assert (nothing.found, len(nothing.gains_pct)) == (None, 12)
    harmful = tune.screen(asked(Method.SCREEN, flags=flags), Trials(Switch(-3.0), tmp_path / "harm.jsonl"))
    assert (harmful.effects[0].flag, harmful.effects[0].effect) == ("--no-futex-boost", pytest.approx(-3.0))
    assert harmful.found is None  # it is off by default
    helpful = tune.screen(asked(Method.SCREEN, flags=flags), Trials(Switch(3.0), tmp_path / "help.jsonl"))
    assert helpful.found.flags == {"--no-futex-boost": True}
    assert helpful.found.gain_pct == pytest.approx(3.0)


def test_what_fresh_seeds_confirm_becomes_a_policy(tmp_path):
    valley = Valley(fresh_pct=-4.0)
    trials = Trials(valley, tmp_path / "trials.jsonl")
    found = tune.search(asked(Method.GOLDEN), trials)
    searched = valley.calls
    confirmed = tune.confirm(found, trials, range(2, 11))
    assert valley.calls == searched + 1  # what any race has is played at once
    assert (confirmed.race.verdict, confirmed.seeds) == (Verdict.BETTER, (2, 3, 4))
    assert confirmed.regression_pct == pytest.approx(4.0)
    words = {"version": "1.1.4", "machine": "vm120", "workload": "office+archive", "day": "2026-11-28"}
    made = tune.policy(asked(Method.GOLDEN), found, confirmed, **words)
    assert made.id == "scx_lavd:tuned_office_archive"
    assert made.provenance.effect_pct == pytest.approx(found.gain_pct - 4.0, abs=0.001)
    (tmp_path / policies.file_name(made.name)).write_bytes(tune.written(made))
    assert policies.read(tmp_path, ENTRIES.values()) == {made.name: made}


def test_a_gain_that_leaves_it_behind_the_kernels_own_is_not_wanted(tmp_path):
    trials = Trials(Valley(behind_pct=13.0), tmp_path / "trials.jsonl")
    found = tune.search(asked(Method.GOLDEN), trials)
    confirmed = tune.confirm(found, trials, range(2, 11))
    assert confirmed.race.verdict is Verdict.BETTER
    assert confirmed.over_eevdf_pct == pytest.approx(found.gain_pct - 13.0)
    assert not confirmed.wanted
    other = Trials(Valley(behind_pct=3.0), tmp_path / "other.jsonl")
    assert tune.elsewhere(found, other, [2, 3, 4]) == pytest.approx(found.gain_pct - 3.0)
    assert tune.elsewhere(found, Trials(Valley(), tmp_path / "other.jsonl"), [2]) == pytest.approx(found.gain_pct - 3.0)


def test_what_they_do_not_confirm_does_not(tmp_path):
    trials = Trials(Valley(fresh_pct=-12.0), tmp_path / "trials.jsonl")
    found = tune.search(asked(Method.GOLDEN), trials)
    confirmed = tune.confirm(found, trials, range(2, 11))
    assert confirmed.race.verdict is Verdict.WORSE
    words = {"version": "1.1.4", "machine": "m", "workload": "w", "day": "2026-11-28"}
    assert tune.policy(asked(Method.GOLDEN), found, confirmed, **words) is None


def test_trials_that_fail_are_no_gain(tmp_path):
    with pytest.raises(AsaError, match="no candidate could be played"):
        tune.search(asked(Method.GOLDEN), Trials(Valley(fails=True), tmp_path / "trials.jsonl"))
    (tmp_path / "trials.jsonl").write_text("{}\n")
    with pytest.raises(AsaError, match=r"trials.jsonl: holds no trials"):
        Trials(Valley(), tmp_path / "trials.jsonl")
