# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.screenshots`: docs/monitor.svg and docs/monitor.md, from what a monitor was told once.

`results/monitor.jsonl.xz` holds the lines of `asa monitor --json` beside an agent on the host where this was built: no
sched_ext, so it observed, while other programs compiled. The picture is what the monitor's own code draws of them.
"""

import argparse
import asyncio
import lzma
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from asa import files, wire
from asa.monitor import numbers
from asa.monitor.app import Monitor
from asa.monitor.feed import Feed
from asa.status import Status

KEPT = Path(__file__).with_name("results") / "monitor.jsonl.xz"
PICTURE, PAGE = "monitor.svg", "monitor.md"
_COLUMNS, _ROWS = 110, 36
_FROM_THE_NETWORK = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # a reader's own font has to do


class _Line(msgspec.Struct):
    agent: Status | None = None


class _Kept(Feed):
    """Gives what was kept, line by line, as fast as it is asked."""

    def __init__(self, statuses: Sequence[Status]) -> None:
        super().__init__(())
        self._left = list(reversed(statuses))

    def look(self) -> bool:
        if not self._left:
            return False
        self.status = self._left.pop()
        return True

    def next_look_s(self) -> float:
        return 0.001

    def late_s(self) -> float | None:
        return None

    @property
    def done(self) -> bool:
        return not self._left


def kept() -> tuple[Status, ...]:
    """What an agent said, tick by tick."""
    lines = lzma.decompress(KEPT.read_bytes()).splitlines()
    said = (wire.from_json(line, _Line).agent for line in lines)
    return tuple(one for one in said if one is not None)


def picture(statuses: Sequence[Status]) -> str:
    """An SVG of the monitor after all of these, in UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    return _FROM_THE_NETWORK.sub("", asyncio.run(_drawn(statuses)))


async def _drawn(statuses: Sequence[Status]) -> str:
    feed = _Kept(statuses)
    app = Monitor(feed, lambda: statuses[-1].updated_ns)
    async with app.run_test(size=(_COLUMNS, _ROWS)) as pilot:
        while not feed.done:
            await pilot.pause(0.01)
        await pilot.pause()
        return app.export_screenshot(title="asa monitor", simplify=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both files."""
    parser = argparse.ArgumentParser(prog="calibration.screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"), metavar="FOLDER", help="default: %(default)s")
    out: Path = parser.parse_args(arguments).out
    files.replace(out / PICTURE, picture(kept()).encode())
    files.replace(out / PAGE, numbers.page(PICTURE).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
