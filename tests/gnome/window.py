# SPDX-License-Identifier: GPL-2.0-only
"""A real GTK 4 window, run by the system's Python: window.py APPLICATION_ID TITLE.

Obeys lines on its standard input (fullscreen, unfullscreen, title TEXT); prints a line `shown` once it is on the
screen, `focus 0|1` at each change, and `text N` when N characters stand in it.
"""

import sys

import gi

gi.require_version("Gtk", "4.0")
from gi.repository import GLib, Gtk  # noqa: E402  # the version has to be settled first


def say(line):
    print(line, flush=True)


def obey(window):
    line = sys.stdin.readline()
    if not line:
        window.get_application().quit()
        return GLib.SOURCE_REMOVE
    verb, _, rest = line.rstrip("\n").partition(" ")
    if verb == "title":
        window.set_title(rest)
    else:
        {"fullscreen": window.fullscreen, "unfullscreen": window.unfullscreen}[verb]()
    return GLib.SOURCE_CONTINUE


def activate(application):
    window = Gtk.ApplicationWindow(application=application, title=sys.argv[2], default_width=400, default_height=200)
    view = Gtk.TextView()
    buffer = view.get_buffer()
    buffer.connect("changed", lambda changed: say(f"text {changed.get_char_count()}"))
    window.set_child(view)
    window.connect("notify::is-active", lambda *_: say(f"focus {int(window.is_active())}"))
    window.connect("map", lambda _: say("shown"))
    GLib.io_add_watch(0, GLib.IO_IN | GLib.IO_HUP, lambda *_: obey(window))
    window.present()


application = Gtk.Application(application_id=sys.argv[1])
application.connect("activate", activate)
application.run([])
