# SPDX-License-Identifier: GPL-2.0-only
"""The mapping table: what is shipped is sound, what is wrong is named."""

import dataclasses
import os
from pathlib import Path

import msgspec
import pytest

from asa import paths
from asa.act.portfolio import Origin, Portfolio, Record
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import InputError
from asa.core.kinds import Kind
from asa.decide import table
from asa.decide.grounds import Ground
from asa.host import Facts
from scenarios.catalogue import PAPER

KNOWN = {"eevdf": ("default",), "scx_lavd": ("default", "performance"), "scx_flash": ("default",)}
_HOST = Portfolio.load(paths.manifest(), Path("/nonexistent"))
ALL = _HOST.modes()
SURE = "evidence: {ground: measured, effect: 0.1, runs: 2, source: t, kernel: k}"
SAID = "; measured here: +0.100 score against eevdf (interval unknown), 2 runs, t, kernel k"
GOOD = f"""
version: 1
machine: {{name: test}}
provenance: test
classes:
  cpu:
    - {{scheduler: scx_lavd, mode: performance, why: measured, {SURE}}}
    - {{scheduler: scx_flash, why: measured, {SURE}}}
"""
PARTS = f"""
version: 2
machine: {{name: parts}}
provenance: test
classes:
  web: [{{scheduler: scx_flash, why: w, score: 0.5, runs: 1, {SURE}}}]
  blender: [{{scheduler: eevdf, why: b}}]
  web+disk: [{{scheduler: scx_lavd, why: d, {SURE}}}]
"""


def written(folder, text, name="t.yaml"):
    path = folder / name
    path.write_text(text)
    return path


def test_ranking_and_set_aside(tmp_path):
    mapping = table.load(written(tmp_path, GOOD), KNOWN)
    cpu = Workload("cpu")
    assert mapping.wanted(cpu, ()) == "scx_lavd:performance"
    assert mapping.wanted(cpu, {SchedulerName("scx_lavd:performance")}) == "scx_flash"
    assert mapping.wanted(cpu, {SchedulerName("scx_lavd:performance"), SchedulerName("scx_flash")}) == EEVDF
    assert mapping.wanted(Workload("other"), ()) is None


FRUGAL = (
    GOOD
    + "    - {scheduler: eevdf, why: own}\n    - {scheduler: scx_lavd, why: saves, efficient: true, "
    + SURE
    + "}\n"
)


def test_on_battery_saver_the_efficient_serve_then_the_kernels_own(tmp_path):
    mapping, cpu, lavd = table.load(written(tmp_path, FRUGAL), KNOWN), Workload("cpu"), SchedulerName("scx_lavd")
    assert mapping.wanted(cpu, (), saver=True) == lavd
    assert mapping.wanted(cpu, {lavd}, saver=True) == EEVDF
    assert mapping.wanted(cpu, ()) == "scx_lavd:performance"
    assert mapping.wanted(cpu, {SchedulerName("scx_lavd:performance"), SchedulerName("scx_flash")}) == EEVDF
    assert mapping.wanted(Workload("other"), (), saver=True) is None
    assert mapping.allows(cpu, lavd, saver=True)
    assert mapping.allows(cpu, EEVDF, saver=True)
    assert not mapping.allows(cpu, SchedulerName("scx_flash"), saver=True)
    assert mapping.allows(cpu, SchedulerName("scx_flash"), saver=False)


def test_what_the_settings_bar_never_serves(tmp_path):
    mapping, cpu = table.load(written(tmp_path, FRUGAL), KNOWN), Workload("cpu")
    barred = dataclasses.replace(mapping, never=frozenset({"scx_lavd:performance"}))
    assert barred.wanted(cpu, ()) == "scx_flash"
    assert not barred.allows(cpu, SchedulerName("scx_lavd:performance"), saver=False)
    assert barred.allows(cpu, SchedulerName("scx_lavd"), saver=True)
    assert barred.ranked(cpu, saver=False)[0] == ("scx_lavd:performance", f"measured{SAID}; barred by switch.never")
    whole = dataclasses.replace(mapping, never=frozenset({"scx_lavd", "scx_flash"}))
    assert (whole.wanted(cpu, ()), whole.wanted(cpu, (), saver=True)) == (EEVDF, EEVDF)


