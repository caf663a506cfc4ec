# SPDX-License-Identifier: GPL-2.0-only
"""What the stages write: rankings and costs of this machine, beside what an older table of the same says."""

import dataclasses
import datetime

import msgspec
import pytest
from stage_players import FACTS, KERNEL, ToyPlayer

from asa.core.decision import EEVDF, Workload
from asa.decide import fingerprint, table
from asa.decide.table import Cost, Entry, MappingTable, Measured, TableFile
from calibration.scenarios.scores import played
from calibration.stages import campaign as stages
from calibration.stages import table as stages_table
from calibration.stages.best_arm import Verdict
from scenarios.application import Tier
from scenarios.catalogue import find
from scenarios.energy import Energy

NAMES = ("eevdf", "scx_a", "scx_b")
SLOW = {"scx_a": 0.8, "scx_b": 1.3}
MACHINE = fingerprint.machine("toy", FACTS)
MEASURED = Measured(
    date=datetime.date(2026, 11, 23),
    command="asa calibrate prototype",
    tier="lab",
    seed=1,
    kernel=KERNEL,
    schedulers={"scx_a": "1.0", "scx_b": "1.0"},
)


def mapping(classes=None, *, elsewhere="", measured=MEASURED, rest=None):
    return MappingTable(
        path="table.yaml",
        machine="toy",
        provenance="test",
        rankings={Workload(name): tuple(ranking) for name, ranking in (classes or {}).items()},
        measured=measured,
        elsewhere=elsewhere,
        rest=rest,
    )


def entry(name, score=None, **more):
    scheduler, _, mode = name.partition(":")
    return Entry(scheduler=scheduler, mode=mode or "default", why="test", score=score, **more)


def results(columns=NAMES, scenario="web+archive", repeats=3):
    scenarios = find(scenario)
    asked = stages.Asked(
        tier=Tier.LAB,
        scenarios=tuple(one.label for one in scenarios),
        schedulers=columns,
        repeats=repeats,
        seed=1,
        seconds=5.0,
        warm_up_s=1.0,
        cpus=4,
    )
    player = ToyPlayer(SLOW)
    return [player.result(trial) for trial in stages.make(asked, scenarios, "run").trials]


def trials(**more):
    return played("run", results(**more))


def written(file, tmp_path):
    """It can be written, and reads back."""
    path = tmp_path / "table.yaml"
    table.write(path, file)
    return table.read(path)


def test_the_first_table_ranks_what_was_played_and_its_applications(tmp_path):
    found = written(stages_table.first(trials(), None, mapping(), MACHINE, MEASURED), tmp_path)
    assert set(found.classes) == {"web+archive", "web", "archive", "idle"}
    assert [one.name for one in found.classes["web+archive"]] == ["scx_a", EEVDF, "scx_b"]
    assert [one.name for one in found.classes["idle"]] == [EEVDF]
    assert found.classes["web+archive"][0].runs == 3
    assert found.machine == MACHINE
    assert found.measured == MEASURED
    assert found.costs == {}


def test_who_is_for_battery_saver_stays_and_has_no_figures(tmp_path):
    saver = entry("scx_c:powersave", efficient=True)
    frugal = {"web": [entry("scx_b"), saver], "disk": [entry("scx_b", efficient=True)]}
    found = written(stages_table.first(trials(), None, mapping(frugal), MACHINE, MEASURED), tmp_path)
    ranked = found.classes["web+archive"]
    assert [one.name for one in ranked] == ["scx_a", EEVDF, "scx_b", "scx_c:powersave"]
    assert [one.efficient for one in ranked] == [False, False, True, True]
    assert ranked[-1].score is None


def test_what_an_older_table_of_the_same_machine_says_stays():
    older = stages_table.first(trials(scenario="office+video"), None, mapping(), MACHINE, MEASURED)
    older = msgspec.structs.replace(older, costs={"scx_a": Cost(switch_ms=1.0, overhead_pct=0.1, runs=1)})
    found = stages_table.first(trials(), older, mapping(), MACHINE, MEASURED)
    assert {"web+archive", "office+video"} <= set(found.classes)
    assert found.costs == older.costs


