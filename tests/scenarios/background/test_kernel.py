# SPDX-License-Identifier: GPL-2.0-only
"""make builds directories of Debian's Linux source; which source, and which of make's lines are objects."""

from dataclasses import replace

import pytest
from playing import CACHE, play
from waiting import until

from scenarios.application import ApplicationError, Failure, Tier
from scenarios.background import kernel
from scenarios.session import Session, place_for


def _small(rng, place):
    drawn = kernel.APPLICATION.draw(rng, place)
    return {**drawn, "configuration": "tiny", "directories": ["kernel/locking"], "pause_s": 0.1}


@pytest.mark.apps
@pytest.mark.slow
def test_builds_again_and_again(tmp_path):
    application = replace(kernel.APPLICATION, draw=_small)
    values = play(application, seed=1, seconds=1, tmp_path=tmp_path, metrics=("total_s",), least=2)
    assert max(values["objects_per_s"]) > 0, "the second build compiles as well"


@pytest.mark.apps
def test_a_directory_without_objects_is_no_build(tmp_path):
    application = replace(kernel.APPLICATION, draw=lambda rng, place: {**_small(rng, place), "directories": ["nosuch"]})
    place = place_for(application, cache=CACHE, tier=Tier.REAL)
    with (
        pytest.raises(ApplicationError, match="compiled nothing in nosuch/"),
        Session.start(application, seed=1, place=place, folder=tmp_path) as session,
    ):
        until(session.check, "it fails", limit_s=120)


def test_takes_the_newest_source(tmp_path):
    for name in (
        "linux-source-6.1.tar.xz",
        "linux-source-6.12.tar.xz",
        "linux-source-6.9",
        "linux-source-6.99.patch.xz",
    ):
        (tmp_path / name).touch()
    assert kernel.newest_source(tmp_path) == tmp_path / "linux-source-6.12.tar.xz"


def test_says_which_package_has_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel, "_SOURCES", tmp_path)
    place = place_for(kernel.APPLICATION, cache=CACHE, tier=Tier.REAL)
    with pytest.raises(ApplicationError, match="apt-get install linux-source") as caught:
        kernel.APPLICATION.prepare(place, print)
    assert caught.value.failure is Failure.MISSING


def test_a_source_that_cannot_be_unpacked_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "linux-source-6.1.tar.xz").write_text("not packed at all")
    monkeypatch.setattr(kernel, "_SOURCES", tmp_path)
    place = place_for(kernel.APPLICATION, cache=tmp_path / "cache", tier=Tier.REAL)
    with pytest.raises(ApplicationError, match="xz") as caught:
        kernel.APPLICATION.prepare(place, print)
    assert caught.value.failure is Failure.UNPREPARED
    assert [path for path in place.cache.rglob("*") if path.parent != place.cache] == []


@pytest.mark.parametrize(
    ("line", "object_"),
    [
        ("  CC      kernel/fork.o\n", True),
        ("  AS      lib/hweight.o\n", True),
        ("  AR      kernel/built-in.a\n", False),
        ("  HOSTCC  scripts/basic/fixdep\n", False),
        ("make: Entering directory '/x'\n", False),
        ("\n", False),
    ],
)
def test_objects_among_the_lines_of_make(line, object_):
    assert kernel.is_object(line) is object_
