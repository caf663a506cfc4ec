# SPDX-License-Identifier: GPL-2.0-only
"""Whether the battery is to be saved, over trees of /sys as laptops have them; the collector that asks now and then."""

import pytest

from asa.core.errors import SourceError
from asa.host import battery_saver, on_battery
from collectors.power import EVERY, PowerCollector

LAPTOP = {  # a laptop on battery, with a mouse that has its own
    "class/power_supply/AC/type": "Mains",
    "class/power_supply/AC/online": "0",
    "class/power_supply/BAT0/type": "Battery",
    "class/power_supply/ucsi-source-psy-USBC000:001/type": "USB",
    "class/power_supply/ucsi-source-psy-USBC000:001/online": "0",
    "class/power_supply/hidpp_battery_0/type": "Battery",
    "class/power_supply/hidpp_battery_0/scope": "Device",
    "class/power_supply/hidpp_battery_0/online": "1",
    "devices/system/cpu/cpufreq/policy0/energy_performance_preference": "power",
    "devices/system/cpu/cpufreq/policy1/energy_performance_preference": "power",
    "devices/system/cpu/cpufreq/boost": "1",
}


def grow(sys, files):
    for name, text in files.items():
        (sys / name).parent.mkdir(parents=True, exist_ok=True)
        (sys / name).write_text(f"{text}\n")
    return sys


@pytest.mark.parametrize(
    ("change", "saver"),
    [
        ({}, True),
        ({"class/power_supply/AC/online": "1"}, False),
        ({"class/power_supply/ucsi-source-psy-USBC000:001/online": "1"}, False),
        ({"devices/system/cpu/cpufreq/policy1/energy_performance_preference": "balance_power"}, False),
        ({"class/power_supply/AC/online": "1", "firmware/acpi/platform_profile": "low-power"}, True),
        ({"firmware/acpi/platform_profile": "balanced"}, True),
        ({"class/power_supply/BAT0/type": "UPS"}, False),
    ],
)
def test_saving_the_battery(tmp_path, change, saver):
    assert battery_saver(grow(tmp_path, LAPTOP | change)) is saver


@pytest.mark.parametrize("mains", ["0", "1"])
@pytest.mark.parametrize(
    ("profile", "saver"),
    [
        ("low-power", True),
        ("cool", True),
        ("quiet", True),
        ("balanced", False),
        ("balanced-performance", False),
        ("performance", False),
        ("max-power", False),
        ("custom", False),
        ("something-new", False),
    ],
)
@pytest.mark.parametrize(
    "place", ["firmware/acpi/platform_profile", "class/platform-profile/platform-profile-0/profile"]
)
def test_every_profile_that_the_kernel_documents(tmp_path, place, profile, saver, mains):
    files = {name: text for name, text in LAPTOP.items() if "cpufreq" not in name}
    files |= {"class/power_supply/AC/online": mains, place: profile}
    assert battery_saver(grow(tmp_path, files)) is saver


@pytest.mark.parametrize(
    ("each", "saver"),
    [
        (("quiet", "low-power"), True),
        (("quiet", "balanced"), False),
        (("custom", "cool"), True),
        (("custom", "custom"), False),
    ],
)
def test_drivers_that_differ_are_asked_each(tmp_path, each, saver):
    files = {f"class/platform-profile/platform-profile-{number}/profile": text for number, text in enumerate(each)}
    assert battery_saver(grow(tmp_path, files | {"firmware/acpi/platform_profile": "custom"})) is saver


@pytest.mark.parametrize(
    ("wish", "saver"),
    [
        ("power", True),
        ("balance_power", False),
        ("default", False),
        ("balance_performance", False),
        ("performance", False),
        ("255", True),
        ("192", False),
        ("0", False),
    ],
)
def test_every_preference_that_the_kernel_documents(tmp_path, wish, saver):
    change = {f"devices/system/cpu/cpufreq/policy{cpu}/energy_performance_preference": wish for cpu in (0, 1)}
    assert battery_saver(grow(tmp_path, LAPTOP | change)) is saver


def test_a_desktop_has_no_battery_to_save(tmp_path):
    files = {name: text for name, text in LAPTOP.items() if "power_supply" not in name}
    assert battery_saver(grow(tmp_path, files)) is False
    assert on_battery(tmp_path) is None


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({}, True),
        ({"class/power_supply/AC/online": "1"}, False),
        ({"class/power_supply/AC/online": "1", "class/power_supply/BAT0/status": "Discharging"}, False),
        ({"class/power_supply/BAT0/status": "Discharging"}, True),
        ({"class/power_supply/BAT0/status": "Unknown"}, True),
        ({"class/power_supply/BAT0/status": "Charging"}, False),
        ({"class/power_supply/BAT0/status": "Full"}, False),
        ({"class/power_supply/BAT1/type": "Battery", "class/power_supply/BAT1/status": "Not charging"}, False),
        (
            {
                "class/power_supply/BAT0/status": "Discharging",
                "class/power_supply/BAT1/type": "Battery",
                "class/power_supply/BAT1/status": "Not charging",
            },
            True,
        ),
        ({"class/power_supply/BAT0/type": "UPS"}, False),
    ],
)
def test_what_feeds_the_machine(tmp_path, change, answer):
    assert on_battery(grow(tmp_path, LAPTOP | change)) is answer


def test_nothing_there_is_unknown(tmp_path):
    assert battery_saver(tmp_path) is None
    with pytest.raises(SourceError, match="no platform profile"):
        PowerCollector(tmp_path, tmp_path).open()


def test_a_change_is_seen_within_five_readings(tmp_path):
    grow(tmp_path, {"firmware/acpi/platform_profile": "balanced"})
    collector = PowerCollector(tmp_path, tmp_path)
    collector.open()
    assert collector.read() == {"battery_saver": False, "on_battery": None}
    grow(tmp_path, {"firmware/acpi/platform_profile": "low-power"})
    assert {"battery_saver": True, "on_battery": None} in [collector.read() for _ in range(EVERY)]
    (tmp_path / "firmware/acpi/platform_profile").unlink()
    assert {"battery_saver": None, "on_battery": None} in [collector.read() for _ in range(EVERY)]
    grow(tmp_path, {"class/power_supply/AC/type": "Mains", "class/power_supply/AC/online": "1"})
    assert {"battery_saver": None, "on_battery": False} in [collector.read() for _ in range(EVERY)]
    grow(tmp_path, {"class/power_supply/BAT0/type": "Battery", "class/power_supply/AC/online": "0"})
    assert {"battery_saver": None, "on_battery": True} in [collector.read() for _ in range(EVERY)]
    collector.close()