def test_it_says_which_campaigns_what_was_not_measured_now_is_of():
    """Stage 2 has its own date and command, and ranks nothing."""
    found = stages_table.first(trials(), None, mapping(), MACHINE, MEASURED)
    assert "Before that" not in found.provenance
    for number in range(6):
        later = msgspec.structs.replace(MEASURED, command=f"asa calibrate overhead --seed {number}")
        found = stages_table.with_costs({}, found, MACHINE, later)
        if number == 0:
            assert found.provenance.endswith(" Before that: 2026-11-23, `asa calibrate prototype`")
        again = stages_table.with_costs({}, found, MACHINE, later)  # a finished command, given again
        assert again.provenance == found.provenance
    assert [f"seed {n}`" in found.provenance for n in range(6)] == [False, False, True, True, True, False]


@pytest.mark.parametrize(
    ("machine", "changes"),
    [
        (msgspec.structs.replace(MACHINE, cpus=8), {}),
        (MACHINE, {"tier": "real"}),
        (MACHINE, {"clock": "parallel", "tick_hz": 1000}),
    ],
)
def test_of_another_machine_clock_or_of_stand_ins_nothing_stays(machine, changes):
    older = stages_table.first(trials(scenario="office+video"), None, mapping(), MACHINE, MEASURED)
    now = msgspec.structs.replace(MEASURED, **changes)
    found = stages_table.first(trials(), older, mapping(), machine, now)
    assert "office+video" not in found.classes
    assert "web+archive" in found.classes
    assert stages_table.kept(None, machine, now) is None


@pytest.mark.parametrize(
    ("changes", "aged"),
    [({"kernel": "7.2.0"}, {"scx_a", "scx_b", EEVDF}), ({"schedulers": {"scx_a": "2.0", "scx_b": "1.0"}}, {"scx_a"})],
)
def test_of_another_kernel_or_version_the_places_stay_and_no_figures(changes, aged):
    """After an update the night's order serves on; stage 3 plays anew who has lost his figures."""
    older = stages_table.first(trials(scenario="office+video"), None, mapping(), MACHINE, MEASURED)
    older = msgspec.structs.replace(older, costs={name: Cost(switch_ms=1.0, runs=1) for name in ("scx_a", "scx_b")})
    now = msgspec.structs.replace(MEASURED, **changes)
    found = stages_table.first(trials(), older, mapping(), MACHINE, now)
    then, ranking = older.classes["office+video"], found.classes["office+video"]
    assert [one.name for one in ranking] == [one.name for one in then]
    assert {one.name for one in ranking if one.score is None} == aged
    assert all(one.why.startswith("of another kernel or version: score") for one in ranking if one.score is None)
    assert found.classes["idle"] == older.classes["idle"]
    assert found.costs.keys() == {"scx_a", "scx_b"} - aged
    assert stages_table.loses(older, found)  # so that it is kept beside it
    again = stages_table.first(trials(), found, mapping(), MACHINE, msgspec.structs.replace(now, kernel="7.9.0"))
    assert not any("version: of another" in one.why for one in again.classes["office+video"])


@pytest.mark.parametrize("changes", [{"kernel": "7.2.0"}, {"schedulers": {"scx_a": "2.0", "scx_b": "1.0"}}])
def test_stage_two_after_an_update_leaves_the_order_and_all_costs_that_it_measured(changes):
    older = stages_table.first(trials(), None, mapping(), MACHINE, MEASURED)
    now = msgspec.structs.replace(MEASURED, **changes)
    found = stages_table.with_costs({"scx_a": Cost(switch_ms=1.0, runs=1)}, older, MACHINE, now)
    found = stages_table.with_costs({"scx_b": Cost(switch_ms=2.0, runs=1)}, found, MACHINE, now)
    assert found.costs.keys() == {"scx_a", "scx_b"}
    assert found.classes.keys() == older.classes.keys()
    assert [one.name for one in found.classes["web"]] == [one.name for one in older.classes["web"]]
    adapted = stages_table.refined(trials(repeats=1), found, mapping(), MACHINE, now, begun=found)
    assert adapted.costs == found.costs


