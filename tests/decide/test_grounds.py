# SPDX-License-Identifier: GPL-2.0-only
"""What an entry rests on, and what may be done with it."""

import pytest

from asa.decide import grounds
from asa.decide.fingerprint import Machine
from asa.decide.grounds import Evidence, Ground
from asa.decide.trial_budget import Asked
from asa.decide.trial_pairs import Effect, Verdict
from asa.host import Facts

HERE = Facts(cpu_model="Test CPU 7", cpus=8, cores=4, smt=True, caches=1)


def measured(effect=0.05, low=None, high=None, **more):
    return Evidence(ground="measured", effect=effect, low=low, high=high, runs=6, **more)


@pytest.mark.parametrize(
    ("facts", "lab", "where"),
    [
        ({"cpu_model": "Test CPU 7", "cpus": 8}, False, Ground.HERE),
        ({"cpu_model": "Test CPU 7", "cpus": 8}, True, Ground.HERE),  # the lab's guest itself
        ({"cpu_model": "Test CPU", "cpus": 8}, False, Ground.LIKE),  # a family is no machine
        ({"cpu_model": "Test CPU 7", "cpus": 8, "caches": 2}, False, Ground.LIKE),
        ({"cpus": 8}, False, Ground.LIKE),  # as many CPUs make no machine
        ({"cpu_model": "Other", "cpus": 64}, False, Ground.ELSEWHERE),
        ({}, False, Ground.ELSEWHERE),
        ({"cpu_model": "Test CPU", "cpus": 8}, True, Ground.LAB),
        ({"cpu_model": "QEMU TCG CPU version 2.5+", "cpus": 8, "cores": 4, "smt": True}, False, Ground.LAB),
    ],
)
def test_where_follows_from_the_machine_alone(facts, lab, where):
    assert grounds.where(Machine(name="there", **facts), HERE, lab=lab) is where


def test_one_guest_of_the_lab_is_like_another():
    guest = {"cpu_model": "QEMU TCG CPU version 2.5+", "cores": 4, "smt": False, "caches": 1}
    there = Machine(name="prototype", cpus=4, memory_gb=2.0, **guest)
    assert grounds.where(there, Facts(cpus=4, memory_gb=4.0, **guest), lab=True) is Ground.LIKE


@pytest.mark.parametrize(
    ("evidence", "ground", "may"),
    [
        (measured(), Ground.HERE, True),
        (measured(-0.01), Ground.HERE, False),  # measured, and worse
        (measured(0.05, -0.01, 0.11), Ground.LIKE, False),
        (measured(0.05, 0.01, 0.09), Ground.LIKE, True),
        (measured(), Ground.LIKE, False),  # no interval
        (measured(0.05, 0.01, 0.09), Ground.LAB, False),
        (measured(0.05, 0.01, 0.09), Ground.ELSEWHERE, False),
        (Evidence(ground="published", effect=0.3, source="s", machine="m", runs=9), Ground.PUBLISHED, False),
        (grounds.OPINION, Ground.OPINION, False),
        (None, Ground.OPINION, False),
    ],
)
def test_only_what_was_measured_here_or_surely_on_a_like_machine_may_be_chosen(evidence, ground, may):
    assert grounds.choosable(evidence, ground) is may
    assert grounds.of(evidence, ground) is ground


def test_the_words_say_ground_figures_and_source():
    told = measured(0.05, 0.01, 0.09)
    assert grounds.words(told, Ground.HERE) == "measured here: +0.050 score against eevdf (+0.010 to +0.090), 6 runs"
    published = Evidence(ground="published", source="pull request 3516", machine="16 threads", runs=1)
    assert grounds.words(published, Ground.PUBLISHED) == "published: 1 run, 16 threads, pull request 3516"
    assert grounds.words(None, Ground.OPINION) == grounds.words(grounds.OPINION, Ground.OPINION) == "opinion"


@pytest.mark.parametrize(
    "bad", [{"effect": 1.5}, {"effect": float("nan")}, {"low": 0.2}, {"high": 0.01}, {"runs": None}]
)
def test_figures_that_cannot_be_are_faults(bad):
    told = Evidence(**{"ground": "measured", "effect": 0.05, "runs": 6, **bad})
    assert len(list(grounds.faults(told, head=True))) == 1
    assert not list(grounds.faults(measured(), head=True))


def test_a_trial_that_was_made_here_is_evidence():
    asked = Asked(
        use="web",
        in_force="eevdf",
        candidate="scx_flash",
        verdict=Verdict.BETTER,
        pairs=(),
        effect=Effect(share=0.21, low=0.1, high=0.3),
        count=9,
        kernel="6.18.2",
        versions=("", "1.1.4"),
    )
    told = asked.evidence
    assert (told.ground, told.of, told.than, told.runs) == ("measured", "wait", "eevdf", 9)
    assert (told.kernel, told.version, told.source) == ("6.18.2", "1.1.4", "asa trial")
    assert (told.effect, told.low, told.high) == (0.21, 0.1, 0.3)
    assert not list(grounds.faults(told, head=False))
    assert grounds.choosable(told, Ground.HERE)
