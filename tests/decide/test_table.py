# SPDX-License-Identifier: GPL-2.0-only
"""The mapping table: what is shipped is sound, what is wrong is named."""

from pathlib import Path

import pytest

from asa import paths
from asa.act.portfolio import Portfolio
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import InputError
from asa.decide import table

KNOWN = {"eevdf": ("default",), "scx_lavd": ("default", "performance"), "scx_flash": ("default",)}
_HOST = Portfolio.load(paths.manifest(), Path("/nonexistent"))
ALL = {str(name): tuple(_HOST.entry(name).modes) for name in _HOST.names()}
GOOD = """
version: 1
machine: {name: test}
provenance: test
classes:
  cpu:
    - {scheduler: scx_lavd, mode: performance, why: measured}
    - {scheduler: scx_flash, why: measured}
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


FRUGAL = GOOD + "    - {scheduler: eevdf, why: own}\n    - {scheduler: scx_lavd, why: saves, efficient: true}\n"


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


def test_a_table_that_knows_no_saver_leaves_it_to_the_kernels_own(tmp_path):
    mapping = table.load(written(tmp_path, GOOD), KNOWN)
    assert mapping.wanted(Workload("cpu"), (), saver=True) == EEVDF


def test_the_order_in_which_they_are_asked_is_told(tmp_path):
    mapping, cpu = table.load(written(tmp_path, FRUGAL), KNOWN), Workload("cpu")
    assert mapping.ranked(cpu, saver=False) == (
        ("scx_lavd:performance", "measured"),
        ("scx_flash", "measured"),
        (EEVDF, "own"),
        ("scx_lavd", "saves"),
    )
    assert mapping.ranked(cpu, saver=True) == (
        ("scx_lavd", "saves; for battery saver, which is on"),
        (EEVDF, "own"),
        ("scx_lavd:performance", "measured; not on battery saver"),
        ("scx_flash", "measured; not on battery saver"),
    )
    (own, why), *_ = table.load(written(tmp_path, GOOD), KNOWN).ranked(cpu, saver=True)
    assert own == EEVDF
    assert "the kernel's own" in why
    assert mapping.ranked(Workload("other"), saver=True) == ()


@pytest.mark.parametrize("workload", [*table.load(paths.mapping_tables() / "default.yaml", ALL).rankings])
@pytest.mark.parametrize("name", ["default.yaml", "lab.yaml"])
def test_what_only_saves_energy_never_serves_otherwise(name, workload):
    mapping = table.load(paths.mapping_tables() / name, ALL)
    asked = [name for name, _ in mapping.ranked(workload, saver=False)]
    frugal = [entry.name for entry in mapping.rankings[workload] if entry.efficient]
    assert all(EEVDF in asked[: asked.index(one)] for one in frugal)
    served = mapping.wanted(workload, (), saver=True)
    assert served == (frugal[0] if frugal else EEVDF)
    # scx_flash forbids deep idle states, and scx_p2dq's own mode looks like battery saver for as long as it runs
    assert not served.startswith(("scx_flash", "scx_p2dq"))


@pytest.mark.parametrize(
    ("old", "new", "key", "value", "allowed"),
    [
        ("scx_flash", "scx_flsh", "classes.cpu[1].scheduler", "scx_flsh", "scx_lavd"),
        ("mode: performance", "mode: fast", "classes.cpu[0].mode", "fast", "performance"),
        ("version: 1", "version: 2", "version", 2, "1"),
        ("provenance: test", "provenence: test", "provenence", "test", "provenance"),
        (
            "why: measured}\n    - {scheduler: scx_flash",
            "why: 3}\n    - {scheduler: scx_flash",
            "classes.cpu[0].why",
            3,
            "str",
        ),
        (
            "scheduler: scx_flash,",
            "scheduler: scx_lavd, mode: performance,",
            "classes.cpu[1]",
            "scx_lavd:performance",
            "once",
        ),
        ("flash, why: measured", "flash, why: measured, efficient: 1", "classes.cpu[1].efficient", 1, "bool"),
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
    assert table.choose(tmp_path, cpu_model="QEMU Virtual CPU", cpus=2) == any_cpus
    assert table.choose(tmp_path, cpu_model="QEMU Virtual CPU", cpus=4) == four
    assert table.choose(tmp_path, cpu_model="AMD EPYC", cpus=4) == tmp_path / "default.yaml"


def test_shipped_tables_fit_the_shipped_manifest(tmp_path):
    portfolio = Portfolio.load(paths.manifest(), tmp_path)
    known = {str(name): tuple(portfolio.entry(name).modes) for name in portfolio.names()}
    shipped = sorted(paths.mapping_tables().glob("*.yaml"))
    assert [path.name for path in shipped] == ["default.yaml", "lab.yaml"]
    for path in shipped:
        mapping = table.load(path, known)
        assert mapping.wanted(Workload("idle"), ()) == EEVDF