@pytest.mark.parametrize("repeats", [1, 3])
def test_after_an_update_of_all_schedulers_a_single_block_is_learnt(repeats):
    """EEVDF's figures are the kernel's, and stay: eight runs of it do not outweigh the first new one of the others."""
    older = stages_table.first(trials(repeats=8), None, mapping(), MACHINE, MEASURED)
    now = msgspec.structs.replace(MEASURED, schedulers={"scx_a": "2.0", "scx_b": "2.0"})
    found = stages_table.refined(trials(repeats=repeats), older, mapping(), MACHINE, now, begun=older)
    runs = {one.name: one.runs for one in found.classes["web+archive"]}
    assert runs == {"scx_a": repeats, EEVDF: 8 + repeats, "scx_b": repeats}


def test_who_has_lost_his_figures_stays_in_a_class_that_is_played_again_without_him(tmp_path):
    """Half an hour plays four of fifteen modes: the others are still there when one of the four fails."""
    older = stages_table.first(trials(), None, mapping(), MACHINE, MEASURED)
    now = msgspec.structs.replace(MEASURED, schedulers={"scx_a": "2.0", "scx_b": "1.0"})
    again = trials(columns=("eevdf", "scx_b"), repeats=1)
    found = written(stages_table.refined(again, older, mapping(), MACHINE, now, begun=older), tmp_path)
    assert [(one.name, one.runs) for one in found.classes["web+archive"]] == [(EEVDF, 4), ("scx_b", 4), ("scx_a", None)]


def test_eevdf_stands_once_also_where_its_trials_failed(tmp_path):
    older = stages_table.first(trials(columns=("eevdf", "scx_a")), None, mapping(), MACHINE, MEASURED)
    now = msgspec.structs.replace(MEASURED, schedulers={"scx_a": "2.0", "scx_b": "1.0"})
    without = [one for one in trials() if one.scheduler != "eevdf" or not (one.interactive and one.background)]
    found = stages_table.refined(without, older, mapping(), MACHINE, now, begun=older)
    path = tmp_path / "table.yaml"
    table.write(path, found)
    modes = dict.fromkeys(NAMES, ("default",))
    assert table.check(path, modes) == ()
    assert sorted(one.name for one in found.classes["web+archive"]) == sorted(NAMES)


def test_a_campaign_that_ends_after_another_stage_takes_nothing_from_it():
    """What was measured meanwhile has more runs; what the campaign did not play is not put back to what it was."""
    begun = stages_table.first(trials(repeats=1), None, mapping(), MACHINE, MEASURED)
    meanwhile = stages_table.first(trials(scenario="web+archive,office+video"), begun, mapping(), MACHINE, MEASURED)
    late = trials(columns=("eevdf", "scx_a"), repeats=1)
    prior = mapping(meanwhile.classes)
    found = stages_table.refined(late, meanwhile, prior, MACHINE, MEASURED, begun=begun, carries=True)
    assert found.classes == meanwhile.classes
    assert not stages_table.loses(meanwhile, found)
    more = stages_table.refined(trials(repeats=4), begun, prior, MACHINE, MEASURED, begun=begun)
    assert more.classes["web+archive"][0].runs == 5


def test_what_one_pair_shows_of_an_application_takes_no_ranking_of_many():
    many = stages_table.first(trials(scenario="web+archive,web+video,web+disk"), None, mapping(), MACHINE, MEASURED)
    assert many.classes["web"][0].runs == 9
    again = stages_table.first(trials(), many, mapping(many.classes), MACHINE, MEASURED)
    assert again.classes["web"] == many.classes["web"]