def test_what_was_composed_or_tuned_serves_after_a_trial_alone(tmp_path):
    cpu, first = Workload("cpu"), SchedulerName("scx_lavd:performance")
    mapping = dataclasses.replace(table.load(written(tmp_path, GOOD), KNOWN), canaries=frozenset({first}))
    assert mapping.wanted(cpu, ()) == "scx_flash"
    assert first in [one.name for one in mapping.offers(cpu)]  # to trials
    assert mapping.wanted(cpu, (), proved=(first,)) == first
    assert "only a trial here may choose it" in mapping.ranked(cpu, saver=False)[0][1]


def test_a_table_that_knows_no_saver_leaves_it_to_the_kernels_own(tmp_path):
    mapping = table.load(written(tmp_path, GOOD), KNOWN)
    assert mapping.wanted(Workload("cpu"), (), saver=True) == EEVDF


def test_the_order_in_which_they_are_asked_is_told(tmp_path):
    mapping, cpu = table.load(written(tmp_path, FRUGAL), KNOWN), Workload("cpu")
    assert mapping.ranked(cpu, saver=False) == (
        ("scx_lavd:performance", f"measured{SAID}"),
        ("scx_flash", f"measured{SAID}"),
        (EEVDF, "own"),
        ("scx_lavd", f"saves{SAID}"),
    )
    assert mapping.ranked(cpu, saver=True) == (
        ("scx_lavd", f"saves{SAID}; for battery saver, which is on"),
        (EEVDF, "own"),
        ("scx_lavd:performance", f"measured{SAID}; not on battery saver"),
        ("scx_flash", f"measured{SAID}; not on battery saver"),
    )
    (own, why), *_ = table.load(written(tmp_path, GOOD), KNOWN).ranked(cpu, saver=True)
    assert own == EEVDF
    assert "the kernel's own" in why
    assert mapping.ranked(Workload("other"), saver=True) == ()


@pytest.mark.parametrize("workload", [*table.load(paths.mapping_tables() / "default.yaml", ALL).rankings])
@pytest.mark.parametrize("name", ["default.yaml", "lab.yaml"])
def test_a_fresh_installation_stays_on_the_kernels_own(name, workload):
    mapping = table.load(paths.mapping_tables() / name, ALL)
    assert (mapping.wanted(workload, ()), mapping.wanted(workload, (), saver=True)) == (EEVDF, EEVDF)
    assert mapping.rankings[workload][0].name == EEVDF


@pytest.mark.parametrize(
    ("old", "new", "key", "value", "allowed"),
    [
        ("scx_flash", "scx_flsh", "classes.cpu[1].scheduler", "scx_flsh", "scx_lavd"),
        ("mode: performance", "mode: fast", "classes.cpu[0].mode", "fast", "performance"),
        ("version: 1", "version: 3", "version", 3, "1"),
        ("provenance: test", "provenence: test", "provenence", "test", "provenance"),
        ("mode: performance, why: measured", "mode: performance, why: 3", "classes.cpu[0].why", 3, "text"),
        (
            "scheduler: scx_flash,",
            "scheduler: scx_lavd, mode: performance,",
            "classes.cpu[1]",
            "scx_lavd:performance",
            "once",
        ),
        ("flash, why: measured", "flash, why: measured, efficient: 1", "classes.cpu[1].efficient", 1, "true or false"),
    ],
)
def test_errors_name_file_key_value_and_what_is_allowed(tmp_path, old, new, key, value, allowed):
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(InputError) as caught:
        table.load(path, KNOWN)
    error = caught.value
    assert (error.path, error.key) == (str(path), key)
    assert error.value == value or repr(value) in str(error)
    assert allowed in error.allowed
    assert "\n" not in str(error)


