# SPDX-License-Identifier: GPL-2.0-only
"""How far machines are from each other: what is nearest is chosen, what is too far is not."""

import math

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asa.decide import fingerprint
from asa.decide.fingerprint import NEUTRAL, Machine, differences, distance, nearest
from asa.host import Facts, Kind

LAPTOP = Facts(
    cpu_model="AMD Ryzen 7 7840U w/ Radeon 780M Graphics",
    cpus=16,
    cores=8,
    smt=True,
    kinds=(Kind(cores=8, max_mhz=5132),),
    caches=1,
    memory_gb=32.9,
    kernel="6.18.5-amd64",
)


def other(**changes):
    return fingerprint.machine("other", msgspec.structs.replace(LAPTOP, **changes))


def test_the_same_machine_is_no_distance_away():
    assert distance(other(), LAPTOP) == pytest.approx(0.0, abs=1e-12)
    assert differences(other(), LAPTOP) == ()
    assert differences(other(kernel="5.10", memory_gb=31.0), LAPTOP) == ()


def test_what_another_machine_is_made_of_is_told():
    hybrid = other(
        cpu_model="Intel",
        cpus=8,
        smt=False,
        kinds=(Kind(cores=4, max_mhz=4700), Kind(cores=4, capacity=446)),
        memory_gb=16.0,
    )
    assert differences(hybrid, LAPTOP) == (
        "cpu_model Intel there, AMD Ryzen 7 7840U w/ Radeon 780M Graphics here",
        "cpus 8 there, 16 here",
        "smt no there, yes here",
        "kinds 4 of 4700 MHz + 4 of capacity 446 there, 8 of 5132 MHz here",
        "memory_gb 16 there, 32.9 here",
    )


@pytest.mark.parametrize(
    ("changes", "near"),
    [
        ({"cpu_model": "AMD Ryzen 7 7840HS w/ Radeon 780M Graphics", "memory_gb": 16.4, "kernel": "6.17.2"}, True),
        ({"cpu_model": "AMD Ryzen"}, True),
        ({"cpu_model": "AMD Ryzen 9 7950X", "cpus": 32, "cores": 16, "caches": 2, "memory_gb": 64.0}, False),
        ({"cpu_model": "QEMU TCG CPU version 2.5+", "cpus": 2, "cores": 2, "smt": False, "memory_gb": 2.1}, False),
    ],
)
def test_near_enough_to_be_of_use(changes, near):
    assert (distance(other(**changes), LAPTOP) < NEUTRAL) == near
    assert (nearest([(other(**changes), "it")], LAPTOP) == "it") == near


def test_of_two_that_fit_the_one_that_says_more_is_nearer():
    family, model = Machine(name="a", cpu_model="AMD Ryzen 7"), Machine(name="b", cpu_model="AMD Ryzen 7", cpus=16)
    assert nearest([(family, "family"), (model, "model")], LAPTOP) == "model"
    fewer = Machine(name="b", cpu_model="AMD Ryzen 7", cpus=4)
    assert nearest([(family, "family"), (fewer, "fewer")], LAPTOP) == "family"


def test_series_of_kernels():
    releases = ("6.18.5-amd64", "6.18-rc3", "7.2.12+deb13", "6.18", "next", "6.18~rc4-amd64", "6.18rc1+", "6.x")
    told = ["6.18", "6.18", "7.2", "6.18", "next", "6.18", "6.18", "6.x"]
    assert [fingerprint.series(one) for one in releases] == told


def test_boost_turned_off_makes_no_other_machine():
    slow = msgspec.structs.replace(LAPTOP, kinds=(Kind(cores=8, max_mhz=3300),))
    mixed = msgspec.structs.replace(LAPTOP, kinds=(Kind(cores=2, max_mhz=5132), Kind(cores=6, max_mhz=3500)))
    assert differences(other(), slow) == differences(fingerprint.machine("m", mixed), slow) == ()
    for changes in (
        {"cores": 6},
        {"cpu_model": "AMD Ryzen 7"},
        {"kinds": (Kind(cores=2, capacity=1024), Kind(cores=6, capacity=400))},
    ):
        assert any(why.startswith("kinds") for why in differences(other(**changes), slow)), changes
    arm = msgspec.structs.replace(LAPTOP, cpu_model="aarch64")  # of which there are many
    assert differences(fingerprint.machine("m", arm), msgspec.structs.replace(slow, cpu_model="aarch64"))


def test_the_beginning_of_a_word_is_no_family():
    here = Facts(cpu_model="13th Gen Intel(R) Core(TM) i7-13700K", cpus=24)
    assert differences(Machine(name="m", cpu_model="13th Gen Intel(R) Core(TM) i7-13700", cpus=24), here)
    assert differences(Machine(name="m", cpu_model=""), here)
    for family in ("13th Gen Intel(R)", "13th Gen ", here.cpu_model):
        assert differences(Machine(name="m", cpu_model=family), here) == ()


def test_what_no_machine_has_is_far_away_and_no_error():
    assert distance(Machine(name="m", memory_gb=1e-323), LAPTOP) > NEUTRAL
    assert differences(Machine(name="m", memory_gb=1e-323), LAPTOP)


words = st.text(st.sampled_from("AB 7"), max_size=6)
kinds = st.lists(st.builds(Kind, cores=st.integers(1, 64), max_mhz=st.none() | st.integers(1, 6000)), max_size=3).map(
    tuple
)
machines = st.builds(
    Facts,
    cpu_model=st.none() | words,
    cpus=st.none() | st.integers(1, 1_000_000),
    cores=st.none() | st.integers(1, 1_000_000),
    smt=st.none() | st.booleans(),
    kinds=st.none() | kinds,
    caches=st.none() | st.integers(1, 64),
    memory_gb=st.none() | st.floats(0.1, 1e6),
    kernel=st.none() | words,
)


@given(machines, machines)
@example(Facts(cpu_model=" ", kernel=""), Facts(cpu_model="", kernel=""))
def test_distances_of_any_two(one, two):
    there = fingerprint.machine("one", one)
    away = distance(there, two)
    assert math.isfinite(away)
    assert away >= -1e-12
    assert distance(there, one) <= NEUTRAL
    assert differences(there, one) == ()
    assert distance(fingerprint.machine("nothing", Facts()), two) == NEUTRAL


@given(machines, st.lists(machines, max_size=5), st.randoms())
def test_the_choice_is_the_nearest_and_does_not_depend_on_the_order(here, candidates, random):
    found = [(fingerprint.machine("m", facts), facts) for facts in candidates]
    best = nearest(found, here)
    ways = [distance(there, here) for there, _ in found]
    if best is None:
        assert all(way >= NEUTRAL for way in ways)
        return
    least = distance(fingerprint.machine("m", best), here)
    assert least == min(ways) < NEUTRAL
    random.shuffle(found)
    assert distance(fingerprint.machine("m", nearest(found, here)), here) == least


@given(machines, machines, st.sampled_from(Facts.__struct_fields__))
def test_a_fact_that_comes_to_agree_never_makes_it_farther(one, here, fact):
    value = getattr(here, fact)
    if value is None:
        return
    agreeing = msgspec.structs.replace(one, **{fact: value})
    there, nearer = fingerprint.machine("m", one), fingerprint.machine("m", agreeing)
    assert distance(nearer, here) <= distance(there, here) + 1e-12