def test_what_a_table_would_lose_when_another_takes_its_place():
    older = stages_table.first(trials(), None, mapping(), MACHINE, MEASURED)
    costs = {"scx_a": Cost(switch_ms=1.0, overhead_pct=0.1, runs=1)}
    more = stages_table.with_costs(costs, older, MACHINE, MEASURED)
    again = stages_table.first(trials(), more, mapping(), MACHINE, MEASURED)
    anew = stages_table.first(trials(repeats=2), more, mapping(), MACHINE, MEASURED)
    assert not stages_table.loses(None, older)
    assert not stages_table.loses(older, more)  # a stage adds to it
    assert not stages_table.loses(more, again)  # the same trials once more
    assert stages_table.loses(more, anew)
    assert stages_table.loses(more, older)  # costs
    assert stages_table.loses(msgspec.structs.replace(older, measured=None), older)
    elsewhere = stages_table.first(trials(scenario="office+video"), None, mapping(), MACHINE, MEASURED)
    assert stages_table.loses(older, elsewhere)


def test_figures_that_count_in_the_new_ones_are_not_lost():
    older = stages_table.first(trials(), None, mapping(), MACHINE, MEASURED)
    more = trials(columns=("eevdf", "scx_a"), repeats=2)
    new = stages_table.refined(more, older, mapping(), MACHINE, MEASURED, begun=older)
    assert stages_table.loses(older, new)
    assert not stages_table.loses(older, new, older)
    meanwhile = stages_table.first(trials(repeats=1), older, mapping(), MACHINE, MEASURED)
    assert stages_table.loses(meanwhile, new, older)
    without = msgspec.structs.replace(new, classes={"idle": new.classes["idle"]})
    assert stages_table.loses(older, without, older)


def test_on_the_same_machine_and_series_of_kernels_all_stays():
    older = stages_table.first(trials(scenario="office+video"), None, mapping(), MACHINE, MEASURED)
    renamed = msgspec.structs.replace(MACHINE, name="another name")
    later = msgspec.structs.replace(MEASURED, kernel=f"{fingerprint.series(MEASURED.kernel)}.99-amd64")
    found = stages_table.first(trials(), older, mapping(), renamed, later)
    assert {"office+video", "web+archive"} <= set(found.classes)


def test_stage_two_adds_costs_to_what_is_there(tmp_path):
    older = stages_table.first(trials(), None, mapping(), MACHINE, MEASURED)
    told, lacking = stages_table.costs(results(columns=stages.shadows(NAMES)))
    assert lacking == {}
    # two loads of 210 ms on average and a tick of 2 ms, of four CPUs
    assert told["scx_a"] == Cost(switch_ms=53.0, overhead_pct=0.25, runs=6)
    assert told["eevdf"] == Cost(switch_ms=0.5, overhead_pct=0.25, runs=3)
    found = written(stages_table.with_costs(told, older, MACHINE, MEASURED), tmp_path)
    assert found.costs == told
    assert found.classes == older.classes
    alone = stages_table.with_costs(told, None, MACHINE, MEASURED)
    assert (alone.costs, alone.classes) == (told, {})


def test_a_shadow_that_never_loaded_has_no_cost_but_a_reason():
    found = results(columns=("eevdf", "shadow:scx_a"))
    told = {"loads_ms": [], "walls_ms": [], "refused": ["it said: no"], "ticks": 3}
    told |= {"tick_ms": 1.0, "inference_ms": None, "agent_pct": None, "cpus": 4}
    changed = [
        msgspec.structs.replace(one, parameters={"controller": {"shadow": told}})
        if one.trial.scheduler == "shadow:scx_a"
        else one
        for one in found
    ]
    assert stages_table.costs(changed) == ({}, {"scx_a": "it said: no"})
    assert stages_table.costs(results()) == ({}, {})