def test_a_class_needs_an_entry(tmp_path):
    path = written(tmp_path, GOOD.partition("  cpu:")[0] + "  cpu: []\n")
    with pytest.raises(InputError, match=r"classes\.cpu"):
        table.load(path, KNOWN)


def test_choosing_by_fingerprint(tmp_path):
    written(tmp_path, GOOD, "default.yaml")
    any_cpus = written(tmp_path, GOOD.replace("{name: test}", "{name: qemu, cpu_model: QEMU}"), "qemu.yaml")
    four = written(tmp_path, GOOD.replace("{name: test}", "{name: qemu4, cpu_model: QEMU, cpus: 4}"), "qemu4.yaml")
    assert table.choose(tmp_path, Facts(cpu_model="QEMU Virtual CPU", cpus=2)) == any_cpus
    assert table.choose(tmp_path, Facts(cpu_model="QEMU Virtual CPU", cpus=4)) == four
    assert table.choose(tmp_path, Facts(cpu_model="AMD EPYC", cpus=4)) == tmp_path / "default.yaml"
    assert table.choose(tmp_path, Facts()) == tmp_path / "default.yaml"
    (tmp_path / "other.yaml").write_text("version: [")
    with pytest.raises(InputError, match=r"other\.yaml"):
        table.choose(tmp_path, Facts(cpu_model="QEMU", cpus=4))


def test_shipped_tables_fit_the_shipped_manifest(tmp_path):
    portfolio = Portfolio.load(paths.manifest(), tmp_path)
    known = portfolio.modes()
    shipped = table.shipped(paths.mapping_tables())
    assert [path.name for path in shipped] == ["default.yaml", "lab.yaml"]
    for path in shipped:
        mapping = table.load(path, known)
        assert mapping.wanted(Workload("idle"), ()) == EEVDF
        for scenario in PAPER:
            assert mapping.ranking(Workload(scenario.label)), (path, scenario.label)
    for kind in Kind:
        assert table.load(shipped[0], known).ranking(Workload(kind)), kind


def test_a_pair_is_served_as_its_first_part_that_is_listed(tmp_path):
    mapping = table.load(written(tmp_path, PARTS), KNOWN)
    assert mapping.wanted(Workload("web+blender"), ()) == "scx_flash"
    assert mapping.wanted(Workload("game+blender"), ()) == EEVDF
    assert mapping.wanted(Workload("web+disk"), ()) == "scx_lavd"  # listed itself
    assert mapping.wanted(Workload("game+kernel"), ()) is None
    assert mapping.wanted(Workload("webb"), ()) is None
    assert mapping.ranked(Workload("web+blender"), saver=False) == (("scx_flash", f"w (of web){SAID}"),)
    assert mapping.allows(Workload("web+blender"), SchedulerName("scx_flash"), saver=True) is False


def test_a_use_is_found_by_its_kinds_too(tmp_path):
    mapping = table.load(written(tmp_path, PARTS), KNOWN)
    for theirs, ours in (("web+disk", "browse+disk"), ("web+blender", "browse+render"), ("web", "browse")):
        assert mapping.ranking(Workload(ours)) == mapping.ranking(Workload(theirs))
    assert mapping.expected(Workload("browse"), SchedulerName("scx_flash")).score == 0.5
    assert mapping.expected(Workload("browse+render"), SchedulerName("scx_flash")) is None
    assert mapping.ranked(Workload("browse"), saver=False) == (("scx_flash", f"w{SAID}"),)
    assert mapping.ranking(Workload("call")) == ()


def test_scores_of_a_part_are_not_those_of_the_pair(tmp_path):
    mapping = table.load(written(tmp_path, PARTS), KNOWN)
    assert mapping.expected(Workload("web"), SchedulerName("scx_flash")).score == 0.5
    assert mapping.expected(Workload("web+blender"), SchedulerName("scx_flash")) is None
    assert mapping.expected(Workload("web"), SchedulerName("scx_lavd")) is None
    assert mapping.expected(Workload("other"), SchedulerName("scx_flash")) is None


