# SPDX-License-Identifier: GPL-2.0-only
"""Groups' names to ids of desktop entries, as systemd documents them and as desktops write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.hints.units import entry_of

APP = "user.slice/user-1000.slice/user@1000.service/app.slice"
UUID = "3c0a1bd2-6f0e-4d0c-9b1a-0123456789ab"


@pytest.mark.parametrize(
    ("unit", "entry"),
    [
        ("app-gnome-org.gnome.Evince-12345.scope", "org.gnome.Evince"),
        ("app-firefox-8d2f.scope", "firefox"),
        ("app-gnome-google\\x2dchrome-77.scope", "google-chrome"),
        ("app-flatpak-org.mozilla.firefox-991.scope", "org.mozilla.firefox"),
        ("app-org.kde.konsole@1f2e3d.service", "org.kde.konsole"),
        ("app-gnome-org.gnome.Software@autostart.service", "org.gnome.Software"),
        ("app-gnome-tracker-autostart.service", "tracker"),  # before systemd 248
        ("app-blender.service", "blender"),
        ("app-org.gnome.Terminal.slice", "org.gnome.Terminal"),
        ("app-gnome-steam-4711.slice", "steam"),
        ("app-steam-4711.slice", "steam"),
        ("dbus-:1.2-org.gnome.TextEditor@0.service", "org.gnome.TextEditor"),
        (f"snap.firefox.firefox-{UUID}.scope", "firefox_firefox"),
        ("gvfs-daemon.service", ""),
        ("app-.scope", ""),
        ("app-one.scope", ""),  # no random part: whose it is nobody knows
        ("app-gnome-a\\x2fb-1.scope", ""),  # no file's name
        ("app-gnome-a\\x0ab-1.scope", ""),
        ("app-x-y-1.mount", ""),
        ("app-" + 300 * "a" + "-1.scope", ""),
        ("", ""),
    ],
)
def test_a_units_entry(unit, entry):
    assert entry_of(f"{APP}/{unit}") == entry


@given(st.text())
def test_any_name_is_harmless(name):
    for unit in (name, f"app-{name}.scope", f"app-{name}-1.slice", f"dbus-:1.2-{name}.service"):
        assert "/" not in entry_of(unit)