def test_what_the_agent_costs_is_felt_too():
    (one,) = stages_table.felt(trials(columns=("eevdf", "shadow:scx_a")))
    assert (one.scheduler, one.blocks) == ("scx_a", 3)
    assert one.mean != 0.0
    assert stages_table.felt(trials()) == []


def test_refining_weighs_new_runs_against_old_ones(tmp_path):
    # the old table says of scx_b what new runs contradict, and of scx_c what was not played again
    old = {
        "web+archive": [
            entry("scx_b", 0.95, low=0.90, high=1.0, runs=3),
            entry("scx_c", 0.70, low=0.69, high=0.71, runs=9),
            entry("eevdf", 0.50, low=0.45, high=0.55, runs=3),
        ],
        "game": [entry("scx_c", 0.9, runs=4), entry("eevdf", 0.5, runs=4)],
    }
    before = TableFile(version=2, machine=MACHINE, measured=MEASURED, provenance="test", classes=old)
    found = written(stages_table.refined(trials(), before, mapping(old), MACHINE, MEASURED, begun=before), tmp_path)
    names = [one.name for one in found.classes["web+archive"]]
    assert set(names) == {"scx_a", "scx_b", "scx_c", EEVDF}
    assert names.index("scx_a") < names.index("scx_b")
    assert names.index("scx_c") < names.index(EEVDF)
    kept = {one.name: one for one in found.classes["web+archive"]}
    assert kept["scx_c"].runs == 9
    assert "3 runs before" in kept["scx_b"].why
    assert [one.name for one in found.classes["game"]] == ["scx_c", EEVDF]
    elsewhere = msgspec.structs.replace(before, machine=msgspec.structs.replace(MACHINE, cpus=64))
    other = mapping(old, elsewhere="other")
    fresh = stages_table.refined(trials(), elsewhere, other, MACHINE, MEASURED, begun=elsewhere)
    assert [one.name for one in fresh.classes["web+archive"]] == ["scx_a", EEVDF, "scx_b"]
    assert "game" not in fresh.classes


def test_what_was_not_played_here_stays_in_the_order_of_the_table_that_goes(tmp_path):
    """A hasty campaign plays one pair: what the other machine's table says of the rest is not lost, nor outdone."""
    old = {
        "idle": [entry("scx_a")],
        "web": [entry("scx_b", 0.9, runs=8), entry("eevdf", 0.8, runs=8)],
        "web+video": [entry("scx_c", 0.9, low=0.8, high=1.0, runs=2), entry("eevdf", 0.8, runs=2)],
    }
    prior = mapping(old, elsewhere="other", rest=mapping({"archive": [entry("scx_c")]}, elsewhere="shipped"))

    def refined(**more):
        found = stages_table.refined(trials(), None, prior, MACHINE, MEASURED, begun=None, **more)
        return written(found, tmp_path).classes

    found = refined(carries=True)
    assert found.keys() == {"idle", "web+archive", "web", "web+video"}  # archive: by the table behind, as before
    assert [(one.name, one.score, one.runs) for one in found["web"]] == [("scx_b", None, None), (EEVDF, None, None)]
    assert found["web+video"][0].why == "not played here: test"
    assert [one.name for one in found["idle"]] == [EEVDF]
    again = mapping(found, elsewhere="other")
    other = stages_table.refined(trials(), None, again, MACHINE, MEASURED, begun=None, carries=True)
    assert other.classes["web+video"][0].why == "not played here: test"
    assert refined().keys() == {"idle", "web+archive"}  # the first table stays behind this one