def test_what_a_scheduler_costs(tmp_path):
    costs = "costs: {scx_lavd: {switch_ms: 40, runs: 2}, 'scx_lavd:performance': {switch_ms: 50, runs: 2}}\n"
    mapping = table.load(written(tmp_path, costs + PARTS), KNOWN)
    found = [mapping.cost(SchedulerName(name)) for name in ("scx_lavd", "scx_lavd:performance", "scx_lavd:x", "eevdf")]
    assert [one and one.switch_ms for one in found] == [40, 50, 40, None]


MEASURED = """
measured:
  {date: 2026-11-23, command: c, tier: real, kernel: 6.18.2-a, schedulers: {scx_lavd: 1.1.4, scx_flash: 0123456789ab}}
"""
SCORED = (
    "\n    - {scheduler: scx_flash, why: w, score: 0.5, runs: 2, "
    + SURE
    + "}\n    - {scheduler: eevdf, why: w, score: 0.4, runs: 2}"
)
AGED = (
    GOOD.replace("machine: {name: test}", "machine: {name: test, cpu_model: Test CPU, cpus: 2}" + MEASURED)
    + f"  web:{SCORED}\n"
)
SHA = "0123456789abcdef" * 4


def aged(tmp_path, kernel="6.18.9-b", here=None, **schedulers):
    present = table.Present(kernel=kernel, schedulers=schedulers)
    return table.load(written(tmp_path, AGED), KNOWN, present=present, here=here)


def test_a_figure_grows_old_with_its_scheduler(tmp_path):
    assert aged(tmp_path, scx_flash=("1.1.4", SHA)).stale == {}
    assert aged(tmp_path).stale == {}  # not installed: nothing to compare
    mapping = aged(tmp_path, scx_flash=("1.1.5", "ff" * 32), scx_lavd=("2.0", SHA))
    assert mapping.stale == {
        "scx_flash": "measured with scx_flash 0123456789ab, here is 1.1.5",
        "scx_lavd:performance": "measured with scx_lavd 1.1.4, here is 2.0",
    }
    assert mapping.wanted(Workload("web"), ()) == "scx_flash"  # and serves
    assert mapping.ranked(Workload("web"), saver=False)[0][1].endswith(f"here is 1.1.5){SAID}")


def test_all_figures_grow_old_with_the_kernel(tmp_path):
    mapping = aged(tmp_path, kernel="6.19.0", scx_flash=("1.1.4", SHA))
    assert list(mapping.stale) == ["eevdf", "scx_flash", "scx_lavd:performance"]
    assert mapping.stale["eevdf"] == "measured on kernel 6.18.2-a, this is 6.19.0"


def test_a_version_that_was_not_kept_is_old(tmp_path):
    text = AGED.replace(", scx_flash: 0123456789ab", "")
    present = table.Present(kernel="6.18", schedulers={"scx_flash": ("1.1.4", SHA)})
    assert "does not say" in table.load(written(tmp_path, text), KNOWN, present=present).stale["scx_flash"]


def test_what_is_measured_elsewhere_says_so(tmp_path):
    assert aged(tmp_path, here=Facts(cpu_model="Test CPU", cpus=2)).elsewhere == ""
    assert aged(tmp_path, here=Facts(cpus=4)).elsewhere == "measured on another machine: cpus 2 there, 4 here"
    assert table.load(written(tmp_path, GOOD), KNOWN, here=Facts(cpus=2)).elsewhere == "measured on no machine"


def test_measured_where_too_little_can_be_compared_is_elsewhere(tmp_path):
    here = Facts(cpu_model="Test CPU", cpus=2, kernel="6.18.2")
    for facts in ("name: test", "name: test, kernel: 6.18.2", "name: test, cpus: 2", "name: test, cpu_model: Test CPU"):
        path = written(tmp_path, AGED.replace("name: test, cpu_model: Test CPU, cpus: 2", facts))
        assert "does not describe" in table.load(path, KNOWN, here=here).elsewhere
        assert table.load(path, KNOWN).elsewhere == ""


