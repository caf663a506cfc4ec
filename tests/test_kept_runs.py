# SPDX-License-Identifier: GPL-2.0-only
"""What is kept of runs of everything: second tries, and seconds by part."""

from types import SimpleNamespace

import beside
import kept_runs


def test_a_second_try_in_two_of_the_last_three_runs_is_one_too_many(tmp_path):
    path = tmp_path / "reruns.json"
    assert kept_runs.too_often(kept_runs.remember(path, ["a"])) == []
    assert kept_runs.too_often(kept_runs.remember(path, ["b"])) == []
    assert kept_runs.too_often(kept_runs.remember(path, ["a", "c"])) == ["a"]
    assert kept_runs.too_often(kept_runs.remember(path, [])) == []
    assert kept_runs.too_often(kept_runs.remember(path, ["b"])) == []  # the other was four runs ago
    path.write_text("{")
    assert kept_runs.remember(path, ["d"]) == [["d"]]


def test_seconds_go_by_folder_and_guests_are_apart():
    def report(nodeid, duration, *marks):
        return SimpleNamespace(nodeid=nodeid, duration=duration, keywords=dict.fromkeys(marks, 1))

    stats = {
        "passed": [report("tests/act/test_a.py::x", 1.0), report("tests/act/gated/test_b.py::x", 2.0)],
        "failed": [report("tests/test_c.py::x", 0.5), report("tests/scenarios/lab/test_guest.py::x", 60.0, "vm")],
        "warnings": [SimpleNamespace(message="none")],
    }
    found = kept_runs.seconds_by_part(stats, 10.0, "check=30 setup=1")
    assert found["parts"] == {
        "check": 30.0,
        "setup": 1.0,
        "guests, beside the others": 60.0,
        "tests of act": 3.0,
        "other tests": 0.5,
    }
    assert (found["seconds"], found["warm"]) == (41.0, True)
    assert not kept_runs.seconds_by_part({}, 1.0, "setup=900")["warm"]


def test_what_had_a_second_try_here_and_in_guests_is_one_list():
    here = SimpleNamespace(nodeid="tests/test_a.py::test_b")
    terminal = SimpleNamespace(stats={"rerun": [here, here]})
    plugins = SimpleNamespace(getplugin={"terminalreporter": terminal}.get)
    config = SimpleNamespace(stash={beside.AGAIN: ["tests/guest/test_c.py::test_d"]}, pluginmanager=plugins)
    assert kept_runs.played_again(config) == ["tests/guest/test_c.py::test_d", "tests/test_a.py::test_b"]
    config.stash = {}
    assert kept_runs.played_again(config) is None
