# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the base of programs: what is kept, and that each is measured or says why not."""

import json

from asa.core.regime import Load
from calibration import kept
from calibration.knowledge import __main__ as command
from calibration.knowledge import costs, courses, light, loads
from calibration.knowledge.benchmark import KEPT, Bench, KnowledgeFigure
from calibration.knowledge.loads import Pair
from calibration.trials.recorded import journals


def test_each_figure_has_a_way_to_be_measured_and_is_kept_or_says_why_not():
    assert Bench().counts().keys() == set(KnowledgeFigure)
    found = kept.read(KEPT)
    assert found is not None
    assert found.values.keys() == set(KnowledgeFigure)
    assert {name for name, value in found.values.items() if value is None} == set(found.reasons)


def test_figures_are_printed_of_what_is_kept(capsys):
    assert command.main(["--only", "recognise_known_program_s,regime_gain_pct"]) == 0
    known, gain = map(json.loads, capsys.readouterr().out.splitlines())
    assert (known["name"], known["ok"]) == ("recognise_known_program_s", True)
    assert (gain["name"], gain["ok"]) == ("regime_gain_pct", False)  # so loads are no dimension of the table


def test_a_full_base_is_as_large_as_it_can_be():
    full = costs.full()
    assert len(full) == costs.knowledge.MOST_PROGRAMS
    assert {len(one.past) for one in full.values()} == {costs.knowledge.MOST_PAST}


def test_recorded_sequences_have_the_programs_of_their_spans_at_work():
    class Blind:
        classes = ()

        def judge(self, _):
            return None

    found = courses.read(Bench()._journals, Blind())
    assert len(found) == 6
    for course in found:
        for span, played in zip(course.spans, course.played, strict=True):
            there = [
                {one.program for one in tick.sample.programs.programs}
                for tick in course.ticks
                if span.start_ns + 3 * 10**9 < tick.sample.monotonic_ns < span.end_ns
            ]
            seen = sum(played <= one for one in there)
            assert seen >= 0.9 * len(there), (course.name, span.workload)


def test_waits_are_felt_more_often_the_heavier_the_load():
    shares = {load: hits / ticks for load, (hits, ticks) in light.felt(journals()[-1:]).items()}
    assert shares[Load.LIGHT] < shares[Load.MIXED] < shares[Load.HEAVY]


def test_in_a_light_load_nothing_is_ordered_that_would_be_without_the_gate():
    kept_few = journals()[-1:]
    ordered, ticks = light.orders(kept_few)
    assert (ordered, ticks > 0) == (0, True)
    assert light.orders(kept_few, gate=False)[0] > 0


def pair(background, load, **score):
    return Pair(interactive="game", background=background, load=load, score=score)


def test_loads_as_a_dimension_gain_where_the_best_scheduler_follows_them_and_lose_where_it_does_not():
    mixed = [pair(name, Load.MIXED, one=0.9, two=0.6) for name in ("disk", "llm")]
    heavy = [pair(name, Load.HEAVY, one=0.4, two=0.8) for name in ("kernel", "blender")]
    gain, others = loads.gain_pct([*mixed, *heavy])
    assert gain > 0.0
    assert others == 4  # the others together speak for the other one
    assert loads.gain_pct(mixed) == (0.0, 0)
