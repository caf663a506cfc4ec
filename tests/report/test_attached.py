# SPDX-License-Identifier: GPL-2.0-only
"""The text for a bug report: what is in it, and that nobody and no place is."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from journals import START_WALL_NS, Machine, S, header

from asa.core.decision import Reason, SwitchEvent, SwitchOutcome, Way
from asa.journal import Journal
from asa.report import attached
from asa.report.attached import Mask, Parts
from asa.report.gathering import gather
from asa.verdict import Finding, Level, of

MASK = Mask(
    names=attached.names("johns-laptop.example", ("john", "Doe", "jo"), ("scx_mine",)),
    places={"/home/john/.config/asa/asa.yaml": "<settings>", "/home/john/.cache/asa": "<cache>"},
)
SECRET = ("john", "doe", "laptop", "scx_mine", "thesis", "10.0.0.7", "52:54:00", "firefox", "web content")


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        ("defaults (/home/john/.config/asa/asa.yaml is not there)", "defaults (<settings> is not there)"),
        ("built 1.1.4: /home/john/.cache/asa/scx/bin/scx_lavd", "built 1.1.4: <cache>/scx/bin/scx_lavd"),
        ("/home/john/my thesis/table.yaml: stale", "<path>: stale"),
        ("/mnt/johns disk/x (2 CPUs)", "<path>(2 CPUs)"),
        ("/usr/bin/scx_lavd, /sys/kernel/btf/vmlinux", "/usr/bin/scx_lavd, /sys/kernel/btf/vmlinux"),
        ("/sys/fs/cgroup/user.slice/app-thesis.scope: 50 %", "<path>: 50 %"),
        ("https://docs.example/x and n/a", "https://docs.example/x and n/a"),
        ("runnable task stall (firefox[1234] failed to run)", "runnable task stall (<task> failed to run)"),
        ("runnable task stall (Web Content[12] failed)", "runnable task stall (<task> failed)"),
        ("scx_mine:fast on Johns-Laptop for JOHN", "<scheduler 1>:fast on <host> for <user>"),
        ("jo joins", "<user> joins"),
        ("10.0.0.7 and 52:54:00:12:34:56 and j@x.org", "<address> and <address> and <address>"),
        ("d41d8cd98f00b204e9800998ecf8427e", "<number>"),
        ("kernel 6.18.44-fc, scx_lavd 1.1.4", "kernel 6.18.44-fc, scx_lavd 1.1.4"),
        ("two\nlines \x1b[31m", "two?lines ?[31m"),
    ],
)
def test_words_of_others(words, masked):
    assert MASK(words) == masked


@given(
    st.text(max_size=40), st.sampled_from(["john", "JOHN", "Doe", "johns-laptop", "/home/john/my thesis"]), st.text()
)
@example("<", "john", ">")
@example("/", "john", "")
def test_a_name_comes_through_nowhere(before, name, after):
    masked = MASK(before + " " + name + " " + after).lower()
    said = MASK(before + " " + after).lower()
    for one in ("john", "thesis"):
        assert masked.count(one) <= said.count(one)


def parts(journal=None, **changes):
    findings = [
        Finding(subject="hints", level=Level.OK, text="thesis.desktop in front"),
        Finding(subject="limits", level=Level.OK, text="firefox has 20 %"),
        Finding(subject="root", level=Level.MISSING, text="john is not root", needed=True),
    ]
    values = {"machine": {"kernel": "6.18.7-john"}, "verdict": of(findings), "findings": findings}
    values |= {"settings": {"table": "/home/john/my thesis.yaml"}, "journal": journal} | changes
    return Parts(**values)


def test_a_journal_of_somebody(tmp_path):
    path = tmp_path / "j.sqlite"
    with Journal.open(path) as journal:
        journal.begin(header(host="johns-laptop"))
        machine = Machine(journal)
        machine.tick("cpu")
        event = SwitchEvent(
            monotonic_ns=machine.now_ns,
            outcome=SwitchOutcome.FAILED,
            old="eevdf",
            new="scx_mine",
            elapsed_ns=12_000_000,
            undo="",
            way=Way.GATED,
            why="john wished it",
            detail="runnable task stall (firefox[77] failed to run) in /home/john/x",
        )
        machine.news.append(event)
        machine.tick("cpu", reason=Reason.SERVED)
        machine.tick("cpu")
    with Journal.look(path) as journal:
        found = gather(journal, str(path))
    text = attached.text(parts(found, lacking=["proof: /home/john/x: damaged"]), MASK, START_WALL_NS + 3600 * S)
    assert not [one for one in SECRET if one in text.lower()]
    lines = text.splitlines()
    assert "ASA only observes here, because <user> is not root." in lines
    assert "kernel: 6.18.7-<user>" in lines
    assert "table: <path>" in lines
    assert "ok hints: left out" in lines
    assert "none is running" in lines
    (told,) = [line for line in lines if "failed, eevdf -> <scheduler 1>" in line]
    assert told.endswith("; <user> wished it; runnable task stall (<task> failed to run) in <path>")
    assert "outcomes: failed 1; taken back by the guard: 0" in lines


def test_of_nothing_it_says_nothing():
    text = attached.text(parts(settings={}), MASK, START_WALL_NS)
    assert "== settings that are not the defaults\nnothing\n" in text
    assert "== journal, newest session\nnothing\n" in text
