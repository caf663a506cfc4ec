# SPDX-License-Identifier: GPL-2.0-only
"""The extension in a real GNOME Shell with real windows, real keys and a real bus."""

import time

import pytest
from buses import Bus
from waiting import until

from collectors.gnome import extension

pytestmark = pytest.mark.gnome

TYPES = {
    "pid": "u",
    "app": "s",
    "window-class": "s",
    "title-class": "s",
    "client": "s",
    "sandboxed-app": "s",
    "fullscreen": "b",
    "overview": "b",
    "idle-ms": "t",
    "input-events": "t",
    "seq": "t",
}
NOTHING = {"pid": 0, "app": "", "window-class": "", "title-class": "", "client": "", "fullscreen": False}


@pytest.fixture
def listener(shell):
    """A connection of its own to the session bus."""
    bus = Bus(shell.address)
    yield bus
    bus.close()


def properties(shell):
    interface = "org.freedesktop.DBus.Properties"
    told = shell.bus.call(extension.NAME, extension.OBJECT_PATH, interface, "GetAll", "s", extension.NAME)[0]
    return {name: (value.signature, value.value) for name, value in told.items()}


def values(signal):
    return {key: variant.value for key, variant in signal[0].items()}


def test_keys_types_and_properties(shell):
    assert {key: value.signature for key, value in shell.raw_state().items()} == TYPES
    told = properties(shell)
    assert told["ApiVersion"] == ("u", extension.API_VERSION)
    assert told["ShellVersion"][0] == "s"
    assert told["ShellVersion"][1].startswith(f"{shell.major()}.")
    assert NOTHING.items() <= shell.state().items()


def test_focus_goes_from_one_window_to_another(shell, listener):
    signals = listener.listen("StateChanged")
    one = shell.open_window("ann@laptop: ~/src", "org.asa.One")
    state = shell.state()
    assert (state["pid"], state["window-class"], state["title-class"]) == (one.pid, "org.asa.One", "terminal")
    assert (state["client"], state["sandboxed-app"], state["fullscreen"]) == ("wayland", "", False)
    assert state["app"] != ""
    two = shell.open_window("News - Mozilla Firefox", "org.asa.Two")
    assert (shell.state()["pid"], shell.state()["title-class"]) == (two.pid, "browser")
    shell.focus(one)
    listener.receive(lambda: signals and values(signals[-1])["pid"] == one.pid, "the focus is told to be back at one")
    pids = [values(signal)["pid"] for signal in signals]
    assert two.pid in pids
    assert pids.index(one.pid) < pids.index(two.pid)
    assert [values(signal)["seq"] for signal in signals] == sorted({values(signal)["seq"] for signal in signals})
    assert {key: value.signature for key, value in signals[-1][0].items()} == TYPES
    for window in (one, two):
        window.close()
    until(lambda: NOTHING.items() <= shell.state().items(), "no window has the focus")
    listener.receive(lambda: values(signals[-1])["pid"] == 0, "that nobody has the focus is told")


def test_fullscreen_and_overview(shell, listener):
    window = shell.open_window("Film")
    signals = listener.listen("StateChanged")
    window.order("fullscreen")
    listener.receive(lambda: signals and values(signals[-1])["fullscreen"], "fullscreen is told")
    assert shell.state()["fullscreen"] is True
    window.order("unfullscreen")
    listener.receive(lambda: not values(signals[-1])["fullscreen"], "its end is told")
    shell.set_overview(True)
    listener.receive(lambda: values(signals[-1])["overview"], "the overview is told")
    assert shell.state()["overview"] is True
    shell.set_overview(False)
    listener.receive(lambda: not values(signals[-1])["overview"], "its end is told")
    assert (shell.state()["overview"], shell.state()["pid"]) == (False, window.pid)


