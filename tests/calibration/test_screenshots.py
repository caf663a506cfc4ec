# SPDX-License-Identifier: GPL-2.0-only
"""`make screenshots`: the page is that of today's table, and the picture shows what was kept, without a network."""

from pathlib import Path

from asa.monitor import numbers
from calibration import screenshots

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_as_of_now():
    assert (DOCS / screenshots.PAGE).read_text() == numbers.page(screenshots.PICTURE), "write it anew: make screenshots"


def test_the_picture_is_of_what_was_kept():
    statuses = screenshots.kept()
    assert len(statuses) > 60
    drawn = screenshots.picture(statuses)
    for words in ("ASA", "no sched_ext in this kernel", "CPU pressure", "agent"):
        assert words.replace(" ", "&#160;") in drawn, words
    assert "@font-face" not in drawn
