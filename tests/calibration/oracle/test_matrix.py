# SPDX-License-Identifier: GPL-2.0-only
"""The plan is all that it has to be, in an order of which each beginning tells something, and its cost is learnt."""

from itertools import pairwise

import msgspec
import pytest
from matrix_rounds import rounds
from switchback_runs import run

from asa import paths
from asa.act.portfolio import Portfolio
from asa.core.errors import AsaError
from asa.decide import fingerprint
from calibration.controllers.columns import Given
from calibration.oracle import mapping, matrix, shapes
from calibration.switchback import play
from calibration.switchback.samples import Orders
from scenarios.catalogue import BACKGROUND, INTERACTIVE, PAIRS


def modes():
    return Portfolio.load(paths.manifest(), paths.default().schedulers).modes()


def test_the_whole_matrix_is_every_pair_and_single_with_each_scheduler_and_mode_on_each_machine(tmp_path):
    planned = matrix.works(matrix.STEPS, tmp_path, modes())
    ids = [work.id for _, work in planned]
    assert len(set(ids)) == len(ids)
    played = {(work.machine.name, work.orders.label, name) for _, work in planned for name in work.orders.schedulers}
    for name, each in modes().items():
        if name == "scx_nest":  # nowhere to be had
            continue
        for mode in each:
            whole = name if mode == "default" else f"{name}:{mode}"
            missing = [
                (machine, one.label)
                for machine in matrix.MACHINES
                for one in PAIRS
                if (machine, one.label, whole) not in played
            ]
            assert not missing, whole
    alone = {label for _, label, _ in played if "+" not in label}
    assert alone == {*INTERACTIVE, *BACKGROUND}
    assert {work.machine.tick_hz for _, work in planned} == {250, 1000}
    assert len({work.machine.cpus for _, work in planned}) >= 4
    assert sum(shapes.hybrid(shapes.machine(name)) for name in matrix.MACHINES) == 2


def test_agents_are_given_their_model_and_play_by_themselves(tmp_path):
    given = Given(model="/a/model.npz", code="abc")
    planned = matrix.works(matrix.steps("first,agent,quick-agent"), tmp_path, modes(), given=given)
    agents = [work for step, work in planned if step.name != "first"]
    assert {work.orders.schedulers for work in agents} == {("agent", "agent:fresh"), ("agent",)}
    assert all(work.orders.given == given for work in agents)
    assert all(work.orders.given == Given() for step, work in planned if step.name == "first")
    assert "quick" not in {step.name for step in matrix.steps("all")}
    names = "eevdf", "agent"
    mixed = play.Options(machines=(agents[0].machine,), scenarios=PAIRS[:1], schedulers=names)
    with pytest.raises(AsaError, match="agent decides, and takes turns with its like alone"):
        play.planned(mixed, tmp_path)


def test_each_beginning_of_a_step_is_a_picture_of_the_whole(tmp_path):
    (step,) = matrix.steps("first")
    labels = [work.orders.label.split("+") for _, work in matrix.works((step,), tmp_path, modes())]
    for first in range(0, 28, 4):
        assert {front for front, _ in labels[first : first + 4]} == set(INTERACTIVE)
    assert {back for _, back in labels[:8]} == set(BACKGROUND)


def test_the_small_step_costs_two_hours_and_is_none_of_the_runs_of_others(tmp_path):
    planned = matrix.works(matrix.steps("small,classic"), tmp_path, modes())
    assert sum(matrix.expected_s(work) for step, work in planned if step.name == "small") < 2 * 3600
    labels = {work.orders.label for step, work in planned if step.name == "small"}
    assert {label.split("+")[0] for label in labels} == set(INTERACTIVE)
    others = {work.id for step, work in matrix.works(matrix.STEPS, tmp_path, modes()) if step.name != "small"}
    assert not others & {work.id for step, work in planned if step.name == "small"}
    whole = [work for step, work in planned if step.name == "classic"]
    assert {work.orders.label for work in whole} == labels
    assert {work.orders.schedulers for work in whole} == {("eevdf",), ("scx_simple",), ("scx_flash",)}
    assert {work.orders.seed for _, work in planned} == {3}


def test_a_fresh_agent_has_three_hours_and_each_run_goes_on_with_the_one_before(tmp_path):
    planned = matrix.works(matrix.steps("hours,learnt,small"), tmp_path, modes(), given=Given(model="/a/model.npz"))
    hours = [work for step, work in planned if step.name == "hours"]
    assert sum(work.orders.lasts_s for work in hours) == 3 * 3600
    assert len({work.orders.label for work in hours}) == 4
    assert hours[0].orders.given.state == ""
    for before, after in pairwise(hours):
        assert after.orders.given.state == str(tmp_path / "states" / before.id)
        assert after.orders.given.keep == f"{after.orders.out}/state"
        assert after.orders.given.model == "/a/model.npz"
    learnt = [work for step, work in planned if step.name == "learnt"]
    assert {work.orders.given.state for work in learnt} == {str(tmp_path / "states" / hours[-1].id)}
    assert {work.orders.given.keep for work in learnt} == {""}
    cells = {(work.machine.name, work.orders.label, work.orders.seed) for step, work in planned if step.name == "small"}
    assert {(work.machine.name, work.orders.label, work.orders.seed) for work in learnt} <= cells
    assert 2 * 3600 * 4 < sum(map(matrix.expected_s, hours)) < 3 * 3600 * 4  # of 4 CPUs


