# SPDX-License-Identifier: GPL-2.0-only
"""Kinds and their labels; the paper's labels are read as kinds."""

import pytest

from asa.core.kinds import BACKGROUND, INTERACTIVE, OF_APPLICATION, Kind, among, kinds_of, label_of, names_of
from scenarios import catalogue


def test_every_kind_is_of_one_half():
    assert sorted((*INTERACTIVE, *BACKGROUND)) == sorted(Kind)


@pytest.mark.parametrize("front", [None, *INTERACTIVE])
@pytest.mark.parametrize("back", [None, *BACKGROUND])
def test_a_label_is_read_back(front, back):
    assert kinds_of(label_of(front, back)) == (front, back)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("idle", (None, None)),
        ("other", (None, None)),
        ("web+archive", (Kind.BROWSE, Kind.COMPRESS)),
        ("audio", (Kind.SOUND, None)),
        ("kernel", (None, Kind.COMPILE)),
        ("disk", (None, Kind.DISK)),
        ("play+llm", (Kind.PLAY, Kind.INFER)),
    ],
)
def test_the_papers_labels_are_kinds(label, expected):
    assert kinds_of(label) == expected


def test_every_label_of_the_paper_is_read_and_no_two_are_the_same():
    assert len({kinds_of(one.label) for one in catalogue.PAPER}) == len(catalogue.PAPER)
    assert {name: one.kind for name, one in catalogue.programs().items() if name in OF_APPLICATION} == OF_APPLICATION


@pytest.mark.parametrize(
    "label", ["", "cpu", "web+", "compress+browse", "web+browse", "disk+network", "web+idle", "web+other"]
)
def test_what_is_no_label_is_refused(label):
    with pytest.raises(ValueError, match=f"'{label.replace('+', '.')}' is no label"):
        kinds_of(label)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("web+archive", ("web+archive", "browse+compress")),
        ("browse+compress", ("browse+compress", "web+archive")),
        ("watch+render", ("watch+render",)),
        ("disk", ("disk",)),
        ("idle", ("idle",)),
        ("light", ("light",)),
    ],
)
def test_a_use_has_a_name_by_kinds_and_one_of_the_paper(label, expected):
    assert names_of(label) == expected


def test_classes_have_their_own_name_for_a_use():
    assert among("web+archive", ("idle", "browse+compress")) == "browse+compress"
    assert among("browse+compress", ("idle", "web+archive")) == "web+archive"
    assert among("disk", ("disk", "idle")) == "disk"
    assert among("watch", ("disk", "idle")) == "watch"
