# SPDX-License-Identifier: GPL-2.0-only
"""The desktop collector on a real GNOME Shell with real windows: what the person does is what it tells."""

from pathlib import Path

import pytest
from waiting import until

from asa.core.errors import SourceError
from asa.core.sample import DesktopEntry
from collectors.desktop import DesktopCollector
from collectors.hints.collector import HintCollector

pytestmark = pytest.mark.gnome
S_NS = 1_000_000_000


class Watcher:
    """A collector whose clock runs a second ahead at each read, as the agent's does."""

    def __init__(self, shell):
        self.now_ns = S_NS
        names = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "WAYLAND_DISPLAY")
        environment = {name: shell.env[name] for name in names}
        self.collector = DesktopCollector(
            Path("/proc"), Path("/sys"), environment=environment, run=Path("/nowhere"), now_ns=lambda: self.now_ns
        )
        self.why = ""

    def read(self):
        self.now_ns += S_NS // 10
        try:
            return self.collector.read()["desktop"]
        except SourceError as error:
            self.why = error.reason
            return None

    def shows(self, condition):
        told = lambda: f"{condition}; it says {self.read()} {self.why!r}"  # noqa: E731
        return until(lambda: (now := self.read()) and condition(now) and now, told, 40.0)

    def says(self, words):
        until(lambda: self.read() is None and words in self.why, lambda: f"{words!r}; it says {self.why!r}", 40.0)


@pytest.fixture
def watcher(shell):
    watcher = Watcher(shell)
    watcher.collector.open()
    yield watcher
    watcher.collector.close()


def test_windows_that_take_turns_and_what_is_typed(shell, watcher):
    assert (watcher.collector.source, watcher.collector.lacking) == ("gnome", {})
    notes = shell.open_window("notes.txt", "org.asa.Notes")
    seen = watcher.shows(lambda now: now.focus and now.focus.group.startswith(f"pid:{notes.pid}@"))
    assert (seen.source, seen.title_class, seen.overview) == ("gnome", "document", False)
    assert seen.focus.processes >= 1
    assert seen.focus.memory_bytes > 1_000_000
    page = shell.open_window("News - Mozilla Firefox", "org.asa.Page")
    watcher.shows(lambda now: now.focus and now.focus.group.startswith(f"pid:{page.pid}@") and not now.fullscreen)
    page.order("fullscreen")
    assert watcher.shows(lambda now: now.fullscreen).title_class == "browser"
    shell.focus(notes)
    before = watcher.shows(lambda now: now.focus and now.focus.group.startswith(f"pid:{notes.pid}@"))
    shell.type_keys("hello world")
    notes.said("text 11")
    after = watcher.shows(lambda now: now.input_events > before.input_events)
    assert after.idle_ms < 5000
    idle = watcher.shows(lambda now: now.idle_ms > after.idle_ms + 300)
    shell.type_keys("a")
    watcher.shows(lambda now: now.idle_ms < idle.idle_ms and now.input_events > after.input_events)
    shell.set_overview(True)
    watcher.shows(lambda now: now.overview)


def test_the_extension_goes_and_comes(shell, watcher):
    window = shell.open_window()
    watcher.shows(lambda now: now.focus and now.focus.group.startswith(f"pid:{window.pid}@"))
    shell.disable_extension()
    watcher.says("is off")
    shell.enable_extension()
    watcher.shows(lambda now: now.focus)
    shell.lock()
    watcher.says("is off")
    shell.unlock()
    watcher.shows(lambda now: now.focus)


def test_the_shell_is_killed_and_starts_again(shell, watcher):
    watcher.shows(lambda now: now.source == "gnome")
    shell.kill_shell()
    watcher.says("GNOME Shell does not run")
    shell.start_shell()
    window = shell.open_window("~/work", "org.asa.Terminal")
    seen = watcher.shows(lambda now: now.focus and now.focus.group.startswith(f"pid:{window.pid}@"))
    assert seen.title_class == "terminal"


def test_a_shell_without_the_extension_says_what_to_do(make_shell):
    watcher = Watcher(make_shell(with_extension=False).start())
    watcher.collector.open()
    assert "asa gnome install" in watcher.collector.lacking["desktop"]
    watcher.says("asa gnome install")
    watcher.collector.close()


def test_the_desktop_entry_of_the_window_in_front(make_shell):
    shell = make_shell()
    entries = shell.home / ".local/share/applications"
    entries.mkdir(parents=True, exist_ok=True)
    for name, categories in (("org.asa.Notes", "Office;TextEditor;"), ("org.asa.Page", "Network;WebBrowser;")):
        text = f"[Desktop Entry]\nType=Application\nName=One\nExec=true\nCategories={categories}\n"
        (entries / f"{name}.desktop").write_text(text)
    watcher = Watcher(shell.start())
    watcher.collector.open()
    hints = HintCollector(
        Path("/proc"), Path("/sys"), environment=shell.env, run=Path("/nowhere"), now_ns=lambda: watcher.now_ns
    )

    def of(window):
        hints.follow({"desktop": window})
        return hints.read()["hints"]

    try:
        notes = shell.open_window("notes.txt", "org.asa.Notes")
        watcher.shows(lambda now: of(now).entries == (DesktopEntry("org.asa.Notes", ("Office", "TextEditor")),))
        shell.open_window("News", "org.asa.Page")
        watcher.shows(lambda now: of(now).entries == (DesktopEntry("org.asa.Page", ("Network", "WebBrowser")),))
        shell.focus(notes)
        watcher.shows(lambda now: of(now).front == "org.asa.Notes")
        shell.open_window("Nobody's", "org.asa.Unheard")
        watcher.shows(lambda now: of(now).front == "org.asa.Unheard" and of(now).entries == ())
    finally:
        hints.close()
        watcher.collector.close()
