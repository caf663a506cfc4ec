# SPDX-License-Identifier: GPL-2.0-only
"""Hints as a sample has them: the window in front, running groups, players; what is missing, and what a tick opens."""

import os

import pytest
from services_desk import GAMES, PLAYER, games, player
from waiting import until

from asa.core.sample import DesktopEntry, DesktopState, FocusCounters, GroupUsage
from collectors.hints.collector import HintCollector
from collectors.hints.line import ROUND_NS
from collectors.hints.pipewire import Streams

APP = "user.slice/user-1000.slice/user@1000.service/app.slice"


class Seat:
    """A collector with a home folder and a bus of its own."""

    def __init__(self, desk, folder):
        self.desk = desk
        self.home = folder / "home"
        self.proc = folder / "proc"
        environment = {
            "HOME": str(self.home),
            "XDG_DATA_DIRS": str(folder / "data"),
            "DBUS_SESSION_BUS_ADDRESS": desk.bus.address,
            "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere",
        }
        self.collector = HintCollector(
            self.proc, folder, environment=environment, run=folder / "run", now_ns=lambda: desk.now_ns
        )
        self.collector.open()

    def entry(self, name, categories):
        path = self.home / f".local/share/applications/{name}.desktop"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"[Desktop Entry]\nType=Application\nCategories={categories}\n")

    def read(self, desktop=None, groups=(), step_ns=1_000_000_000):
        self.desk.now_ns += step_ns
        fields = {} if desktop is None else {"desktop": desktop}
        if groups:
            fields["groups"] = GroupUsage(cpu_us=tuple((path, 1) for path in groups))
        self.collector.follow(fields)
        found = self.collector.read()["hints"]
        self.desk.pump()
        return found


@pytest.fixture
def seat(desk, tmp_path):
    made = Seat(desk, tmp_path)
    yield made
    made.collector.close()


def window(app="", window_class="", group=None):
    focus = None if group is None else FocusCounters(group=group, processes=1, cpu_ns=1, memory_bytes=1)
    return DesktopState(
        source="gnome",
        app=app,
        window_class=window_class,
        title_class="other",
        fullscreen=False,
        overview=False,
        idle_ms=0,
        input_events=0,
        focus=focus,
    )


@pytest.mark.parametrize(
    "desktop",
    [
        window(app="org.libreoffice.writer.desktop"),
        window(app="org.libreoffice.writer"),  # a sandboxed one
        window(app="window:7", group=f"{APP}/app-gnome-org.libreoffice.writer-88.scope"),
        window(window_class="org.libreoffice.writer"),
        window(window_class="Org.LibreOffice.Writer", group="pid:77@99"),
    ],
)
def test_the_entry_of_the_window_in_front(seat, desktop):
    seat.entry("org.libreoffice.writer", "Office;WordProcessor;")
    found = seat.read(desktop)
    assert found.front == "org.libreoffice.writer"
    assert found.entries == (DesktopEntry("org.libreoffice.writer", ("Office", "WordProcessor")),)


def test_a_window_without_an_entry_has_its_name_and_no_categories(seat):
    assert (seat.read(window(app="gone.desktop", window_class="Gone")).front, seat.read().front) == ("gone", "")
    assert seat.read(window(app="window:7", window_class="Gone")).front == "Gone"
    seat.entry("bare", "")
    found = seat.read(window(app="bare.desktop", window_class="Other"))
    assert (found.front, found.entries) == ("bare", ())


def test_two_in_front_by_turns(seat):
    seat.entry("one", "Game;")
    seat.entry("two", "Office;")
    for _ in range(5):
        assert seat.read(window(app="one.desktop")).entries == (DesktopEntry("one", ("Game",)),)
        assert seat.read(window(app="two.desktop")).entries == (DesktopEntry("two", ("Office",)),)


