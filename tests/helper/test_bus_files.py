# SPDX-License-Identifier: GPL-2.0-only
"""One table of the helper's verbs: the files of bus and polkit, the desk and the fuzzed calls say the same."""

import inspect

import pytest

from asa.core.helper_api import ASKED, INTERFACE, Action, Call, Verb
from asa.helper import bus_files
from asa.helper.desk import Desk
from scenarios.lab.box import fuzz


@pytest.mark.parametrize("name", [bus_files.POLICY, bus_files.ACTIONS])
def test_the_files_that_are_installed_are_those_of_the_table(name):
    kept = (bus_files.DATA / name).read_text(encoding="utf-8")
    assert kept == bus_files.texts()[name], "run `python -m asa.helper.bus_files`"


def test_they_are_written_anew(tmp_path):
    bus_files.write(tmp_path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == bus_files.texts()


def test_each_verb_has_its_method_at_the_desk():
    methods = {verb.member: getattr(Desk, f"_{verb.name.lower()}") for verb in Verb}
    assert all(list(inspect.signature(method).parameters) == ["self", "request"] for method in methods.values())


def test_what_each_verb_needs_before_it_is_done():
    needs = {verb.member: (verb.value.action, verb.value.lease) for verb in Verb}
    assert needs == {
        "Acquire": (Action.SWITCH, False),
        "Release": (None, True),
        "Switch": (Action.SWITCH_UNAPPROVED, True),
        "KeepReady": (None, True),
        "Probes": (Action.OBSERVE, False),
        "Hold": (Action.HOLD, False),
        "Resume": (Action.HOLD, False),
        "Approve": (Action.CONFIGURE, False),
        "Vouch": (Action.VOUCH, False),
    }
    with pytest.raises(ValueError, match="needs an action, a lease, or both"):
        Call(doc="Anybody may.")


def test_polkit_is_told_of_every_action_and_each_is_asked_for():
    assert set(ASKED) == set(Action)
    assert {verb.value.action for verb in Verb} - {None} == set(Action)


def test_the_fuzzed_calls_are_those_of_the_table():
    assert fuzz._METHODS[INTERFACE] == {verb.member: verb.value.takes for verb in Verb}
