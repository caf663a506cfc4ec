# SPDX-License-Identifier: GPL-2.0-only
"""The rules on source: each planted fault is found by its rule, and a sound scheduler has none."""

import pytest

from calibration.verify import corpus, paths, source
from calibration.verify.program import Program, SourceError
from calibration.verify.report import Level
from scenarios.lab.starver import build

OBJECT_ALONE = {"name", "other-program", "not-in-kernel", "map-memory", "license"}


def faults(text, **given):
    return {one.rule for one in source.check(text, composed=True, **given) if one.level is Level.FAULT}


def test_the_good_one_has_neither_fault_nor_doubt():
    assert list(source.check(corpus.good(), composed=True)) == []


@pytest.mark.parametrize("planted", corpus.planted(), ids=lambda one: one.name)
def test_a_planted_fault_is_found_by_its_rule_and_no_other(planted):
    expected = set() if planted.rule is None or planted.rule in OBJECT_ALONE else {planted.rule}
    assert faults(planted.source) == expected


def test_there_are_enough_of_them():
    names = [one.name for one in corpus.planted()]
    assert len(set(names)) == len(names) >= 40
    assert sum(name.startswith("names-") for name in names) == 8


def test_the_corpus_can_be_loaded_without_a_loader():
    """No loader sets the constants of the kernel's headers, so the kernel's own enumeration has to stand."""
    source = corpus.loadable(corpus.good())
    assert source.count("#undef SCX_DSQ_LOCAL\n") == 1
    assert source.index("#include") < source.index("#undef SCX_SLICE_DFL") < source.index("#define SLICE_NS")


def test_the_laboratorys_starver_waits_too_long():
    text = build._SOURCES[0].read_text()
    assert "age-limit" in faults(text)


@pytest.mark.parametrize("constant", ["switch_partial", "ORDER == ORDER_FIFO"])
def test_a_constant_keeps_two_orders_apart(constant):
    both = f"\tif ({constant})\n\t\tscx_bpf_dsq_insert(p, PLAIN, SLICE_NS, enq_flags);\n\telse\n\t"
    text = corpus.good().replace("\tscx_bpf_dsq_insert_vtime(", f"{both}\tscx_bpf_dsq_insert_vtime(")
    assert faults(text) == set()


def test_a_queue_that_the_loader_empties_is_no_fault():
    (one,) = (one for one in corpus.planted() if one.name == "pushed-and-never-popped")
    assert faults(one.source, loader="bpf_map_lookup_and_delete_elem(fd, NULL, &pid);") == set()


def test_a_timeout_may_lack_where_it_was_not_made_here():
    text = corpus.good().replace(".timeout_ms	= 5000,", "")
    assert faults(text) == {"timeout"}
    assert [one.level for one in source.check(text)] == [Level.NOTE]


@pytest.mark.parametrize("text", ["", "int main(void) { return 0; }", "\x00\xff{{{{", "struct sched_ext_ops x;"])
def test_what_is_no_scheduler_is_said(text):
    with pytest.raises(SourceError, match="no struct sched_ext_ops"):
        Program.parse(text)


def test_what_cannot_be_followed_is_a_doubt(monkeypatch):
    monkeypatch.setattr(paths, "_MOST_WAYS", 50)
    many = "".join(
        f"\tif (p->pid > {n})\n\t\tscx_bpf_kick_cpu({n}, 0), scx_bpf_dsq_insert(p, {n}, 1, 0);\n" for n in range(7)
    )
    text = corpus.good().replace("\tcount(1);\n", many)
    assert "not-followed" in {one.rule for one in source.check(text) if one.level is Level.DOUBT}


def test_values_of_expressions():
    program = Program.parse(corpus.good() + "enum { ONE = 1, TWO, SIX = TWO * 3 };\n")
    function = program.callback("enqueue")
    assert program.values("SIX + ONE", function) == {"7"}
    assert program.values("task->queue", function) == {"0", "1"}
    assert program.values("SCX_DSQ_LOCAL_ON | 3", function) == {"SCX_DSQ_LOCAL_ON"}
    assert program.values("p->pid", function) == {"~->pid"}
