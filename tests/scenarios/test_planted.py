# SPDX-License-Identifier: GPL-2.0-only
"""Planted tables switch on the machine that they are of, and say that nobody measured them."""

import itertools

from asa import host
from asa.core.decision import EEVDF, Workload
from asa.decide import table
from asa.decide.grounds import Ground
from asa.host import Facts
from scenarios import demo, planted

KNOWN = {"eevdf": ("default",), "scx_simple": ("default",), "scx_bpfland": ("default", "powersave")}
WEB = Workload("web")


def test_here_they_switch_and_elsewhere_they_may_only_be_tried(tmp_path):
    path = tmp_path / "t.yaml"
    saving = planted.entry("scx_bpfland:powersave", efficient=True)
    planted.write(path, {"web": ["scx_simple", "eevdf", saving]})
    here = table.load(path, KNOWN, here=host.facts())
    assert (here.wanted(WEB, ()), here.wanted(WEB, (), saver=True)) == ("scx_simple", "scx_bpfland:powersave")
    assert here.ranking(WEB)[0].evidence.source == "planted"
    other = table.load(path, KNOWN, here=Facts(cpu_model="Another CPU", cpus=64))
    assert other.wanted(WEB, ()) == EEVDF
    assert [one.ground for one in other.offers(WEB)] == [Ground.ELSEWHERE, Ground.OPINION]


def test_one_that_names_its_cpus_alone_is_of_no_machine(tmp_path):
    path = tmp_path / "t.yaml"
    planted.write(path, {"web": ["scx_simple"]}, Facts(cpus=host.facts().cpus))
    assert table.load(path, KNOWN, here=host.facts()).where is not Ground.HERE


def test_every_phase_of_the_demonstration_wants_what_its_table_has_first():
    mapping = planted.into(table.MappingTable(path="t", machine="m", provenance="p", rankings={}), demo.SERVED)
    wanted = [mapping.wanted(label, ()) for label in demo.SCRIPT]
    assert wanted == [demo.SERVED[label][0] for label in demo.SCRIPT]
    assert all(one != other for one, other in itertools.pairwise(wanted))  # each phase switches
