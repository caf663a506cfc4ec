# SPDX-License-Identifier: GPL-2.0-only
"""The page: well-formed, its numbers those of the report, words of others no markup, and a browser draws it."""

import math
import shutil
import struct
import subprocess
import zlib
from xml.etree import ElementTree

import pytest
from journals import Machine, header
from tried_here import tried

from asa import wire
from asa.core.decision import EEVDF, ExitKind, Reason, SchedulerExit, SchedulerName, SwitchOutcome, Vote, Workload
from asa.decide.learning import Learning
from asa.decide.trial_budget import Account
from asa.journal import Journal
from asa.report import words
from asa.report.gathering import gather
from asa.report.markup import Markup, element
from asa.report.page import page

EVIL = "<script>alert('x')</script>\"'&\x1b[31m\u202e"

UNKNOWN = Vote(workload=None, confidence=1.0, unknown=True, regime=Workload("regime:light-waking"))


@pytest.fixture
def report(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        for session in range(2):
            journal.begin(header(kernel=f"6.18 {EVIL}"))
            machine = Machine(journal)
            for part in range(4):
                workload = ("cpu", "disk", EVIL, "cpu")[part]
                last = f"scx_{part}"
                for second in range(40):
                    ordered = {"switch_to": last, "reason": Reason.BETTER} if second == 39 else {}
                    if part == 3:
                        ordered["vote"] = UNKNOWN
                    machine.tick(workload, slot=40 + 5 * part, stalled=0.2, sentence=EVIL, **ordered)
                    machine.cost(3)
                machine.report(last, why=EVIL, gap_ns=7_000_000)
            machine.pass_time(20.5)  # longer than a tick may take: the bins at its ends are not full
            machine.tick("cpu")
            machine.tick("cpu", switch_to=str(EEVDF), reason=Reason.REVERTED, sentence=EVIL)
            machine.report(str(EEVDF))
            ended = SchedulerExit(kind=ExitKind.ERROR, reason=EVIL, source="the scheduler")
            machine.report(EVIL, SwitchOutcome.REFUSED, detail=EVIL, exit=ended, in_force=str(EEVDF))
            for _ in range(5 + session):
                machine.tick("cpu")
        return gather(journal, f"/home/{EVIL}.sqlite")


@pytest.fixture
def document(report):
    return parsed(page(report))


def parsed(text):
    return ElementTree.fromstring(text.removeprefix("<!doctype html>\n"))  # noqa: S314  # our own, a line ago


def texts(node):
    return "".join(node.itertext())


def rows(document, name):
    return document.findall(f".//table[@id='{name}']/tbody/tr")


def test_nothing_is_taken_from_elsewhere_and_nothing_runs(report, document):
    assert {node.tag for node in document.iter()} & {"script", "link", "img", "iframe", "object", "base", "a"} == set()
    for node in document.iter():
        assert not [name for name in node.attrib if name.startswith("on") or name in {"href", "src", "action"}]
    assert "http" not in page(report).replace("http-equiv", "")
    assert "url(" not in page(report)
    assert document.find(".//meta[@http-equiv]").get("content").startswith("default-src 'none'")


def test_words_of_others_stay_words(report, document):
    assert "<script" not in page(report)
    shown = "<script>alert('x')</script>\"'&?[31m?"
    assert shown in texts(document.find(".//h1/../p"))
    assert [texts(row[0]) for row in document.findall(".//div[@id='by-class']/div")].count(shown) == 1
    assert shown in texts(rows(document, "guard")[0][3])
    assert f"error: {shown}" in texts(rows(document, "failed")[0][3])


def test_the_time_of_unknown_use_is_shown_by_regime(report, document):
    ((name, time),) = rows(document, "regimes")
    assert (texts(name), float(time.get("data-value"))) == (
        "regime:light-waking",
        report.regimes["regime:light-waking"],
    )
    assert report.regimes["regime:light-waking"] == 78.0  # of two sessions, each but its last second
    assert len(rows(document, "reasons")) == len(report.reasons)


def test_a_text_is_escaped_and_markup_is_not():
    inner = element("b", "1 < 2 & 3")
    assert element("p", inner, "\x00'", title='"<', class_="x") == (
        '<p title="&quot;&lt;" class="x"><b>1 &lt; 2 &amp; 3</b>?&#x27;</p>'
    )
    assert isinstance(inner, Markup)
    assert element("line", x1=1) == '<line x1="1"/>'


def test_numbers_are_those_of_the_report(report, document):
    tiles = [node.get("data-value") for node in document.findall(".//div[@id='summary']/div/b")]
    assert [float(value) for value in tiles] == [
        report.seconds,
        report.session_count,
        report.ticks,
        report.outcomes["confirmed"],
        report.verdict_count,
        report.outcomes["refused"],
        report.agent.cpu_pct,
    ]
    for name, times_s in (("by-class", report.workloads), ("by-scheduler", report.schedulers)):
        shown = {texts(row[0]): row for row in document.findall(f".//div[@id='{name}']/div")}
        assert {key: float(row[2].get("data-value")) for key, row in shown.items()} == times_s
        for key, row in shown.items():
            bar = float(row.find(".//rect").get("width")) if row.find(".//rect") is not None else 0.0
            assert bar == pytest.approx(100 * times_s[key] / report.seconds, abs=0.01)
    pairs = [[float(cell.get("data-value", "nan")) for cell in row[2:]] for row in rows(document, "latencies")]
    wanted = [
        [
            pair.latencies.seconds,
            pair.latencies.wakeup_p99_us,
            pair.latencies.run_queue_p99_us,
            pair.latencies.timer_late_p99_us,
            pair.latencies.cpu_pressure_share,
        ]
        for pair in report.pairs
        if pair.latencies.seconds
    ]
    assert len(pairs) == len(wanted)
    for found, expected in zip(pairs, wanted, strict=True):
        known = [math.nan if value is None else value for value in expected]
        assert found == pytest.approx(known, nan_ok=True)
    costs = {texts(row[0]): float(row[3].get("data-value")) for row in rows(document, "switch-costs")}
    assert costs == {one.scheduler: one.elapsed_ms.p50 for one in report.switch_costs}
    assert len(rows(document, "guard")) == report.verdict_count == 2


def test_before_and_after_are_set_side_by_side(report, document):
    changes = [event for event in reversed(report.events) if event.before and event.after]
    found = rows(document, "before-after")
    assert len(found) == len(changes) >= 6
    for row, event in zip(found, changes, strict=True):
        assert float(row[3].get("data-before")) == event.before.latencies.wakeup_p99_us
        assert float(row[4].get("data-after")) == event.after.latencies.run_queue_p99_us
        assert texts(row[5]).startswith(words.latency(event.before.latencies.timer_late_p99_us))
        same = event.before.workload == event.after.workload
        assert (row[3].find(".//span").get("class") != "soft") <= same


def test_the_timeline_is_filled_by_what_was_in_force(report, document):
    newest = report.sessions[-1]
    strip = document.find(".//section[@id='timeline']/details//svg[@class='strip']")
    bins = newest.timeline.bins
    assert strip.get("viewBox") == f"0 0 {len(bins)} 100"
    areas = [area(path.get("d")) for path in strip.findall("path")]
    wanted = [
        100 * sum(one.workloads.get(name, 0) for one in bins) / newest.timeline.bin_s for name in newest.workloads
    ]
    assert sorted(areas) == pytest.approx(sorted(wanted), rel=1e-3)
    events = [event for event in report.events if event.session == newest.number]
    marks = document.find(".//section[@id='timeline']/details//svg[@class='marks']").findall("g")
    assert len(marks) == len(events) == 6
    length_s = len(bins) * newest.timeline.bin_s
    for mark, event in zip(marks, events, strict=True):
        assert float(mark[1].get("x1")) == pytest.approx(1000 * event.offset_s / length_s, abs=0.01)
        assert event.why in mark[0].text
    assert [mark[1].get("class") for mark in marks] == ["mark"] * 4 + ["mark bad"] * 2


def area(path):
    """Of rectangles written as `Mx yhWvHh-Wz`."""
    total = 0.0
    for part in path.split("M")[1:]:
        width, height = part.split("h", 1)[1].split("v")
        total += float(width) * float(height.split("h")[0])
    return total


def test_an_empty_journal_has_a_page(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        nothing = page(gather(journal, "j"))
        journal.begin(header())
        without_ticks = page(gather(journal, "j"))
    for text in (nothing, without_ticks):
        assert "None." in texts(parsed(text))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "60 s"), (60, "1 min"), (3599.6, "1 h 0 min"), (90_000, "25 h 0 min")],
)
def test_durations(seconds, text):
    assert words.duration(seconds) == text


