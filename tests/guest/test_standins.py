# SPDX-License-Identifier: GPL-2.0-only
"""All eleven stand-ins in an emulated guest, by the wall clock: each metric comes, and nothing is left.

The host has built them (`asa lab bench run` and tests/scenarios/test_guest.py do so before a boot).
"""

import dataclasses
from pathlib import Path

import pytest
from waiting import until

from asa import paths
from scenarios.application import Tier
from scenarios.session import Session, place_for
from scenarios.standins import APPLICATIONS

SHORT = {
    "web": {"think-ms": 20, "scroll-frames": 6, "sort-us": 8_000},
    "office": {"think-ms": 20, "key-ms": 15, "keys": 3},
    "archive": {"blocks": 4},
    "blender": {"tiles": 6, "tile-us": 5_000},
    "kernel": {"objects": 3, "object-us": 5_000},
    # the fewer nodes, the less its threads spin for each other
    "llm": {"nodes": 12, "prompt-tokens": 8, "tokens": 8, "pause-ms": 20, "node-us": 2_000},
    "disk": {"file-kb": 1_024},
    "video": {"pictures": 6, "row-us": 400},
}


def living():
    """Process ids of stand-ins; the guest's first process does not wait for orphans, so they stay as zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        if name in {"stand_in", "cc"} and rest.split()[0] not in "ZX":
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize("name", APPLICATIONS)
def test_it_plays_in_a_guest(tmp_path, name):
    application = APPLICATIONS[name]

    def draw(rng, place):
        return {**application.draw(rng, place), **SHORT.get(name, {})}

    one = dataclasses.replace(application, draw=draw)
    place = place_for(one, cache=paths.default().cache, tier=Tier.LAB)
    seen = set()
    with Session.start(one, seed=1, place=place, folder=tmp_path) as session:
        session.await_ready()
        assert session.versions["stand-in"] == "2"

        def all_seen():
            session.check()
            seen.update(measurement.metric for measurement in session.measurements())
            return seen == set(one.metrics)

        until(all_seen, lambda: f"{set(one.metrics) - seen} did not come")
    assert list(tmp_path.iterdir()) == []
    assert living() == []