def test_beliefs_take_figures_of_the_class_and_the_order_of_any():
    classes = {"web+archive": [entry("scx_b", 0.8, low=0.78, high=0.82, runs=5), entry("eevdf", 0.7, runs=5)]}
    rest = mapping({"office": [entry("scx_c"), entry("scx_a")]}, measured=None, elsewhere="none")
    names = ("eevdf", "scx_a", "scx_b", "scx_c")
    own = stages_table.beliefs(["web+archive", "office+video"], mapping(classes, rest=rest), names)
    assert own["web+archive"].names == ("scx_b", "eevdf", "scx_a", "scx_c")
    gain, error = own["web+archive"].gains["scx_b"]
    assert gain == pytest.approx(0.1)
    assert error == pytest.approx(0.02 / 1.96, rel=0.01)
    assert own["office+video"].names == ("scx_c", "eevdf", "scx_a", "scx_b")
    assert own["office+video"].gains == {}
    other = stages_table.beliefs(["web+archive"], mapping(classes, elsewhere="another machine"), names)
    assert other["web+archive"].gains["scx_b"][1] > stages_table.TRANSFER
    updated = dataclasses.replace(mapping(classes), stale={"scx_b": "measured with scx_b 1.0, here is 1.1"})
    aged = stages_table.beliefs(["web+archive"], updated, names)
    assert aged["web+archive"].gains["scx_b"][1] > stages_table.TRANSFER  # so wide that it is tried again
    assert stages_table.beliefs(["web+archive"], mapping(classes), ("eevdf", "scx_a"))["web+archive"].gains == {}


def test_what_was_not_learnt_is_said_in_words():
    verdicts = {
        Workload("web+archive"): Verdict(
            workload=Workload("web+archive"), leader=EEVDF, open=("scx_a", "scx_b"), blocks=1
        ),
        Workload("game+llm"): Verdict(workload=Workload("game+llm"), leader=EEVDF, open=(), blocks=5),
    }
    assert stages_table.unlearnt(verdicts, [Workload("audio+disk")]) == [
        "web+archive: eevdf leads after 1 block; may be better: scx_a, scx_b",
        "not played: audio+disk",
    ]
    assert stages_table.unlearnt({}, []) == []


def test_a_lead_over_eevdf_and_its_interval_are_the_evidence():
    ranking = [
        entry("scx_a", score=0.9, error=0.01, runs=6),
        entry("scx_b", score=0.8, runs=1),
        entry("eevdf", score=0.85, runs=6),
        entry("scx_c"),
    ]
    sure, once, own, unplayed = stages_table.evident(ranking)
    told = sure.evidence
    assert (told.ground, told.effect, told.low, told.high, told.runs) == ("measured", 0.05, 0.0304, 0.0696, 6)
    assert (once.evidence, own.evidence, unplayed.evidence) == (None, None, None)
    assert stages_table.evident([sure, unplayed])[0].evidence is None  # nothing to be above


def test_evidence_says_whether_a_light_load_was_among_what_was_measured(tmp_path):
    def played_with(*used):
        return [dataclasses.replace(one, used=share) for one, share in zip(trials(), used * 9, strict=False)]

    def said(file, label="web+archive"):
        return {one.evidence.light for one in file.classes[label] if one.evidence is not None}

    def made(*used):
        return written(stages_table.first(played_with(*used), None, mapping(), MACHINE, MEASURED), tmp_path)

    assert (said(made(0.9)), said(made(0.9), "archive")) == ({False}, {False})
    assert (said(made(0.9, 0.2)), said(made(None))) == ({True}, {None})

    def again(before, *used):
        return stages_table.refined(played_with(*used), before, mapping(), MACHINE, MEASURED, begun=before)

    assert said(again(made(0.1), 0.9)) == {True}  # of older runs, which count on
    assert said(again(made(None), 0.9)) == {None}
    assert said(again(made(0.9), 0.9)) == {False}
    kept = stages_table.with_costs({}, made(0.1), MACHINE, MEASURED)
    assert said(kept) == {True}


def test_the_share_of_the_cpus_that_was_used_is_of_the_measured_window():
    (one, *_), bare = results(), results()[0]
    energy = Energy(busy_s=[2.0, 4.0, 0.0, 0.0])
    told = msgspec.structs.replace(one, energy=(energy,), cpus=4, window_s=5.0)
    assert [each.used for each in played("run", [told, msgspec.structs.replace(bare, energy=())])] == [0.3, None]
