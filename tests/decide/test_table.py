# SPDX-License-Identifier: GPL-2.0-only
"""The mapping table: what is shipped is sound, what is wrong is named."""

import pytest

from asa import paths
from asa.act.portfolio import Portfolio
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import InputError
from asa.decide import table

KNOWN = {"eevdf": ("default",), "scx_lavd": ("default", "performance"), "scx_flash": ("default",)}
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
