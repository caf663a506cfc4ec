# SPDX-License-Identifier: GPL-2.0-only
"""What was found on a machine, told to its user: the one word, the uses, what it cost; and what strangers may read."""

from dataclasses import replace

import msgspec
import pytest
from tried_here import tried

from asa import wire
from asa.config import Learn
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import proof
from asa.decide.grounds import Evidence, Ground
from asa.decide.learning import Learning, Said
from asa.decide.proof import Answer, Here
from asa.decide.table import Entry, MappingTable
from asa.decide.trial_budget import Account, Stand
from asa.decide.trial_pairs import Effect, Verdict

RUSTY, FLASH, MINE = SchedulerName("scx_rusty"), SchedulerName("scx_flash"), SchedulerName("scx_johns")
CPU, WEB, DISK = Workload("cpu"), Workload("web+blender"), Workload("disk")
FILES = {"scx_rusty": "r1 on 6.18.1-john, CPU", "scx_flash": "f1 on 6.18.1-john, CPU"}
STAND = Stand(kernel="6.18.1-john", versions=FILES)
HERE = Here(asa_version="1", machine="CPU", learn=Learn.ON, stand=STAND)
DAY_NS = 86_400 * 10**9


def table(**rankings):
    """Of what may be tried: names, or whole entries."""
    made = {
        Workload(name): tuple(
            one if isinstance(one, Entry) else Entry(scheduler=one, why="an opinion") for one in ranking
        )
        for name, ranking in rankings.items()
    }
    return MappingTable(path="/home/john/t.yaml", machine="m", provenance="p", rankings=made)


def of(*asked, ranked=None, here=HERE, **account):
    return proof.of(Learning(asked=asked, account=Account(**account)), ranked, here)


def answers(found):
    return {one.use: one.answer for one in found.uses}


def test_nothing_tried_is_not_yet_known():
    found = of(ranked=table(cpu=["scx_rusty", "eevdf"]))
    assert (found.answer, found.uses) == (Answer.NOT_YET, ())
    assert found.sentence == "not yet known: nothing was tried on this machine so far"


def test_better_in_one_use_is_better():
    worse = tried(FLASH, Verdict.WORSE, use=DISK, effect=Effect(share=-0.3, low=-0.5, high=-0.1))
    found = of(tried(RUSTY), worse, ranked=table(cpu=["scx_rusty", "eevdf"], disk=["scx_flash", "eevdf"]))
    assert found.sentence == (
        "better: for 1 of 2 uses another scheduler is better here; "
        "for 1 all that may be tried was tried, and nothing is better"
    )
    assert answers(found) == {"cpu": Answer.BETTER, "disk": Answer.NO_DIFFERENCE}
    assert [one.serves for one in found.uses] == ["scx_rusty", "eevdf"]
    (one,) = found.uses[0].found
    assert (one.effect, one.low, one.high, one.runs, one.tried_s, one.switches) == (0.2, 0.1, 0.3, 9, 180.0, 14)
    assert proof.words(one) == (
        "scx_rusty against eevdf: better, saves +20% of the wait (+10% to +30%), 9 pairs, 180 s under it, 14 switches"
    )


def test_while_there_is_more_to_try_nothing_is_said_to_make_no_difference():
    alike = tried(RUSTY, Verdict.ALIKE)
    ranked = table(cpu=["scx_rusty", "scx_flash", "eevdf"])
    found = of(alike, ranked=ranked)
    assert (found.answer, found.uses[0].following) == (Answer.NOT_YET, "scx_flash")
    both = of(alike, tried(FLASH, Verdict.ALIKE), ranked=ranked)
    assert (both.answer, both.uses[0].following) == (Answer.NO_DIFFERENCE, "")
    begun = of(alike, tried(FLASH, None), ranked=ranked)
    assert (begun.answer, begun.uses[0].following) == (Answer.NOT_YET, "scx_flash")


def test_who_is_not_installed_or_not_wanted_is_not_waited_for():
    alike, ranked = tried(RUSTY, Verdict.ALIKE), table(cpu=["scx_rusty", "scx_flash", "eevdf"])
    without = msgspec.structs.replace(Learning(asked=(alike,)), said=(Said(use=CPU, candidate=FLASH, yes=False),))
    assert proof.of(without, ranked, HERE).answer is Answer.NO_DIFFERENCE
    files = {"scx_rusty": FILES["scx_rusty"]}
    here = Here(asa_version="1", machine="CPU", learn=Learn.ON, stand=Stand(kernel="", versions=files))
    assert of(alike, ranked=ranked, here=here).answer is Answer.NO_DIFFERENCE


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kernel": "6.17.0"}, "found on kernel 6.17.0, this is 6.18.1-john"),
        ({"versions": ("", "r0 on 6.18.1-john, CPU")}, "found with another file of scx_rusty, or on another machine"),
        ({"versions": ("", "r1 on 6.18.1-john, Other")}, "found with another file of scx_rusty, or on another machine"),
    ],
)
def test_what_is_of_another_time_or_machine_is_shown_and_counts_for_nothing(changes, why):
    found = of(tried(RUSTY, **changes), ranked=table(cpu=["scx_rusty", "eevdf"]))
    assert (found.answer, found.uses[0].serves, found.uses[0].following) == (Answer.NOT_YET, "eevdf", "scx_rusty")
    assert found.uses[0].found[0].aged == why
    assert proof.words(found.uses[0].found[0]).endswith(f"does not count: {why}")