EVIDENT = """
version: 2
machine: {name: test, cpu_model: Test CPU, cpus: 2}
measured: {date: 2026-11-23, command: c, tier: real, kernel: 6.18.2-a, schedulers: {scx_lavd: 1.1.4, scx_flash: 1.1.4}}
provenance: test
classes:
  web:
    - {scheduler: scx_lavd, why: a, evidence: {ground: published, source: s, machine: m, runs: 3}}
    - {scheduler: scx_flash, why: b, evidence: {ground: measured, effect: 0.05, low: 0.01, high: 0.09, runs: 6}}
    - {scheduler: eevdf, why: c}
    - {scheduler: scx_lavd, mode: performance, why: d, evidence: {ground: opinion}}
    - {scheduler: scx_flash, mode: powersave, why: e, efficient: true}
"""


def test_a_table_offers_who_may_be_tried_with_what_speaks_for_it(tmp_path):
    known = {**KNOWN, "scx_flash": ("default", "powersave")}
    mapping = table.load(written(tmp_path, EVIDENT), known, here=Facts(cpu_model="Test CPU", cpus=2))
    web = Workload("web+blender")
    offers = mapping.offers(web)
    assert [(one.name, one.ground) for one in offers] == [
        ("scx_lavd", Ground.PUBLISHED),
        ("scx_flash", Ground.HERE),
        (EEVDF, Ground.OPINION),
        ("scx_lavd:performance", Ground.OPINION),
    ]
    assert next(one.name for one in mapping.offers(web, {SchedulerName("scx_lavd")})) == "scx_flash"
    barred = dataclasses.replace(mapping, never=frozenset({"scx_lavd"}))
    assert [one.name for one in barred.offers(web)] == ["scx_flash", EEVDF]
    assert mapping.offers(Workload("other")) == ()


@pytest.mark.parametrize(
    ("evidence", "key", "says"),
    [
        ("{ground: published, machine: m, runs: 3}", "classes.web[0].evidence.source", "where it can be read"),
        ("{ground: published, source: s, runs: 3}", "classes.web[0].evidence.machine", "where it can be read"),
        ("{ground: measured, effect: 0.1, runs: 2}", "classes.web[0].evidence.source", "the command that measured it"),
        ("{ground: measured, effect: 0.1, runs: 2, source: c}", "classes.web[0].evidence.kernel", "its kernel"),
        ("{ground: opinion, effect: 0.1}", "classes.web[0].evidence.effect", "no figures beside an opinion"),
    ],
)
def test_evidence_without_a_source_is_refused_by_name(tmp_path, evidence, key, says):
    text = GOOD.replace("cpu:", "web:").replace(SURE, f"evidence: {evidence}", 1)
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=says) as told:
        table.load(path, KNOWN)
    assert (told.value.path, told.value.key) == (str(path), key)
    (fault,) = table.check(path, KNOWN)
    assert (fault.key, fault.line) == (key, 7)


def test_who_else_may_change_a_table(tmp_path):
    path = written(tmp_path, GOOD)
    path.chmod(0o644)
    tmp_path.chmod(0o755)
    assert table.unsafe(path) == ""
    path.chmod(0o646)
    assert table.unsafe(path) == f"{path} can be written to by other users"
    path.chmod(0o644)
    tmp_path.chmod(0o757)
    assert table.unsafe(path) == f"{tmp_path} can be written to by other users"
    tmp_path.chmod(0o1757)  # as /tmp: nobody moves another's file
    assert table.unsafe(path) == ""
    assert table.unsafe(tmp_path / "none") == ""


def test_what_belongs_to_another_user(tmp_path, monkeypatch):
    path = written(tmp_path, GOOD)
    path.chmod(0o644)
    owner = path.stat().st_uid
    real = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda self, **how: as_of(real(self, **how), owner + 1 if self == path else owner)
    )
    assert table.unsafe(path) == f"{path} belongs to user {owner + 1}"


def as_of(facts, uid):
    return os.stat_result((*facts[:4], uid, *facts[5:]))


