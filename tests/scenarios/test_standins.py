# SPDX-License-Identifier: GPL-2.0-only
"""The stand-ins on this host: each plays and leaves nothing, the interactive ones feel hogs, builds fail well."""

import dataclasses
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from playing import play, suffers_from_hogs

from calibration.scoring import table
from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.catalogue import BACKGROUND, INTERACTIVE, role_of
from scenarios.standins import APPLICATIONS, build

SHORT = {
    "audio": {"spare": 0},
    "web": {"think-ms": 20, "scroll-frames": 8, "sort-us": 8_000},
    "office": {"think-ms": 20, "key-ms": 15, "keys": 3},
    "archive": {"blocks": 4},
    "blender": {"tiles": 6, "tile-us": 5_000},
    "kernel": {"objects": 24, "object-us": 60_000},
    "llm": {"prompt-tokens": 8, "tokens": 1_000, "pause-ms": 20, "node-us": 20},
    "disk": {"file-kb": 1_024},
    "video": {"pictures": 6, "row-us": 400},
}
"""So that each metric comes soon, on a machine that others use too."""


def short(name):
    application = APPLICATIONS[name]

    def draw(rng, place):
        return {**application.draw(rng, place), **SHORT.get(name, {})}

    return dataclasses.replace(application, draw=draw)


def place_in(folder, cpus=4):
    return Place(cache=folder / "scenarios/web", cpus=cpus, tier=Tier.LAB)


def test_they_are_those_of_the_table():
    assert set(APPLICATIONS) <= {*INTERACTIVE, *BACKGROUND}
    assert {path.stem for path in build.SOURCES.glob("*.c") if "\nKIND(" in path.read_text()} == set(APPLICATIONS)
    for name, one in APPLICATIONS.items():
        assert one.metrics == tuple(metric.name for metric in table.APPLICATIONS[name].metrics)
        assert (one.name, one.role) == (name, role_of(name))


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize("cpus", [1, 2, 12])
def test_sessions_of_other_seeds_differ(tmp_path, name, cpus):
    draw, place = APPLICATIONS[name].draw, place_in(tmp_path, cpus)
    drawn = [draw(random.Random(seed), place) for seed in (*range(20), 0)]  # noqa: S311
    assert drawn[0] == drawn[-1]
    for flag in drawn[0]:
        values = {one[flag] for one in drawn}
        assert min(values) >= 0
        assert len(values) > 1 or flag in {"cpus", "threads", "step-ms", "spin-us", "burst-us", "workers"}, flag


@pytest.mark.apps
@pytest.mark.parametrize("name", APPLICATIONS)
def test_it_plays_and_leaves_nothing(tmp_path, name):
    values = play(short(name), seed=3, seconds=1, tmp_path=tmp_path)
    shares = {"udp_loss_pct", "underruns_per_min", "udp_jitter_ms"}
    for metric, found in values.items():
        assert min(found) >= 0, metric
        assert metric in shares or max(found) > 0, metric


@pytest.mark.apps
@pytest.mark.slow
@pytest.mark.one_cpu
@pytest.mark.parametrize("name", INTERACTIVE)
def test_the_interactive_ones_suffer_from_a_busy_machine(tmp_path, name):
    larger = ("fps", "chunks_per_s")
    suffers_from_hogs(short(name), seed=1, seconds=2.5, tmp_path=tmp_path, larger=larger)


def test_the_sources_are_clean(tmp_path):
    sources = sorted(map(str, build.SOURCES.glob("*.c")))
    command = ["gcc", *build.FLAGS, "-Wextra", "-Werror", "-o", str(tmp_path / "stand_in"), *sources]
    subprocess.run(command, check=True, timeout=240)
    for kind, words in (("chess", "chess is no kind"), ("video", "--pictures is missing")):
        command = [tmp_path / "stand_in", kind, "{}"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (ended.returncode, ended.stderr) == (2, f"stand_in: {words}\n")


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder of other sources: one small program."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    monkeypatch.setattr(build, "SOURCES", folder)
    build._key.cache_clear()
    yield folder
    build._key.cache_clear()


def test_it_is_compiled_once_for_each_state_of_the_sources(tmp_path, sources):
    place, said = place_in(tmp_path), []
    with ThreadPoolExecutor(3) as pool:  # three sessions that start at once
        list(pool.map(lambda _: build.prepare(place, said.append), range(3)))
    first = build.program(place)
    subprocess.run([first], check=True, timeout=60)
    assert [path.name for path in first.parent.parent.iterdir()] == [first.parent.name]
    said.clear()
    build.prepare(place, said.append)
    assert said == []
    (sources / "main.c").write_text("int main(void) { return 1; }\n")
    build._key.cache_clear()
    assert not build.program(place).exists()


def refused(place):
    with pytest.raises(ApplicationError) as caught:
        build.prepare(place, lambda _: None)
    assert not build.program(place).exists()
    return caught.value


def test_what_hinders_a_build_is_said(tmp_path, sources, monkeypatch):
    place = place_in(tmp_path)
    (sources / "main.c").write_text("int main(void) { return here; }\n")
    build._key.cache_clear()
    broken = refused(place)
    assert broken.failure is Failure.UNPREPARED
    assert "here" in broken.reason
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    missing = refused(place)
    assert missing.failure is Failure.MISSING
    assert "apt-get install gcc libc6-dev" in missing.reason


def test_a_cache_that_cannot_be_written_is_said(tmp_path, sources):
    (tmp_path / "scenarios").write_text("a file where the folder should be")
    error = refused(place_in(tmp_path))
    assert error.failure is Failure.UNPREPARED
    assert "on the host first" in error.reason
