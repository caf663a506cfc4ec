# SPDX-License-Identifier: GPL-2.0-only
"""The table of settings: which files are found, and what may be read from and written into them."""

import pytest

from asa.act import settings

CPU = "devices/system/cpu"
FILES = {
    f"{CPU}/cpu0/cpufreq/scaling_governor": "schedutil",
    f"{CPU}/cpu0/cpufreq/energy_performance_preference": "128",
    f"{CPU}/cpu0/power/pm_qos_resume_latency_us": "n/a",
    f"{CPU}/cpu11/power/pm_qos_resume_latency_us": "0",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/intel_uncore_frequency/package_00_die_01/max_freq_khz": "3600000",
}
OTHERS = {
    f"{CPU}/cpu0/power/control": "auto",
    f"{CPU}/cpuidle/current_governor": "menu",
    f"{CPU}/cpufreq/boost": "1",
    f"{CPU}/intel_uncore_frequency/package_00_die_01/min_freq_khz": "800000",
    "kernel/rcu_expedited": "0",
    "kernel/rcu_normal": "0",
}


@pytest.fixture
def sys(tmp_path):
    for name, value in (FILES | OTHERS).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{value}\n")
    return tmp_path


def test_what_a_scheduler_may_change_is_found(sys, tmp_path):
    assert set(settings.files(sys)) == set(FILES)
    assert {name: settings.read(sys, name) for name in FILES} == FILES
    assert list(settings.files(tmp_path / "nothing")) == []


@pytest.mark.parametrize("name", [*OTHERS, f"{CPU}/cpu0/../../../../x/no_turbo", "/etc/passwd", "", "no_turbo"])
def test_other_files_are_not_written(sys, name):
    if name == settings.RCU_EXPEDITED:
        assert settings.write(sys, name, "1") == ""
        return
    with pytest.raises(ValueError, match="'0'"):
        settings.write(sys, name, "0")
    assert all((sys / one).read_text() == f"{value}\n" for one, value in OTHERS.items())


@pytest.mark.parametrize("garbage", ["", "a b", "-1", "\x00", "9" * 60, "é"])
def test_what_a_file_should_not_hold_is_unknown(sys, garbage):
    name = f"{CPU}/cpu11/power/pm_qos_resume_latency_us"
    (sys / name).write_text(garbage)
    assert settings.read(sys, name) is None


def test_a_file_that_went_away_is_no_fault(sys):
    name = f"{CPU}/cpu11/power/pm_qos_resume_latency_us"
    (sys / name).unlink()
    assert settings.write(sys, name, "1") == ""
    assert not (sys / name).exists()
    assert settings.read(sys, name) is None


def test_one_that_refuses_is_said(sys):
    name = f"{CPU}/cpu11/power/pm_qos_resume_latency_us"
    (sys / name).unlink()
    (sys / name).mkdir()
    assert settings.write(sys, name, "1") == f"{sys}/{name}: cannot be set to '1': Is a directory"


def test_many_cpus_are_one_line():
    changes = {f"{CPU}/cpu{number}/power/pm_qos_resume_latency_us": ("32", "0") for number in range(8)}
    changes[f"{CPU}/intel_pstate/no_turbo"] = ("1", "0")
    assert settings.told(changes) == ["pm_qos_resume_latency_us of 8 CPUs: 32 -> 0", "no_turbo: 1 -> 0"]
