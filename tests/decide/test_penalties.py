# SPDX-License-Identifier: GPL-2.0-only
"""Marks: how long they bar, what clears them, and that the file survives what files suffer."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import AsaError, InputError
from asa.decide import penalties
from asa.decide.penalties import MOST_MARKS, Bars, Cause, Mark

S = 1_000_000_000
NOW = 1_700_000_000 * S
MINUTE, DAY = 60 * S, 86_400 * S
WEB, GAME = Workload("web"), Workload("game")
LAVD, FLASH = SchedulerName("scx_lavd:performance"), SchedulerName("scx_flash")
VERSIONS = {"scx_lavd": "aa", "scx_flash": "bb"}


def lowered(known=Bars(), at_ns=NOW, scheduler=LAVD, workload=WEB, version="aa"):  # noqa: B008  # it is frozen
    return penalties.lower(known, workload=workload, scheduler=scheduler, version=version, wall_ns=at_ns, why="slow")


def put_off(known=Bars(), scheduler=LAVD, version="aa"):  # noqa: B008
    return penalties.put_off(known, scheduler=scheduler, version=version, wall_ns=NOW, why="it stalled", count=3)


def barred(known, at_ns=NOW, workload=WEB, versions=VERSIONS):
    return penalties.barred(known, workload, at_ns, versions)


def test_a_revert_bars_for_its_class_and_a_while():
    known = lowered()
    assert barred(known) == {LAVD}
    assert barred(known, workload=GAME) == frozenset()
    assert barred(known, NOW + 10 * MINUTE - 1) == {LAVD}
    assert barred(known, NOW + 10 * MINUTE) == frozenset()


def test_the_bar_doubles_up_to_the_longest():
    known, at_ns, bars = Bars(), NOW, []
    for _ in range(14):
        known = lowered(known, at_ns)
        (mark,) = known.marks
        bars.append((mark.until_ns - at_ns) // S)
        at_ns = mark.until_ns
    assert bars[:4] == [600, 1200, 2400, 4800]
    assert bars[-3:] == [604_800] * 3
    assert sorted(bars) == bars


def test_a_mark_weakens_with_time():
    known = lowered(lowered(lowered()))
    (mark,) = known.marks
    assert (mark.count, mark.until_ns) == (3, NOW + 40 * MINUTE)
    for weeks, count in ((0, 4), (1, 3), (2, 2), (3, 1), (50, 1)):
        (again,) = lowered(known, mark.until_ns + 7 * weeks * DAY).marks
        assert again.count == count
    assert lowered(known, mark.until_ns + 7 * DAY - 1).marks[0].count == 4


def test_a_bar_that_has_not_ended_has_not_begun_to_fade(monkeypatch):
    monkeypatch.setattr(penalties, "FIRST_S", 86_400.0)
    monkeypatch.setattr(penalties, "FADE_S", 3600.0)
    known = Bars()
    for count in (1, 2, 3):
        known = penalties.lower(known, workload=WEB, scheduler=LAVD, version="aa", wall_ns=NOW, why="slow")
        assert known.marks[0].count == count


def test_a_failure_bars_for_all_classes_until_it_is_lifted():
    known = put_off(lowered(scheduler=FLASH, version="bb"))
    assert barred(known, NOW + 3650 * DAY) == {LAVD}
    assert barred(known, workload=GAME) == {LAVD}
    assert barred(penalties.lift(known, LAVD)) == {FLASH}
    assert penalties.lift(known) == Bars()


def test_lifting_a_name_without_a_mode_lifts_all_modes():
    known = put_off(put_off(lowered()), SchedulerName("scx_lavd"))
    assert penalties.lift(known, SchedulerName("scx_lavd")) == Bars()
    assert penalties.lift(known, LAVD).marks == (known.marks[-1],)


@pytest.mark.parametrize("make", [lowered, put_off])
def test_a_new_version_is_free_of_the_old_ones_marks(make):
    known = make()
    assert barred(known, versions={"scx_lavd": "cc"}) == frozenset()
    assert barred(known, versions={}) == {LAVD}  # not installed now: nothing is known against the mark
    assert penalties.refresh(known, wall_ns=NOW, versions={"scx_lavd": "cc"}) == Bars()
    assert penalties.refresh(known, wall_ns=NOW, versions=VERSIONS) == known


def test_a_new_versions_first_revert_counts_from_one():
    assert lowered(lowered(lowered()), version="cc").marks[0].count == 1
    assert len(lowered(lowered(), version="cc").marks) == 1


def test_eevdf_is_never_marked():
    assert lowered(scheduler=EEVDF) == Bars()
    assert put_off(scheduler=EEVDF) == Bars()


def test_refresh_forgets_what_has_faded():
    known = lowered()
    end_ns = NOW + 10 * MINUTE
    assert penalties.refresh(known, wall_ns=end_ns + 7 * DAY - 1, versions=VERSIONS) == known
    assert penalties.refresh(known, wall_ns=end_ns + 7 * DAY, versions=VERSIONS) == Bars()


def test_a_mark_from_the_future_is_taken_as_made_now():
    """The clock was ten years ahead when it was made: it must not bar for ten years."""
    known = lowered(put_off(), NOW + 3650 * DAY)
    mended = penalties.refresh(known, wall_ns=NOW, versions=VERSIONS)
    reverted = next(mark for mark in mended.marks if mark.cause is Cause.REVERTED)
    assert (reverted.at_ns, reverted.until_ns) == (NOW, NOW + 10 * MINUTE)
    assert len(mended.marks) == 2


def test_reverts_and_failures_of_one_scheduler_stand_beside_each_other():
    known = lowered(put_off(lowered()), workload=GAME)
    assert [(mark.workload, mark.cause) for mark in known.marks] == [
        (WEB, Cause.REVERTED),
        (None, Cause.FAILED),
        (GAME, Cause.REVERTED),
    ]
    assert [mark.why for mark in penalties.barring(known, WEB, NOW, VERSIONS)] == ["slow", "it stalled"]
    assert len(penalties.barring(known, None, NOW, VERSIONS)) == 3


def test_marks_are_bounded_and_failures_outlive_reverts():
    known = put_off()
    for number in range(MOST_MARKS + 10):
        known = lowered(known, NOW + number, scheduler=SchedulerName(f"scx_{number}"), version="")
    assert len(known.marks) == MOST_MARKS
    assert known.marks[0].cause is Cause.FAILED
    assert known.marks[-1].scheduler == f"scx_{MOST_MARKS + 9}"


names = st.text(min_size=1, max_size=20)
times = st.integers(0, 2**62)
marks = st.builds(
    Mark,
    scheduler=names,
    cause=st.sampled_from(Cause),
    version=names,
    count=st.integers(1, 64),
    at_ns=times,
    until_ns=st.none() | times,
    why=names,
    workload=st.none() | names,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("standing")


@settings(max_examples=30, deadline=None)
@given(st.lists(marks, max_size=5))
def test_what_was_saved_is_loaded(folder, some):
    known = Bars(marks=tuple(some))
    penalties.save(folder / "deep/standing.json", known)
    assert penalties.load(folder / "deep/standing.json") == known
    assert [path.name for path in (folder / "deep").iterdir()] == ["standing.json"]


def test_the_file_of_an_earlier_version_is_read(tmp_path):
    path = tmp_path / "standing.json"
    path.write_text(
        '{"version":1,"marks":[{"scheduler":"scx_lavd:performance","cause":"reverted","version":"aa","count":2,'
        '"at_ns":5,"until_ns":9,"why":"web fares worse under scx_lavd","workload":"web"}]}'
    )
    (mark,) = penalties.load(path).marks
    assert (mark.scheduler, mark.cause, mark.count, mark.workload) == (LAVD, Cause.REVERTED, 2, WEB)


def test_no_file_is_no_bar(tmp_path):
    assert penalties.load(tmp_path / "none.json") == Bars()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version": 2}',
        b'{"marks": [{"scheduler": "x"}]}',
        b'{"version": 1, "surprise": true}',
        b'{"marks": [{"scheduler":"x","cause":"bored","version":"","count":1,"at_ns":0,"until_ns":1,"why":""}]}',
        b'{"marks": [{"scheduler":"x","cause":"failed","version":"","count":0,"at_ns":0,"until_ns":1,"why":""}]}',
        b"[" * 100_000,
        b'{"marks": [{"scheduler": "\xff"}]}',
        b" " * ((1 << 20) + 1),
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path, body):
    path = tmp_path / "standing.json"
    path.write_bytes(body)
    with pytest.raises(InputError) as caught:
        penalties.load(path)
    assert caught.value.path == str(path)
    assert "\n" not in str(caught.value)


def test_an_unreadable_place_is_named(tmp_path):
    with pytest.raises(InputError, match="directory"):
        penalties.load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError):
        penalties.load(tmp_path / "file/standing.json")


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "standing.json"
    penalties.save(path, lowered())

    def full(_fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AsaError, match="No space left") as caught:
        penalties.save(path, put_off())
    assert str(path) in str(caught.value)
    assert penalties.load(path) == lowered()
    assert list(tmp_path.iterdir()) == [path]


def test_the_data_is_on_the_disk_before_the_name(tmp_path, monkeypatch):
    order = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append(Path(f"/proc/self/fd/{fd}").readlink()), fsync(fd)))
    monkeypatch.setattr(os, "rename", lambda *names, **folders: (order.append("rename"), rename(*names, **folders)))
    penalties.save(tmp_path / "standing.json", lowered())
    assert [order[0].parent, *order[1:]] == [tmp_path, "rename", tmp_path]


def test_the_file_can_be_read_by_people(tmp_path):
    path = tmp_path / "standing.json"
    penalties.save(path, lowered())
    assert '"why": "slow"' in path.read_text()
    assert msgspec.json.decode(path.read_bytes())["version"] == 1
