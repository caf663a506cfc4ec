# SPDX-License-Identifier: GPL-2.0-only
"""The budget of trials and whose turn it is."""

from dataclasses import replace

import pytest

from asa import wire
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import AsaError
from asa.decide.grounds import Ground
from asa.decide.signals import SIGNALS
from asa.decide.trial_budget import (
    HOUR_NS,
    MOST_SWITCHES,
    PAIR_SWITCHES,
    SAVED_S,
    Account,
    Asked,
    Choice,
    Learn,
    Limits,
    Offer,
    Stand,
    following,
    refused,
    switched,
    watched,
)
from asa.decide.trial_pairs import Pair, Side, Verdict

S = 1_000_000_000
WEB, GAME = Workload("web"), Workload("game")
ONE, TWO, THREE = (SchedulerName(f"scx_{name}") for name in ("one", "two", "three"))
ON = Limits()
RICH = Account(credit_s=SAVED_S)
SIDE = Side(logs=(1.0,) * len(SIGNALS), means=(1.0,) * len(SIGNALS))
PAIR = Pair(in_force=SIDE, candidate=SIDE)
STAND = Stand(kernel="7.2", versions={"scx_one": "1", "scx_two": "2"})


def asked(candidate, verdict=None, pairs=1, **changes):
    usual = Asked(
        use=WEB,
        in_force=EEVDF,
        candidate=candidate,
        verdict=verdict,
        pairs=(PAIR,) * pairs,
        kernel="7.2",
        versions=("", STAND.version(candidate)),
    )
    return replace(usual, **changes)


def begin(account, limits=ON, now_ns=0, **more):
    return refused(account, limits, now_ns=now_ns, block_s=20.0, **more)


def test_a_day_of_use_spends_a_twentieth_of_it_at_most():
    account, left_s, now_ns, switches = Account(), 0.0, 0, []
    for _ in range(8 * 3600):
        now_ns += S
        if left_s <= 0.0 and not begin(account, now_ns=now_ns):
            left_s = 20.0
            for _ in range(PAIR_SWITCHES):
                account = switched(account, now_ns)
                switches.append(now_ns)
        account = watched(account, ON, 1.0, tried=left_s > 0.0)
        left_s -= 1.0
        assert account.tried_s <= 0.05 * account.watched_s + 1.0
    assert account.tried_s > 0.0
    for at_ns in switches:
        assert sum(0 <= other - at_ns < HOUR_NS for other in switches) <= MOST_SWITCHES
    assert len(switches) == 8 * MOST_SWITCHES


def test_what_is_saved_up_is_bounded_and_what_took_longer_is_earned_again():
    account = watched(Account(), ON, 1e6, tried=False)
    assert account.credit_s == SAVED_S
    account = watched(account, ON, 200.0, tried=True)
    assert account.credit_s == pytest.approx(SAVED_S - 190.0)
    assert "5% of the time is used up" in begin(account)
    assert begin(watched(account, ON, 1000.0, tried=False)) == ""


@pytest.mark.parametrize("elapsed_s", [0.0, -5.0, float("nan")])
def test_a_time_that_is_none_earns_nothing(elapsed_s):
    assert watched(RICH, ON, elapsed_s, tried=True) is RICH


def test_off_and_ask():
    off, ask = replace(ON, learn=Learn.OFF), replace(ON, learn=Learn.ASK)
    assert begin(RICH, off, agreed=True) == "learning is off"
    assert watched(Account(), off, 100.0, tried=False) == Account()
    assert begin(RICH, ask) == "the user has not been asked"
    assert begin(RICH, ask, agreed=True) == ""
    assert begin(RICH) == ""


def test_switches_are_counted_by_the_hour_and_those_of_another_boot_are_not():
    account = RICH
    for number in range(MOST_SWITCHES - PAIR_SWITCHES + 1):
        assert begin(account, now_ns=number * S) == ""
        account = switched(account, number * S)
    assert begin(account, now_ns=20 * S) == "10 switches in the last hour, of 12"
    assert begin(account, now_ns=HOUR_NS + S) == ""
    assert begin(account, now_ns=-1) == ""
    assert switched(account, 2 * HOUR_NS).switched_ns == (2 * HOUR_NS,)


@pytest.mark.parametrize("changes", [{"share": 0.06}, {"share": -0.1}, {"share": float("nan")}, {"switches": 13}])
def test_more_than_the_bounds_is_refused(changes):
    with pytest.raises(AsaError, match="allowed: 0 to"):
        replace(ON, **changes)


OFFERS = [Offer(name=ONE), Offer(name=TWO, ground=Ground.PUBLISHED), Offer(name=THREE)]


def test_what_somebody_measured_comes_before_opinions_and_what_was_begun_before_both():
    assert following(WEB, EEVDF, OFFERS, [], STAND) == Choice(candidate=TWO)
    assert following(WEB, EEVDF, OFFERS, [asked(TWO, Verdict.ALIKE)], STAND) == Choice(candidate=ONE)
    begun = following(WEB, EEVDF, OFFERS, [asked(THREE, pairs=3), asked(ONE, pairs=2)], STAND)
    assert begun == Choice(candidate=THREE, before=(PAIR,) * 3)


def test_what_is_settled_is_not_asked_again_in_that_use_against_that_one():
    settled = [asked(name, verdict) for name, verdict in zip((ONE, TWO, THREE), list(Verdict)[:3], strict=True)]
    assert following(WEB, EEVDF, OFFERS, settled, STAND) is None
    assert following(GAME, EEVDF, OFFERS, settled, STAND) == Choice(candidate=TWO)
    assert following(WEB, ONE, OFFERS, settled, STAND) == Choice(candidate=TWO)


def test_the_kernels_own_is_the_last_to_be_asked():
    assert following(WEB, ONE, [Offer(name=ONE)], [], STAND) == Choice(candidate=EEVDF)
    assert following(WEB, EEVDF, [], [], STAND) is None


@pytest.mark.parametrize(
    "stand",
    [
        replace(STAND, kernel="7.3"),
        replace(STAND, versions={"scx_one": "1.1"}),
    ],
)
def test_another_kernel_or_version_is_asked_anew_without_the_pairs_of_before(stand):
    known = [asked(ONE, Verdict.WORSE, pairs=5)]
    assert following(WEB, EEVDF, [Offer(name=ONE)], known, STAND) is None
    assert following(WEB, EEVDF, [Offer(name=ONE)], known, stand) == Choice(candidate=ONE)


def test_what_is_unknown_is_no_other_version_and_a_mode_has_its_schedulers():
    mode = SchedulerName("scx_one:gaming")
    known = [asked(mode, Verdict.ALIKE)]
    assert known[0].versions == ("", "1")
    assert following(WEB, EEVDF, [Offer(name=mode)], known, Stand(kernel="", versions={})) is None


def test_what_is_known_can_be_kept_in_a_file():
    known = asked(SchedulerName("scx_one:gaming"), Verdict.ALIKE, pairs=2)
    assert wire.from_json(wire.json_bytes(known), Asked) == known
    account = Account(watched_s=10.0, credit_s=-1.0, switched_ns=(1, 2))
    assert wire.from_json(wire.json_bytes(account), Account) == account
