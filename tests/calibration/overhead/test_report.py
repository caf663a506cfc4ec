# SPDX-License-Identifier: GPL-2.0-only
"""The document, the picture and the JSON lines say what was measured, and what was not."""

import json
from xml.etree import ElementTree

import pytest

from asa.core.sample import CpuCounters
from calibration.goals import Figure, Host
from calibration.overhead.agent import Look, Memory, Window
from calibration.overhead.benchmark import BCC, CORE, CORE_ALL, Check, Costs, Pair, Result
from calibration.overhead.estimates import Slope
from calibration.overhead.figures import OverheadFigure
from calibration.overhead.plot import picture
from calibration.overhead.report import as_json, document, warnings

MACHINE = Host(cpu="Some CPU", cpus=2, kernel="6.18.1", version="0.1.0", command="asa lab bench overhead")
SVG = "{http://www.w3.org/2000/svg}"


def look(second, *, cpu_ms, mb, busy=0, steal=0, switches=0):
    ticks = (busy, 0, 0, 0, 0, 0, 0, steal)
    host = CpuCounters(
        total=ticks,
        cores=((0, ticks),),
        interrupts=0,
        context_switches=switches,
        forks=0,
        softirqs=(0,) * 10,
        runnable=0,
        blocked=0,
    )
    return Look(
        monotonic_ns=int(second * 1e9),
        cpu_ns=int(cpu_ms * 1e6),
        memory=Memory(resident_bytes=int(mb * 1e6), swapped_bytes=0),
        ticks=second,
        overruns=0,
        host=host,
        load_1min=0.25,
    )


class FakeStatus:
    interval_s = 1.0
    missing_sources = {"desktop": "no X display"}  # noqa: RUF012
    slow_sources = {"gpu": "takes 9 ms a read: read in 2 of 4 ticks"}  # noqa: RUF012
    backends = {"ebpf": "core"}  # noqa: RUF012
    cost_us = {"cpu": 150.0, "ebpf": 110.0}  # noqa: RUF012


def result(**parts):
    idle = Window(looks=tuple(look(5 * n, cpu_ms=10 * n, mb=42 + n, switches=500 * n) for n in range(7)))
    loaded = Window(looks=(look(0, cpu_ms=0, mb=42), look(10, cpu_ms=30, mb=42, busy=60, switches=201_000)))
    whole = {
        "began_s": 1_700_000_000.0,
        "figures": [
            Figure(name=OverheadFigure.AGENT_CPU, value=0.2, detail="over 30 s"),
            Figure(name=OverheadFigure.PROBE_NS_BCC, value=None, reason="python3-bpfcc is | not installed"),
        ],
        "costs": Costs(
            rounds=2,
            pairs={
                CORE: [Pair(bare_ns=2_000.0, full_ns=2_120.0), Pair(bare_ns=2_010.0, full_ns=2_140.0)],
                CORE_ALL: [Pair(bare_ns=2_000.0, full_ns=2_226.0), Pair(bare_ns=2_010.0, full_ns=2_240.0)],
            },
            refused={BCC: "python3-bpfcc is not installed"},
            lacking={CORE: {"input_event": "this kernel has no kprobes"}},
        ),
        "idle": idle,
        "growth": Slope(value=0.1, error=0.05),
        "loaded": loaded,
        "check": Check(cpu_pct=0.4, ns_per_switch=199.0, runs_per_s=60_000.0),
        "status": FakeStatus(),
        "took_s": 90.0,
    }
    return Result(**{**whole, **parts})


def test_json_lines_have_the_agreed_keys():
    good = json.loads(as_json(Figure(name=OverheadFigure.AGENT_CPU, value=0.20004)))
    assert good == {"name": "agent_cpu_pct", "value": 0.2, "unit": "%", "goal": 0.5, "ok": True}
    null = json.loads(as_json(Figure(name=OverheadFigure.PROBE_NS_BCC, value=None, reason="no bcc")))
    assert null == {
        "name": "probe_ns_per_switch_bcc",
        "value": None,
        "unit": "ns",
        "goal": 250.0,
        "ok": False,
        "reason": "no bcc",
    }