def test_what_is_not_installed_is_left_out_and_a_step_that_is_none_is_refused(tmp_path):
    planned = matrix.works(matrix.steps("first,lavd"), tmp_path, {"eevdf": ("default",), "scx_flash": ("default",)})
    assert {work.orders.schedulers for _, work in planned} == {("eevdf", "scx_flash")}
    assert matrix.works(matrix.steps("first"), tmp_path, modes(), machines=["vm122"]) == []
    with pytest.raises(AsaError, match="the steps are small, classic, first, shapes"):
        matrix.steps("frist")


def test_a_scenario_stays_as_hard_as_it_was_played(tmp_path):
    kept = run(orders=replace_orders(label="office+archive", crowd=8.0, effort=6.0))
    planned = matrix.works(matrix.steps("first,others"), tmp_path, modes(), [kept], ["vm120"])
    hard = {(work.orders.crowd, work.orders.effort) for _, work in planned if work.orders.label == "office+archive"}
    assert hard == {(8.0, 6.0)}


def replace_orders(**changes):
    whole = {"label": "web+disk", "seed": 1, "schedulers": ("eevdf", "scx_a"), "rounds": 4, "out": ""}
    return Orders(**(whole | changes))


def test_what_is_left_costs_what_kept_runs_took(tmp_path):
    planned = matrix.works(matrix.steps("first"), tmp_path, modes())
    (before,) = matrix.costs(planned, [])
    assert (before.runs, before.played) == (28, 0)
    assert 28 * 300 < before.left_s < 28 * 4000
    one = planned[0][1]
    kept = run(orders=one.orders, host_cpu_s=3.0 * matrix.expected_s(one))
    (after,) = matrix.costs(planned, [msgspec.structs.replace(kept, machine="vm120")])
    assert after.played == 1
    assert after.left_s == pytest.approx(3.0 * before.left_s * 27 / 28, rel=0.01)


def test_a_shape_is_the_nearest_of_a_machine_of_that_shape():
    tables = [(shapes.facts(shapes.machine(name)), name) for name in matrix.MACHINES]
    for there, name in tables:
        here = replace_facts(there, cpu_model="AMD Ryzen 7 7840U", memory_gb=32.0)
        assert fingerprint.distance(there, here) < fingerprint.NEUTRAL, name
        assert fingerprint.nearest(tables, here) == name
    assert shapes.words(shapes.machine("vm120-250hz")) == "4 CPUs, 250 Hz"


def replace_facts(there, **changes):
    return msgspec.structs.replace(there, name="here", **changes)


def test_a_table_has_leads_with_intervals_and_ends_with_the_kernels_own():
    rows = rounds(
        {"web+disk": {"scx_a": 10.0, "scx_b:fifo": 5.0, "scx_c": -5.0}, "web+llm": {"scx_a": -1.0}},
        noise=0.008,
        itself=True,
    )
    file = mapping.table("vm120", mapping.leads(rows)["vm120"], rows, "the command")
    first, second, own = file.classes["web+disk"]
    assert [one.name for one in (first, second, own)] == ["scx_a", "scx_b:fifo", "eevdf"]
    assert first.evidence.effect == pytest.approx(0.06, abs=0.005)
    assert first.evidence.low < first.evidence.effect < first.evidence.high
    assert first.evidence.runs == 4
    assert [one.name for one in file.classes["web+llm"]] == ["eevdf"]
    assert (file.measured.tier, file.measured.clock, file.measured.tick_hz) == ("lab", "parallel", 1000)
    assert file.measured.schedulers["scx_a"] == "1.1.4"
    few = [row for row in rows if row.round < 3]
    assert mapping.table("vm120", mapping.leads(few)["vm120"], few, "c") is None


def test_the_safest_is_worse_on_no_machine():
    leads = {
        "web+disk": {"scx_a": {"vm120": 30.0, "vm122": -10.0}, "scx_b": {"vm120": 3.0, "vm122": 4.0}},
        "web+llm": {"scx_a": -3.0, "scx_b": {"vm120": 9.0, "vm122": -9.0}},
    }
    rows = rounds(leads, machines=("vm120", "vm122"), noise=0.001, itself=True)
    assert mapping.safest(mapping.leads(rows)) == {"web+disk": "scx_b", "web+llm": "eevdf"}
    name, least = mapping.default_classes(mapping.leads(rows))["web+disk"]
    assert (name, least) == ("scx_b", pytest.approx(0.018, abs=0.002))