def test_what_is_installed(tmp_path):
    portfolio = Portfolio.load(paths.manifest(), tmp_path)
    record = Record(path="/x", origin=Origin.BUILT, version=None, sha256=SHA, flags=None, installed="now")
    portfolio.write_records({SchedulerName("scx_flash"): record, SchedulerName("scx_lavd"): replace(record, "1.1.4")})
    present = table.Present.of(portfolio, "6.18.1")
    assert present.stamp(SchedulerName("scx_flash")) == SHA
    assert present.stamp(SchedulerName("scx_lavd:performance")) == "1.1.4"
    assert present.stamp(SchedulerName("scx_rusty")) is None


def replace(record, version):
    return msgspec.structs.replace(record, version=version)


@pytest.fixture
def places(tmp_path, monkeypatch):
    everybodys = tmp_path / "var"
    monkeypatch.setattr(paths, "installed", lambda: paths.Places(state=everybodys))
    monkeypatch.setattr(paths, "mapping_tables", lambda: tmp_path / "shipped")
    for folder in ("state", "var", "shipped"):
        (tmp_path / folder).mkdir()
    default = GOOD.replace("cpu:", "game:").replace("name: test", "name: default")
    written(tmp_path / "shipped", default, "default.yaml")
    near = PARTS.replace("name: parts", "name: near, cpus: 2")
    written(tmp_path / "shipped", near, "near.yaml")
    sys = tmp_path / "sys"
    (sys / "devices/system/cpu").mkdir(parents=True)
    (sys / "devices/system/cpu/online").write_text("0-1\n")
    return paths.Places(state=tmp_path / "state", proc=tmp_path / "proc", sys=sys)


def chosen(places, **how):
    found, names = table.for_this_machine(KNOWN, places=places, **how), []
    while found is not None:
        names.append((Path(found.path).parent.name, Path(found.path).name))
        found = found.rest
    return names


def test_the_order_of_tables(places, tmp_path):
    shipped = [("shipped", "near.yaml"), ("shipped", "default.yaml")]
    assert chosen(places) == shipped
    written(tmp_path / "var", GOOD, "table.yaml")
    assert chosen(places) == [("var", "table.yaml"), *shipped]
    written(tmp_path / "state", GOOD, "table.yaml")
    assert chosen(places) == [("state", "table.yaml"), *shipped]
    named = written(tmp_path, GOOD, "named.yaml")
    assert chosen(places, override=str(named)) == [(tmp_path.name, "named.yaml")]
    assert chosen(places, first=named) == [(tmp_path.name, "named.yaml"), ("shipped", "default.yaml")]
    assert chosen(places, first=tmp_path / "shipped/near.yaml") == shipped
    (places.sys / "devices/system/cpu/online").write_text("0-63\n")
    assert chosen(places) == [("state", "table.yaml"), ("shipped", "default.yaml")]


def test_what_the_first_does_not_rank_the_next_one_does(places, tmp_path):
    written(tmp_path / "state", GOOD.replace("cpu:", "blender:"), "table.yaml")
    mapping = table.for_this_machine(KNOWN, places=places)
    first = {name: mapping.ranking(Workload(name))[0].name for name in ("blender", "web", "game", "web+blender")}
    assert first == {
        "blender": "scx_lavd:performance",
        "web": "scx_flash",
        "game": "scx_lavd:performance",
        "web+blender": "scx_lavd:performance",  # within a table before the next one
    }
    assert mapping.expected(Workload("web"), SchedulerName("scx_flash")).score == 0.5
    assert mapping.ranking(Workload("disk")) == ()


def test_a_damaged_table_of_ones_own_is_named(places, tmp_path):
    written(tmp_path / "state", "version: 2\n", "table.yaml")
    with pytest.raises(InputError, match=r"state/table\.yaml"):
        table.for_this_machine(KNOWN, places=places)


def test_where_ones_own_table_is(places, tmp_path, monkeypatch):
    assert table.own(places) == tmp_path / "state/table.yaml"
    installed = dataclasses.replace(places, shared=tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert table.own(installed) == tmp_path / "var/table.yaml"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert table.own(installed) == tmp_path / "state/table.yaml"
