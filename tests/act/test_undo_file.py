# SPDX-License-Identifier: GPL-2.0-only
"""An undo journal that is damaged or forged touches no stranger and no file but those that it may."""

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from undo_machine import BEFORE, CPU, QOS, machine

__all__ = ["machine"]  # a fixture


@pytest.mark.parametrize(
    "body", ["{half", "[]", '{"running": [{"pid": 1}]}', '{"running": 1e99}', '{"ours": {"a": 1}}']
)
def test_a_damaged_file_is_said_once_and_gone(machine, body):
    machine.path.parent.mkdir()
    machine.path.write_text(body)
    assert machine.journal().leftover() == ()
    said = machine.journal().recover(1.0)
    assert said is not None
    assert "what it left is not known" in said
    assert machine.journal().recover(1.0) is None


def test_only_a_regular_file_is_believed(machine):
    machine.path.parent.mkdir()
    os.mkfifo(machine.path)
    said = machine.journal().recover(1.0)
    assert said is not None
    assert "not a regular file" in said
    target = machine.path.with_name("elsewhere")
    target.write_text("{}")
    machine.path.symlink_to(target)
    assert machine.journal().recover(1.0) is not None
    assert not machine.path.is_symlink()


def settings_of(**changes):
    return json.dumps({"running": [], "settings": {}, "ours": {}, **changes})


def test_no_path_of_the_journal_is_trusted(machine, tmp_path):
    victims = {
        "kernel/other": "x",
        f"{CPU}/cpu0/online": "1",
        f"{CPU}/../../../../elsewhere": "1",
        f"{CPU}/cpu0/power/pm_qos_resume_latency_us/../control": "1",
        str(tmp_path / "elsewhere"): "1",
    }
    for name in ("sys/kernel/other", f"sys/{CPU}/cpu0/online", f"sys/{CPU}/cpu0/power/control", "elsewhere"):
        (tmp_path / name).write_text("1")
    machine.path.parent.mkdir()
    body = settings_of(
        settings=dict.fromkeys(victims, "7"), ours={name: [value, "1"] for name, value in victims.items()}
    )
    machine.path.write_text(body)
    machine.journal().recover(1.0)
    assert (tmp_path / "elsewhere").read_text() == "1"
    assert (machine.sys / CPU / "cpu0/online").read_text() == "1"
    assert (machine.sys / CPU / "cpu0/power/control").read_text() == "1"
    assert (machine.sys / "kernel/other").read_text() == "1"


def test_only_a_value_that_the_file_can_hold_is_written(machine):
    machine.set(QOS[0], "32")
    machine.path.parent.mkdir()
    machine.path.write_text(settings_of(settings={QOS[0]: "rm -rf"}, ours={QOS[0]: ["32"]}))
    machine.journal().recover(1.0)
    assert machine.now()[QOS[0]] == "32"


NAMES = st.sampled_from([*BEFORE, "kernel/other", "../x", ""])
VALUES = st.sampled_from(["0", "32", "powersave", "n/a", "1", "x" * 100, ""])
DAMAGED = st.one_of(
    st.binary(max_size=200),
    st.fixed_dictionaries(
        {},
        optional={
            "running": st.lists(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "scheduler": st.text(max_size=5),
                        "pid": st.one_of(st.integers(), st.just("child")),
                        "start_ticks": st.integers(max_value=5),
                        "settled": st.booleans(),
                    },
                ),
                max_size=3,
            ),
            "settings": st.dictionaries(NAMES, VALUES),
            "ours": st.dictionaries(NAMES, st.lists(VALUES, max_size=3)),
            "doubtful": st.booleans(),
            "other": st.none(),
        },
    ),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damaged=DAMAGED)
def test_whatever_the_file_says_no_stranger_is_touched(machine, damaged):
    if not machine.children:
        machine.process()
    (child,) = machine.children
    if isinstance(damaged, dict):
        for one in damaged.get("running", ()):
            if one.get("pid") == "child":
                one["pid"] = child.pid
        damaged = json.dumps(damaged).encode()
    machine.path.parent.mkdir(exist_ok=True)
    machine.path.write_bytes(damaged)
    for name, value in BEFORE.items():
        machine.set(name, value)
    machine.journal().recover(0.0)
    assert child.poll() is None
    for name, value in machine.now().items():
        # only a well-formed journal that names this file with another value it can hold gets it written
        assert value == BEFORE[name] or f'"{name}"'.encode() in damaged
        assert value in ("0", "32", "powersave", "n/a", "1", BEFORE[name])
    machine.journal().recover(0.0)
    assert not machine.path.exists()
