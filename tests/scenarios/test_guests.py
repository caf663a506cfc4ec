# SPDX-License-Identifier: GPL-2.0-only
"""What guests that are measured are booted with."""

from types import SimpleNamespace

import msgspec

from scenarios import guests
from scenarios.conditions import Conditions
from scenarios.lab.machines import load


def test_what_is_measured_has_the_parallel_clock_and_the_machines_tick(monkeypatch, tmp_path):
    machine = msgspec.structs.replace(load("laptop-hybrid"), tick_hz=250)
    asked, booted = [], []
    lab = SimpleNamespace(kernel="kernel", emulator="emulator")
    monkeypatch.setattr(guests.guest, "ready", lambda *_, **options: asked.append(options) or lab)
    monkeypatch.setattr(guests.Guest, "start", lambda command, **options: booted.append((command, options)))
    made = guests.ready(tmp_path, print, machine)
    guests.booter(made, machine)(["true"], tmp_path, 9.0)
    assert asked == [{"measuring": True, "tick_hz": 250}]
    ((command, options),) = booted
    assert (command, options["clock"], options["machine"]) == (["true"], "parallel", machine)
    assert guests.conditions(machine) == Conditions(clock="parallel", tick_hz=250, machine="laptop-hybrid")
