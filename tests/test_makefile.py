# SPDX-License-Identifier: GPL-2.0-only
"""`make evaluate` and `make evaluate-fleet`: their commands in order, and what comes of their exit codes."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"
ASA = """#!/bin/sh
[ "$1" != lab ] || shift
echo "$1 $2" >> said
[ "$1 $2" != "fleet run" ] || echo "$*" >> runs
case "$*" in "FAILING"*) exit CODE; esac
case "$* " in "record "*" --scheduler all "*) exit 1; esac # all are not what it takes
[ "$1" != record ] || {
    folder=$(echo "$*" | sed 's/.*--in-lab \\([^ ]*\\).*/\\1/')
    mkdir -p "$folder"
    : > "$folder/${folder##*/}.journal.xz"
}
[ "$2" != prototype ] && [ "$2" != overhead ] || {
    folder=$(echo "$*" | sed 's/.*--folder \\([^ ]*\\).*/\\1/')
    mkdir -p "$folder/recordings" "$folder/trials"
    : > "$folder/recordings/one.journal.xz"
    : > "$(echo "$*" | sed 's/.*--out \\([^ ]*\\).*/\\1/')"
}
"""
STAGES = {  # by mode
    "": ["calibrate prototype", "calibrate overhead", *["record --scenario"] * 2, "train --kind", "adapt --machine"],
    "QUICK": ["calibrate prototype"],
    "FULL": [
        *["calibrate prototype", "calibrate overhead"] * 4,
        *["record --scenario"] * 2,
        "train --kind",
        *["adapt --machine"] * 6,
    ],
}

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed; apt-get install make")


def evaluate(folder, mode, failing, code, seed="", target="evaluate-fleet"):
    """What was called, and make's exit code."""
    asa = folder / "asa"
    asa.write_text(ASA.replace("FAILING", failing).replace("CODE", str(code)))
    asa.chmod(0o755)
    (folder / "models/recordings/sequences").mkdir(parents=True, exist_ok=True)
    (folder / "models/recordings/sequences/one.journal.xz").touch()
    words = ["make", "-f", str(MAKEFILE), "-o", "setup", target, f"ASA={asa}"]
    words += [f"{mode}=1"] if mode else []
    words += [f"SEED={seed}"] if seed else []
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    said = folder / "said"
    return said.read_text().splitlines() if said.exists() else [], done.returncode


@pytest.mark.parametrize(("code", "page", "ends"), [(0, True, 0), (4, True, 2), (1, False, 2)])
def test_the_agent_takes_turns_and_a_page_is_made_of_it(tmp_path, code, page, ends):
    said, ended = evaluate(tmp_path, "QUICK", "bench matrix", code, target="evaluate")
    assert (said, ended) == (["bench matrix", *(["evaluate oracle"] if page else [])], ends)


def test_in_full_the_fleet_is_played(tmp_path):
    said, ended = evaluate(tmp_path, "FULL", "fleet run", 1, target="evaluate")
    assert ended == 2
    assert said == [*STAGES["FULL"], "evaluate voting", "fleet run"]


@pytest.mark.parametrize("mode", STAGES)
@pytest.mark.parametrize(("code", "page", "ends"), [(0, True, 0), (4, True, 2), (1, False, 2), (130, False, 2)])
def test_a_page_is_made_of_what_was_played_now(tmp_path, mode, code, page, ends):
    said, ended = evaluate(tmp_path, mode, "fleet run", code)
    runs = ["fleet run"] * (1 if mode == "QUICK" or not page else 2)  # the second is of scenarios that change
    assert said == [*STAGES[mode], "evaluate voting", *runs, *(["evaluate fleet"] if page else [])]
    assert ended == ends  # 2 is make's own, for any code but 0