def test_without_a_desktop_groups_tell_what_is_in_front(seat, tmp_path):
    seat.entry("packer", "Utility;Archiving;")
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    (tmp_path / "fs/cgroup/cgroup.controllers").touch()
    group = f"{APP}/app-gnome-packer-1.scope".replace("1000", str(os.geteuid()))
    found = seat.read(groups=[group])
    assert (found.front, found.front_by_groups) == ("packer", True)
    assert found.entries == (DesktopEntry("packer", ("Utility", "Archiving")),)
    found = seat.read(window(window_class="Other"), [group])  # a desktop that tells counts alone
    assert (found.front, found.front_by_groups) == ("Other", None)


def test_running_groups_of_known_entries(seat):
    seat.entry("packer", "Utility;Archiving;")
    seat.entry("one", "Game;")
    groups = [f"{APP}/app-gnome-packer-1.scope", f"{APP}/app-gnome-packer-2.scope", f"{APP}/app-unheard.of-3.scope"]
    found = seat.read(window(app="one.desktop"), [*groups, "system.slice/cron.service"])
    assert found.entries == (DesktopEntry("one", ("Game",)), DesktopEntry("packer", ("Utility", "Archiving")))
    assert seat.read(window(app="one.desktop")).entries == (DesktopEntry("one", ("Game",)),)  # it has ended


def test_five_hundred_scopes_take_their_turns_and_the_one_in_front_goes_first(seat):
    for number in range(500):
        seat.entry(f"app{number}", "Archiving;")
    seat.entry("front", "Office;")
    groups = [f"{APP}/app-gnome-app{number}-1.scope" for number in range(500)]
    sizes = [len(seat.read(window(app="front.desktop"), groups).entries) for _ in range(4)]
    assert sizes == [4, 8, 12, 16]
    assert seat.read(window(app="front.desktop"), groups).front == "front"


def test_services_and_sound_cards(seat, desk):
    seat.entry("vlc", "AudioVideo;Video;")
    speaker = seat.proc / "asound/card0/pcm0p/sub0"
    speaker.mkdir(parents=True)
    (speaker / "status").write_text("state: RUNNING\n")
    first = seat.read()
    assert (first.playing, first.game_clients, first.idle_inhibited) == (None, None, None)
    assert (first.sound_played, first.sound_recorded) == (True, None)
    desk.peer(GAMES, **games(1))
    desk.peer(f"{PLAYER}.vlc", **player("Playing", "vlc"))
    found = until(lambda: (one := seat.read(step_ns=ROUND_NS)).playing and one.game_clients and one, "services")
    assert (found.playing, found.game_clients) == (("vlc",), 1)
    found = seat.read(step_ns=ROUND_NS)
    assert found.entries == (DesktopEntry("vlc", ("AudioVideo", "Video")),)


def test_a_bus_that_is_gone_leaves_the_entries(seat, desk):
    seat.entry("one", "Game;")
    desk.peer(GAMES, **games(1))
    until(lambda: seat.read(step_ns=ROUND_NS).game_clients, "GameMode")
    desk.bus.stop()
    found = until(
        lambda: (one := seat.read(window(app="one.desktop"), step_ns=ROUND_NS)).game_clients is None and one, ""
    )
    assert (found.front, found.playing, len(found.entries)) == ("one", None, 1)


def test_a_tick_between_two_rounds_opens_nothing(seat, monkeypatch):
    seat.entry("one", "Game;")
    groups = [f"{APP}/app-gnome-one-1.scope", f"{APP}/app-gnome-none-2.scope"]
    for _ in range(8):
        seat.read(window(app="one.desktop"), groups, step_ns=ROUND_NS)
    opened = []
    monkeypatch.setattr(os, "open", lambda *call: opened.append(call))
    monkeypatch.setattr(os, "scandir", lambda *call: opened.append(call))
    for _ in range(4):
        seat.read(window(app="one.desktop"), groups, step_ns=ROUND_NS // 5)
    assert opened == []


def test_sound_that_no_card_makes(seat):
    assert (seat.read().sound_played, seat.read().sound_latency_ms) == (None, None)
    seat.collector._pipewire.streams = Streams(playing=True, recording=False, latency_ms=5.0)
    found = seat.read()
    assert (found.sound_played, found.sound_recorded, found.sound_latency_ms) == (True, False, 5.0)
