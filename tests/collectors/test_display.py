# SPDX-License-Identifier: GPL-2.0-only
"""Screens of laptops, handhelds and hybrids, by the names that sysfs gives connectors."""

import pytest

from collectors import display


def plug(sys, connectors, drivers):
    for name, status in connectors.items():
        (sys / "class/drm" / name).mkdir(parents=True)
        (sys / "class/drm" / name / "status").write_text(f"{status}\n")
    for card, driver in drivers.items():
        (sys / "class/drm" / card / "device").mkdir(parents=True)
        (sys / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        (sys / "class/drm" / card / "device/driver").symlink_to(sys / "drivers" / driver)


@pytest.mark.parametrize(
    ("connectors", "external", "words"),
    [
        ({"card1-eDP-1": "connected", "card1-HDMI-A-1": "disconnected"}, False, "card1 (amdgpu) drives eDP-1"),
        (
            {"card0-DP-3": "connected", "card1-eDP-1": "connected", "card1-DVI-I-1": "unknown"},
            True,
            "card0 (nvidia) drives DP-3; card1 (amdgpu) drives eDP-1",
        ),
        ({"card1-DSI-1": "connected", "card1-Writeback-1": "connected"}, False, "card1 (amdgpu) drives DSI-1"),
        ({"card1-HDMI-A-2": "connected"}, True, "card1 (amdgpu) drives HDMI-A-2"),
        ({"card1-eDP-1": "disconnected"}, False, "no screen is connected"),
        ({"card9-VGA-1": "connected"}, True, "card9 (driver unknown) drives VGA-1"),
    ],
)
def test_who_drives_what(tmp_path, connectors, external, words):
    plug(tmp_path, connectors, {"card0": "nvidia", "card1": "amdgpu"})
    assert display.external(tmp_path) is external
    assert display.words(display.screens(tmp_path)) == words


def test_unknown_without_connectors(tmp_path):
    assert display.external(tmp_path) is None
    plug(tmp_path, {"card0-Virtual-1": "connected", "renderD128": "", "version": ""}, {"card0": "vkms"})
    assert display.screens(tmp_path) is None