EIGHT = "audio+archive,audio+blender,game+disk,game+kernel,office+llm,office+network,web+video,web+archive"
CHANGING = "audio+blender~web+video,game+kernel~office+network,office+llm~audio+archive,web+archive~game+disk"
FOUR = "eevdf,scx_simple,scx_bpfland,scx_flash"
WITHOUT = "agent:no-voting,agent:no-cooldown,agent:no-guard,agent:no-cost"
EVERY = "vm120,vm121,vm125,vm128,vm122,vm123,vm124,vm126,vm127,vm129"
KEPT = "calibration/results/parallel"
RUNS = {  # by mode, folder: machines, scenarios, columns, lengths
    "": {
        f"{KEPT}/fleet/seed-2": ("vm120,vm122", EIGHT, f"{FOUR},agent,loader-auto", "1", "10", "30"),
        f"{KEPT}/fleet/changing-2": ("vm120", CHANGING, f"{FOUR},agent,{WITHOUT}", "1", "30", "30"),
    },
    "FULL": {
        f"build/evaluation-full/fleet/{run}-2": (EVERY, what, f"installed,controllers,eevdf,{WITHOUT}", "3", "30", "30")
        for run, what in (("seed", "all"), ("changing", "changing"))
    },
}


@pytest.mark.parametrize("mode", RUNS)
def test_what_the_fleet_is_asked_for(tmp_path, mode):
    evaluate(tmp_path, mode, "nothing", 1)
    names = ("--machine", "--scenario", "--scheduler", "--repeat", "--seconds", "--warm-up")
    found = {}
    for line in (tmp_path / "runs").read_text().splitlines():
        words = line.split()
        given = dict(zip(words[2::2], words[3::2], strict=False))
        found[given["--out"]] = tuple(given[name] for name in names)
        assert (given["--seed"], given["--jobs"]) == ("2", "2")
        assert Path(given["--table"]).name == "tables"
    assert found == RUNS[mode]


@pytest.mark.parametrize("run", RUNS[""])
def test_trials_that_failed_in_one_run_are_no_reason_not_to_play_the_other(tmp_path, run):
    said, ended = evaluate(tmp_path, "", f"fleet run --out {run} ", 4)
    assert (said[-3:], ended) == (["fleet run", "fleet run", "evaluate fleet"], 2)


def test_a_model_is_made_of_all_recordings_and_no_fleet_is_played_without_tables(tmp_path):
    said, ended = evaluate(tmp_path, "", "adapt --machine", 1)
    assert (said, ended) == (STAGES[""], 2)
    kept = tmp_path / "calibration/results/parallel/stages/recordings"
    assert {path.name for path in kept.iterdir()} == {
        "idle.journal.xz",
        "more.journal.xz",
        "vm120-overhead-one.journal.xz",
        "vm120-prototype-one.journal.xz",
    }


def test_what_a_clone_has_is_not_played_again(tmp_path):
    """A stage's tables without its trials, as Git has them; then the fleet's, too."""
    stages = tmp_path / "calibration/results/parallel/stages"
    for name in ("vm120-prototype", "vm120-overhead", "vm122-adapt", "tables"):
        (stages / name).mkdir(parents=True)
        (stages / name / "trials.parquet").touch()
    for name in ("tables/vm120.yaml", "model.md"):
        (stages / name).touch()
    said, ended = evaluate(tmp_path, "", "nothing", 1)  # of vm122 there is no table: it was cut off before that
    assert (said, ended) == (["adapt --machine", "evaluate voting", *["fleet run"] * 2, "evaluate fleet"], 0)
    (stages / "tables/vm122.yaml").touch()
    for run in ("seed-2", "changing-2"):
        played = tmp_path / "calibration/results/parallel/fleet" / run / "vm120"
        played.mkdir(parents=True)
        (played / "trials.parquet").touch()
    (tmp_path / "said").unlink()
    assert evaluate(tmp_path, "", "nothing", 1) == (["evaluate voting", "evaluate fleet"], 0)


@pytest.mark.parametrize("seed", ["11", "20"])
def test_a_seed_that_the_stages_learn_from_is_refused(tmp_path, seed):
    assert evaluate(tmp_path, "", "nothing", 1, seed=seed) == ([], 2)