def test_with_learning_off_what_was_found_does_not_serve():
    here = Here(asa_version="1", machine="CPU", learn=Learn.OFF, stand=STAND)
    found = of(tried(RUSTY), ranked=table(cpu=["scx_rusty", "eevdf"]), here=here)
    assert (found.learn, found.answer, found.uses[0].serves) == ("off", Answer.BETTER, "eevdf")


@pytest.mark.parametrize(
    ("low", "high", "verdict", "answer"),
    [
        (0.02, 0.1, "better", Answer.BETTER),
        (-0.02, 0.1, "alike", Answer.NOT_YET),  # it is chosen, and asked about against eevdf
        (-0.2, -0.1, "worse", Answer.NO_DIFFERENCE),
        (None, None, "", Answer.NOT_YET),
    ],
)
def test_what_a_calibration_measured_here_is_told_by_its_interval(low, high, verdict, answer):
    effect = None if low is None else (low + high) / 2
    said = Evidence(ground="measured", effect=effect or 0.01, low=low, high=high, runs=6, source="asa calibrate")
    entry = Entry(scheduler="scx_rusty", why="measured", evidence=said)
    settled = () if answer is Answer.BETTER else (tried(RUSTY, Verdict.ALIKE),)
    found = of(*settled, ranked=table(cpu=[entry, "eevdf"]))
    one = found.uses[0].found[-1]
    assert (one.by, one.verdict, one.runs, one.of) == ("calibration", verdict, 6, "score")
    if effect is None or effect > 0:  # else it is not chosen, and what was tried against eevdf says all
        assert found.uses[0].serves == "scx_rusty"
    assert found.answer is answer
    assert of(ranked=replace(table(cpu=[entry, "eevdf"]), where=Ground.LIKE)).uses == ()


def test_uses_of_two_names_are_one():
    kind = tried(RUSTY, use=Workload("browse+render"))
    found = of(tried(FLASH, Verdict.ALIKE, use=WEB), kind)
    assert [(one.use, len(one.found)) for one in found.uses] == [("web+blender", 2)]


def test_what_it_cost():
    since = 3 * DAY_NS + 5
    found = of(tried(RUSTY), tried(FLASH, Verdict.WORSE), watched_s=7200.0, tried_s=360.0, since_ns=since)
    assert (found.since_ns, found.watched_s, found.tried_s, found.switches) == (since, 7200.0, 360.0, 28)


def test_strangers_read_nothing_of_ones_own():
    own_use, of_mine = Workload("johns thesis"), tried(MINE, use=Workload("johns thesis"), words="John's call is on")
    old = tried(RUSTY, kernel="6.17.0-acme", use=WEB)
    render = Workload("render")
    known = tried(SchedulerName("scx_flash:fast"), in_force=RUSTY, use=render)
    secret = tried(SchedulerName("scx_flash:johns"), use=render)
    at = 20 * DAY_NS + 7
    found = of(of_mine, old, known, secret, ranked=table(render=["scx_flash:fast", "eevdf"]), since_ns=at)
    safe = proof.redacted(found, {"scx_rusty": (), "scx_flash": ("fast",)})
    text = wire.json_text(safe)
    assert not [word for word in ("john", "John", "acme", str(own_use), "/home", "20000000") if word in text]
    assert [one.use for one in safe.uses] == ["use 1", "web+blender", "render"]
    assert [one.scheduler for use in safe.uses for one in use.found] == [
        "scheduler 1",
        "scx_rusty",
        "scx_flash:fast",
        "scheduler 2",
    ]
    assert (safe.kernel, safe.uses[1].found[0].kernel, safe.since_ns) == ("6.18.1", "6.17.0", 20 * DAY_NS)
    assert all(one.at_ns % DAY_NS == 0 for use in safe.uses for one in use.found)
    assert (safe.answer, safe.sentence, safe.machine) == (found.answer, found.sentence, "CPU")
    assert msgspec.json.decode(text)["uses"][0]["found"][0]["effect"] == 0.2


def test_a_journal_alone_says_who_was_proved():
    found = of(tried(RUSTY), tried(FLASH, in_force=RUSTY))
    assert (found.uses[0].serves, found.answer) == ("scx_flash", Answer.BETTER)
    assert of(tried(RUSTY, Verdict.ALIKE)).uses[0].serves == str(EEVDF)