def test_the_document_tells_everything():
    text = document(result(), MACHINE, image="overhead.svg")
    for part in (
        "2023-11-14 22:13 UTC, for 1.5 minutes",
        "Some CPU, 2 CPUs, Linux 6.18.1",
        "`asa lab bench overhead`",
        "| agent_cpu_pct | 0.200 % | <= 0.5 % | yes | over 30 s |",
        "| probe_ns_per_switch_bcc | unknown | <= 250 ns | no | python3-bpfcc is \\| not installed |",
        "| 1 | 2000 -> 2120 | 2000 -> 2226 |",
        "| median | **+125** | **+228** |",
        "- BCC as it runs: not measured: python3-bpfcc is not installed",
        "- CO-RE as it runs: sampled, read each second: without `input_event`: this kernel has no kprobes",
        "![CPU time and resident memory over time](overhead.svg)",
        "| cpu | 150 |",
        "- without `desktop`: no X display",
        "- slow: `gpu` takes 9 ms a read",
        "- `ebpf` by core",
        "0.400 % of a core, 199 ns a switch",
        "20,100 switches/s",
        '{"name": "agent_cpu_pct", "value": 0.2, "unit": "%", "goal": 0.5, "ok": true, "detail": "over 30 s"}',
    ):
        assert part in text, part
    for figure in result().figures:
        assert figure.name.goal.what in text
    # 0.2 % of the process, and 100 switches/s of 228 ns, each timed
    assert "| CPU, % of one core | 1.45 | 0.2023 (0.0023 of it in the kernel) | 7.2 |" in text
    assert "| memory, MB | 297 | 48.0 | 6.2 |" in text


def test_a_document_of_the_probes_alone():
    text = document(result(idle=None, status=None, loaded=None, check=None), MACHINE, image=None)
    assert "A wakeup and a switch" in text
    for absent in ("The agent", "Against the paper", "![", "beside it"):
        assert f"## {absent}" not in text
    assert "![" not in text
    nothing = document(result(costs=None), MACHINE, image=None)
    assert "A wakeup and a switch" not in nothing
    assert "the kernel side not measured" in nothing


def test_warnings_name_what_disturbed():
    assert warnings(result()) == []
    busy = Window(looks=(look(0, cpu_ms=0, mb=42), look(10, cpu_ms=10, mb=42, busy=600, steal=30)))
    loud = Costs(rounds=2, pairs={CORE: [Pair(bare_ns=2_000.0, full_ns=2_000.0 + more) for more in (100.0, 400.0)]})
    other = Window(looks=(look(0, cpu_ms=0, mb=42), look(10, cpu_ms=30, mb=42, switches=225_000)))
    found = warnings(result(idle=busy, costs=loud, loaded=other))
    words = ("59.9 %", "3.0 %", "300 ns apart", "22,500 switches/s")
    assert [sum(word in text for text in found) for word in words] == [1] * 4
    assert "**Doubtful**: the host was not idle" in document(result(idle=busy), MACHINE, image=None)


def test_the_picture_has_every_look():
    idle = result().idle
    root = ElementTree.fromstring(picture(idle, cpu_goal_pct=0.5, rss_goal_mb=80.0))  # noqa: S314  # our own text
    curves = [line.get("points").split() for line in root.iter(f"{SVG}polyline")]
    assert [len(points) for points in curves] == [6, 7]  # between two looks, and at each
    rss = [tuple(float(number) for number in point.split(",")) for point in curves[1]]
    assert rss == sorted(rss)  # to the right
    heights = [y for _, y in rss]
    assert heights == sorted(heights, reverse=True)  # and upwards: it grew
    width, height = (float(number) for number in root.get("viewBox").split()[2:])
    assert all(0 <= x <= width and height / 2 <= y <= height for x, y in rss)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "goal 0.5" in texts
    assert "goal 80" in texts


@pytest.mark.parametrize("count", [2, 360])
def test_a_picture_of_any_length(count):
    window = Window(looks=tuple(look(5 * n, cpu_ms=10 * n, mb=42) for n in range(count)))
    root = ElementTree.fromstring(picture(window, cpu_goal_pct=0.5, rss_goal_mb=80.0))  # noqa: S314  # our own text
    assert len(list(root.iter(f"{SVG}polyline"))) == 2