def test_latencies_in_words():
    assert [words.latency(value) for value in (None, 0.5, 999.4, 999.9, 12_345.0, 2.5e6)] == [
        "unknown",
        "0.5 µs",
        "999 µs",
        "1 ms",
        "12.3 ms",
        "2.5 s",
    ]


@pytest.mark.apps
@pytest.mark.parametrize(("scheme", "width"), [("1", 1000), ("0", 500)])
def test_a_browser_draws_it(report, tmp_path, scheme, width):
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed; `apt-get install chromium` gets it")
    (tmp_path / "report.html").write_text(page(report), encoding="utf-8")
    picture = tmp_path / "report.png"
    command = [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-background-networking",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--window-size={width},1200",
        f"--screenshot={picture}",
        (tmp_path / "report.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert picture.exists(), done.stderr
    seen = pixels(picture.read_bytes())
    background, class_colour = ("ffffff", "0072b2") if scheme == "1" else ("161618", "4aa8e0")
    assert max(seen, key=seen.get) == background
    assert seen.get(class_colour, 0) > 1000  # the strip and the bar of the first class


def pixels(png):
    """Colour -> how often, of an 8-bit PNG without interlacing (RFC 2083)."""
    data, at, shape = b"", 8, ()
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            shape = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            data += body
        at += length + 12
    width, height, _, colour_type = shape
    size = {2: 3, 6: 4}[colour_type]
    raw, stride = zlib.decompress(data), width * size
    seen, above = {}, bytes(stride)
    for row in range(height):
        start = row * (stride + 1)
        line = unfiltered(raw[start], raw[start + 1 : start + 1 + stride], above, size)
        for pixel in range(0, stride, size):
            key = line[pixel : pixel + 3].hex()
            seen[key] = seen.get(key, 0) + 1
        above = line
    return seen


def unfiltered(kind, line, above, size):
    if kind == 0:
        return line
    out = bytearray(line)
    for at in range(len(out)):
        left = out[at - size] if at >= size else 0
        corner = above[at - size] if at >= size else 0
        up = above[at]
        guess = left + up - corner
        paeth = min((left, up, corner), key=lambda value: abs(guess - value))
        out[at] = (out[at] + (0, left, up, (left + up) // 2, paeth)[kind]) & 255
    return bytes(out)


def test_the_page_says_what_is_better_on_the_machine(tmp_path):
    kept = Learning(asked=(tried(SchedulerName("scx_flash"), words=EVIL),), account=Account(watched_s=3600.0))
    with Journal.open(tmp_path / "j.sqlite") as journal:
        journal.begin(header(learning=wire.json_text(kept)))
        Machine(journal).tick("cpu")
        found = gather(journal, "j")
    assert found.proof is not None
    assert found.proof.sentence == "better: for 1 of 1 use another scheduler is better here"
    document = parsed(page(found))
    assert "".join(document.find(".//p[@id='proof-sentence']").itertext()) == found.proof.sentence
    (row,) = document.findall(".//table[@id='proof-uses']/tbody/tr")
    texts = ["".join(part.itertext()) for part in row]
    assert texts[:3] == ["cpu", "better", "scx_flash"]
    assert "saves +20% of the wait (+10% to +30%), 9 pairs" in texts[3]


@pytest.mark.parametrize("body", ["", "{", '{"version": 77}'])
def test_a_journal_that_says_nothing_of_it_has_no_such_part(tmp_path, body):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        journal.begin(header(learning=body))
        Machine(journal).tick("cpu")
        found = gather(journal, "j")
    assert found.proof is None
    assert parsed(page(found)).find(".//section[@id='proof']") is None