def test_typed_keys_are_counted_and_end_idleness(shell):
    window = shell.open_window("Letter")
    until(lambda: shell.state()["idle-ms"] >= 300, "idle for 300 ms")
    before = shell.state()["input-events"]
    for number, key in enumerate("hello", 1):
        shell.type_keys(key)
        window.said(f"text {number}")  # the window of a Wayland client has got it
        until(lambda number=number: shell.state()["input-events"] >= before + number, f"{number} keys are counted")
        idle_ms = shell.state()["idle-ms"]
        until(lambda idle_ms=idle_ms: shell.state()["idle-ms"] >= idle_ms + 40, "time goes on until the next key")
    assert shell.state()["input-events"] <= before + 10  # 5 pressed, 5 released
    idle_ms = shell.state()["idle-ms"]
    shell.click()
    until(lambda: shell.state()["input-events"] > before + 5, "a button is counted")
    count = shell.state()["input-events"]
    until(lambda: shell.state()["idle-ms"] >= 300, "idle again")
    assert shell.state()["input-events"] <= count + 1  # its release; else nothing counts by itself


def test_a_burst_of_motion_is_counted_fifty_times_a_second_at_most(shell):
    before, begin_s = shell.state()["input-events"], time.monotonic()
    shell.move_pointer(1000)
    counted, took_s = shell.state()["input-events"] - before, time.monotonic() - begin_s
    assert 1 <= counted <= took_s * 50 + 2


def test_many_changes_are_told_ten_times_a_second_at_most(shell, listener):
    one, two = shell.open_window("One", "org.asa.One"), shell.open_window("Two", "org.asa.Two")
    signals = listener.listen("StateChanged")
    begin_s = time.monotonic()
    for _ in range(40):
        shell.focus(one)
        shell.focus(two)
    shell.focus(one)
    listener.receive(lambda: signals and values(signals[-1])["pid"] == one.pid, "the last one is told")
    took_s = time.monotonic() - begin_s
    assert len(signals) <= took_s * 10 + 2
    assert len(signals) < 80 or took_s > 8.0  # so slow a host may tell each


def test_a_title_never_leaves_the_shell(shell):
    monitor = Bus(shell.address)
    seen = monitor.monitor()

    def told():
        return [values(message.body)["title-class"] for message in seen if message.member == "StateChanged"]

    hidden = "Zwiebelkuchen"
    window = shell.open_window(f"{hidden}.pdf - Mozilla Firefox")
    monitor.receive(lambda: "browser" in told(), "the title is classed")
    for title, title_class in ((f"{hidden}.txt", "document"), (hidden, "other")):
        window.order(f"title {title}")
        monitor.receive(lambda expected=title_class: told()[-1] == expected, f"it is now a {title_class}")
        assert shell.state()["title-class"] == title_class
    # The shell has the title, and the monitor would see it: asked by force, it is in one message and in no other.
    assert shell.eval("global.display.focus_window.get_title()") == f'"{hidden}"'
    monitor.receive(lambda: any(hidden in str(message.body) for message in seen), "the monitor sees what is said")
    (answer,) = [message for message in seen if hidden in str(message.body)]
    assert answer.body == [True, f'"{hidden}"']
    monitor.close()


def test_disabled_and_enabled_again(shell, listener):
    window = shell.open_window("Letter")
    signals = listener.listen("StateChanged")
    for _ in range(3):
        shell.disable_extension()
        shell.type_keys("a")
        shell.enable_extension()
        assert shell.state()["pid"] == window.pid
        count = shell.state()["input-events"]
        # again and again: what was typed before may be counted late, and the watch pauses after it
        until(lambda n=count: shell.type_keys("a") or shell.state()["input-events"] > n, "input is counted again")
    listener.receive(lambda: len(signals) >= 3, "each time the state is told")
    shell.disable_extension()
    told = len(signals)
    window.order("fullscreen")
    until(lambda: shell.eval("global.display.focus_window.is_fullscreen()") == "true", "fullscreen")
    window.close()
    until(lambda: shell.eval("global.display.focus_window === null") == "true", "no focus")
    listener.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Peer", "Ping")
    assert len(signals) == told
    assert extension.UUID not in shell.log(), shell.log()  # the shell logs an extension's errors under its name
    assert "extension.js" not in shell.log(), shell.log()


def test_off_while_the_screen_is_locked(shell):
    window = shell.open_window("Letter")
    shell.lock()
    shell.unlock()
    assert shell.state()["pid"] == window.pid
    assert "extension.js" not in shell.log(), shell.log()


def test_a_shell_that_was_killed_comes_back_with_it(shell):
    shell.open_window("Letter")
    shell.kill_shell()
    until(lambda: not shell.owns(extension.NAME), "its name is gone")
    shell.start_shell()
    window = shell.open_window("Letter")
    assert shell.state()["pid"] == window.pid
