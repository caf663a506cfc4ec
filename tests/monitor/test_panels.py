# SPDX-License-Identifier: GPL-2.0-only
"""What the monitor's panels say; and that no line is ever too long for its panel."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_status import status

from asa.monitor import panels
from asa.monitor.feed import History
from asa.status import Place, Switched, Waiting

S = 10**9
NOW = 1_800_000_000 * S
CLASSES = {"cpu": 0.125, "cpu+disk": 0.0, "idle": 0.25, "web": 0.625}


def switch(outcome="confirmed", old="eevdf", new="scx_one", gap_ns=41_300_000, seconds=5):
    return Switched(
        at_ns=NOW - seconds * S,
        outcome=outcome,
        old=old,
        new=new,
        way="standby",
        why="",
        detail="",
        elapsed_ns=60_000_000,
        gap_ns=gap_ns,
        ended="",
    )


def agent(**changes):
    values = {
        "probabilities": CLASSES,
        "workload": "web",
        "confidence": 0.5,
        "scheduler": "scx_one",
        "scheduler_since_ns": NOW - 90 * S,
        "wanted": "scx_one",
        "sentence": "scx_one serves web",
        "started_ns": NOW - 3600 * S,
        "updated_ns": NOW,
    }
    return status(**(values | changes))


def text(lines):
    return ["".join(run for run, _ in line) for line in lines]


def history(*ticks):
    found = History()
    for number, changes in enumerate(ticks):
        found.add(agent(ticks=number, **changes))
    return found


def test_the_head_says_what_the_agent_does():
    clock = time.strftime("%H:%M:%S", time.localtime(NOW // S))
    (line,) = text([panels.head(agent(pid=7), None, NOW, 60)])
    assert line.split() == ["ASA", "switching", "·", "pid", "7", "·", "up", "60", "min", clock]
    assert len(line) == 60
    (line,) = text([panels.head(agent(pid=7, mode="hold", mode_reason="x" * 99), 12.0, NOW, 80)])
    assert line.startswith(" ASA hold: xxx")
    assert "… · pid 7 · up 60 min · last heard of 12 s ago" in line
    assert line.endswith(f" {clock} ")
    assert len(line) == 80


def test_every_class_has_a_bar():
    assert text(panels.workload(agent(), 32, 8)) == [
        f" cpu      {'██▏':<17}  12%",
        f" cpu+disk {'':<17}   0%",
        f" idle     {'████▎':<17}  25%",
        f"▸web      {'██████████▋':<17}  62%",
    ]
    assert [line.split()[0] for line in text(panels.workload(agent(), 32, 2))] == ["idle", "▸web"]  # the likeliest
    assert text(panels.workload(agent(probabilities={}), 32, 8)) == ["nothing to judge by yet"]


def test_the_scheduler_and_why():
    standbys = (
        Waiting(scheduler="scx_two", ready=True, memory_bytes=4_200_000, since_ns=0),
        Waiting(scheduler="scx_three", ready=False, memory_bytes=0, since_ns=0),
    )
    found = agent(standbys=standbys, set_aside=["scx_four"], lately=(switch(),))
    assert text(panels.in_force(found, NOW, 60, 8, switches=True))[:4] == [
        "scx_one for 90 s, as wanted",
        "scx_one serves web",
        "standby scx_two 4.2 MB, scx_three loads",
        "set aside scx_four",
    ]
    assert text(panels.in_force(found, NOW, 60, 8, switches=True))[4].endswith(" eevdf → scx_one 41.3 ms gap")
    assert len(panels.in_force(found, NOW, 60, 8, switches=False)) == 4
    other = panels.in_force(agent(wanted="scx_two"), NOW, 60, 8, switches=True)
    assert text(other)[:2] == ["scx_one for 90 s", "wanted scx_two"]
    by_hand = panels.in_force(agent(chosen="scx_one", wanted="scx_two"), NOW, 60, 8, switches=True)
    assert text(by_hand)[0] == "scx_one for 90 s, by hand"
    assert text(panels.in_force(agent(scheduler=None), NOW, 60, 8, switches=True))[0] == "no sched_ext in this kernel"


def test_strips_have_the_newest_tick_at_the_right():
    ticks = [
        {"probabilities": {"web": 1.0}, "workload": "web", "scheduler": "eevdf"},
        {"probabilities": {}, "workload": None, "scheduler": "scx_one"},
        {"probabilities": {"cpu": 0.5}, "workload": "cpu", "scheduler": "scx_one"},
    ]
    lines = panels.strips(agent(), history(*ticks), 20)
    assert text(lines) == ["votes            █ ▅", "class            ▄ ▄", "scheduler        ▄▄▄"]
    colours = panels.class_colours(CLASSES)
    assert [style for run, style in lines[0][2:] if run.strip()] == [colours["web"], colours["cpu"]]
    assert text(panels.strips(agent(), history(*ticks), 12))[2] == "scheduler ▄▄"
    assert text([panels.legend(history(*ticks), 40)]) == ["■ scx_one  ■ eevdf  "]
    assert text([panels.legend(history(*ticks), 12)]) == ["■ scx_one  "]


def test_classes_and_schedulers_have_colours_of_their_own():
    names = ["cpu", "cpu+disk", "disk", "frames", "idle", "network", "spawn", "wakeup"]  # the shipped model's
    assert len(set(panels.class_colours(names).values())) == len(names)
    found = history({"scheduler": "eevdf"}, {"scheduler": "scx_one"}, {"scheduler": "scx_two"})
    assert len(set(panels.scheduler_colours(found).values())) == 3


def test_latencies():
    found = history(
        {"signals": {"run_queue_p99_us": 250.0, "cpu_pressure": 0.5}},
        {"signals": {"run_queue_p99_us": None, "cpu_pressure": 0.25}},
        {"signals": {"run_queue_p99_us": 8000.0, "cpu_pressure": 0.0}},
    )
    lines = text(panels.latencies(found, 50, 4))
    assert lines[0] == f"run queue p99       8 ms  {' ' * 11}▁ █    ≤ 8 ms"
    assert lines[1] == "wakeup p99     not measured"
    assert lines[3] == f"CPU pressure          0%  {' ' * 11}█▅▁     ≤ 50%"
    high = text(panels.latencies(found, 50, 8))
    assert len(high) == 8
    assert [line[37:40] for line in (high[0], high[1], high[6], high[7])] == ["  █", "▁ █", "█▁ ", "██▁"]


def test_a_curve_in_rows():
    assert panels.spark([0.0, 1.0, None, 0.5, 9.0], 1.0) == ["▁█ ▅█"]
    assert panels.spark([0.0, 1.0, None, 0.5], 1.0, rows=2) == [" █ ▁", "▁█ █"]


def test_switches_the_newest_first_and_as_short_as_need_be():
    events = (
        switch(seconds=9),
        switch("refused", new="scx_bad"),
        switch(old="scx_one", new="scx_two", gap_ns=None),
        switch("foreign", new="scx_layered"),
    )
    assert [line[9:] for line in text(panels.latest(events, 60, 9))] == [
        "foreign scx_layered",
        "scx_one → scx_two 60 ms",
        "refused scx_bad",
        "eevdf → scx_one 41.3 ms gap",
    ]
    assert [line[9:] for line in text(panels.latest(events[-2:], 30, 9))][1] == "one → two 60 ms"
    assert len(panels.latest(events, 60, 2)) == 2
    assert text(panels.latest((), 60, 2)) == ["no switches yet"]


def test_the_ranking_and_who_is_out():
    places = (
        Place(scheduler="scx_two", why="quick", out="failed once: no", until_ns=NOW),
        Place(scheduler="scx_one", why="fair"),
        Place(scheduler="eevdf", why="last"),
    )
    found = agent(ranking=places)
    assert text(panels.ranking(found, 60, 9)) == [
        "1. scx_two  out: failed once: no",
        "2. scx_one  in force; fair",
        "3. eevdf  last",
    ]
    assert text(panels.ranking(agent(), 60, 9)) == ["waits for a class"]


def test_what_the_agent_takes():
    found = agent(ticks=9, overruns=2, switches=3, failures=1, resident_bytes=58_000_000, missing_sources={"ebpf": "."})
    seen = history({"updated_ns": NOW, "cpu_ns": 1 * S}, {"updated_ns": NOW + S, "cpu_ns": 1 * S + 6_000_000})
    assert text([panels.cost(found, seen, 120)]) == [
        " agent 0.60% of a core · 58 MB · 2 of 9 ticks late · 3 switches, 1 failed · without ebpf"
    ]


@pytest.mark.parametrize(
    ("value_us", "words"), [(12.0, "12 µs"), (999.4, "999 µs"), (1234.0, "1.23 ms"), (2.5e6, "2.5 s")]
)
def test_latencies_in_words(value_us, words):
    assert panels.latency(value_us) == words


@pytest.mark.parametrize(("seconds", "words"), [(-1, "0 s"), (119, "119 s"), (600, "10 min"), (9e5, "10 days")])
def test_durations_in_words(seconds, words):
    assert panels.duration(seconds) == words


NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=25)
SIGNALS = st.fixed_dictionaries(
    {},
    optional={
        "run_queue_p99_us": st.none() | st.floats(min_value=0, max_value=9e8),
        "cpu_pressure": st.none() | st.floats(min_value=0, max_value=1),
    },
)


@given(
    st.integers(40, 200),
    st.integers(1, 30),
    st.dictionaries(NAMES.map(lambda name: name[:12]), st.floats(0, 1), max_size=12),
    NAMES,
    SIGNALS,
    st.text(max_size=300),
)
def test_nothing_is_wider_than_its_panel(width, height, shares, name, signals, words):
    lines = " ".join(words.split())
    found = agent(
        probabilities=shares,
        scheduler=name,
        wanted=name,
        signals=signals,
        sentence=lines,
        lately=(switch(new=name), switch("lost", new=name)),
        set_aside=[name],
        ranking=(Place(scheduler=name, why=lines, out=lines),),
    )
    seen = History()
    seen.add(found)
    shown = [
        *panels.workload(found, width, height),
        *panels.strips(found, seen, width),
        panels.legend(seen, width),
        *panels.latencies(seen, width, height),
        *panels.in_force(found, NOW, width, height, switches=True),
        *panels.latest(found.lately, width, height),
        *panels.ranking(found, width, height),
        panels.cost(found, seen, width),
    ]
    assert [line for line in text(shown) if len(line) > width] == []
