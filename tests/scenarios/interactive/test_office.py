# SPDX-License-Identifier: GPL-2.0-only
"""Office work with the real LibreOffice: each kind of work is measured, suffers from other load, and leaves nothing."""

import contextlib
import dataclasses
import os
import random
import signal
from pathlib import Path

import pytest
from playing import nothing_left, play, suffers_from_hogs
from waiting import until

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.interactive.office import APPLICATION
from scenarios.session import Session

PACE = {"key_s": 0.02, "think_s": 0.02, "blocks": [1, 1, 1, 1], "keys": 6, "cells": 3, "pages": 3}
SMALL = PACE | {"paragraphs": 20, "words": 20, "rows": 50, "formulas": 4, "slides": 3, "shapes": 6, "copied_rows": 20}
LARGE = (
    PACE | {"paragraphs": 80, "words": 60, "rows": 2500, "formulas": 4, "slides": 4, "shapes": 30} | {"copied_rows": 80}
)


def quick(given):
    return dataclasses.replace(APPLICATION, draw=lambda rng, place: given)


@contextlib.contextmanager
def started():
    with nothing_left(quick(SMALL)) as (place, folder):
        with Session.start(quick(SMALL), seed=1, place=place, folder=folder) as session:
            yield session
        assert session.members() == []


def office_of(session):
    """Process id of the office itself, behind its shell script and its splash screen; None before it is there."""
    for pid in session.members():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text() == "soffice.bin\n":
                return pid
    return None


@pytest.mark.apps
@pytest.mark.slow
def test_each_kind_of_work_is_measured_until_the_office_dies():
    with started() as session:
        session.await_ready()
        assert session.versions["libreoffice"].partition(".")[0].isdecimal()
        counts = dict.fromkeys(session.application.metrics, 0)

        def enough():
            session.check()
            for one in session.measurements():
                assert 0 < one.value < 60_000
                counts[one.metric] += 1
            return min(counts.values()) >= 4  # both ways of copying, as good as surely

        until(enough, lambda: counts, limit_s=150)
        os.kill(office_of(session), signal.SIGKILL)
        with pytest.raises(ApplicationError, match=r"office: its driver ended with code 1; .*libreoffice:") as caught:
            until(session.check, "it ends", limit_s=150)
        assert caught.value.failure is Failure.CRASHED


@pytest.mark.apps
def test_a_start_that_is_broken_off_leaves_nothing():
    with started() as session:
        until(lambda: office_of(session), "the office is there", limit_s=150)


@pytest.mark.apps
@pytest.mark.slow
@pytest.mark.one_cpu
def test_it_suffers_from_hogs(tmp_path):
    suffers_from_hogs(quick(LARGE), seed=1, seconds=5, tmp_path=tmp_path)


@pytest.mark.apps
def test_without_fonts_it_names_the_package(tmp_path, monkeypatch):
    (tmp_path / "fonts.conf").write_text("<fontconfig><dir>/nonexistent</dir></fontconfig>")
    monkeypatch.setenv("FONTCONFIG_FILE", str(tmp_path / "fonts.conf"))
    with pytest.raises(ApplicationError, match="apt-get install fonts-dejavu-core") as caught:
        play(APPLICATION, seed=1, seconds=1, tmp_path=tmp_path)
    assert caught.value.failure is Failure.MISSING


def test_seeds_differ_in_everything_and_repeat(tmp_path):
    place = Place(cache=tmp_path, cpus=2, tier=Tier.REAL)
    drawn = [APPLICATION.draw(random.Random(seed), place) for seed in range(60)]  # noqa: S311
    assert drawn[:5] == [APPLICATION.draw(random.Random(seed), place) for seed in range(5)]  # noqa: S311
    assert all(len({str(one[name]) for one in drawn}) >= 4 for name in drawn[0])
    assert set(drawn[0]) == set(SMALL), "the driver knows these alone"
