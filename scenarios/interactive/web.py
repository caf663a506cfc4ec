# SPDX-License-Identifier: GPL-2.0-only
"""Web browsing: a person in Chromium, on pages of five kinds that are made of the seed, without any network.

The browser is driven by Selenium, with events as a mouse and a keyboard make them; what they take is measured inside
the pages (`web_data/measure.js`) and fetched between two actions. Writes the browser's profile into the scratch folder.
"""

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Role
from scenarios.driving import Driver, fail, need_fonts

PAGE = Path(__file__).with_name("web_data") / "page.html"
"""What follows its `#` is JSON: kind, size and seed of the page."""
SIZES = {"article": (12, 80), "table": (200, 1500), "feed": (10, 50), "mail": (100, 900), "dashboard": (6, 24)}
"""Kinds of pages, each with its smallest and largest size."""
_DECK = {"click_ms": (3, 8), "sort_ms": (1, 3), "input_ms": (1, 3), "scroll_frame_ms": (2, 5), "tab_switch_ms": (1, 3)}
_WINDOWS = ("1024,768", "1280,800", "1440,900", "1920,1080")
_FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
)
_LONGEST = 107 - len("/org.chromium.Chromium.XXXXXX/SingletonSocket")  # unix(7): sun_path
_WORDS = "time people day thing world state group hand part place week work number night point home water room money"


def _draw(rng: random.Random, _place: Place) -> Parameters:
    kinds = [rng.choice(tuple(SIZES)) for _ in range(rng.randint(2, 5))]
    return {
        "kinds": kinds,
        "sizes": [rng.randint(*SIZES[kind]) for kind in kinds],
        "seeds": [rng.randrange(1 << 32) for _ in kinds],
        "window": rng.choice(_WINDOWS),
        "actions": [rng.randint(*_DECK[metric]) for metric in APPLICATION.metrics],  # of a round, metric by metric
        "think_s": round(rng.uniform(0.15, 0.9), 3),  # mean pause between two actions
        "key_s": round(rng.uniform(0.08, 0.25), 3),  # between two keys
        "notch_s": round(rng.uniform(0.03, 0.12), 3),  # between two notches of the wheel
        "notches": rng.randint(6, 25),
    }


APPLICATION = Application(
    name="web",
    role=Role.INTERACTIVE,
    kind=Kind.BROWSE,
    metrics=("click_ms", "sort_ms", "input_ms", "tab_switch_ms", "scroll_frame_ms"),
    packages=("chromium", "chromium-driver", "fonts-dejavu-core"),
    programs=("chromium", "chromedriver"),
    modules=("selenium",),
    draw=_draw,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.interactive.web"),
    environment=lambda _place: {"SE_OFFLINE": "true", "SE_AVOID_STATS": "true"},
)


class _Tab:
    """A page, and the clock of its process against ours."""

    def __init__(self, browser: Any, handle: str) -> None:
        self.handle = handle
        self.shown_ns: int | None = None  # when the person asked for it
        self._browser = browser
        self._offset_ns = min(self._ask() for _ in range(8))[1]

    def _ask(self) -> tuple[int, int]:
        """How long the page takes to tell the time, and its difference from ours: the quickest answer is the best."""
        before_ns = time.monotonic_ns()
        page_ns = round(self._browser.execute_script("return performance.now()") * 1e6)
        after_ns = time.monotonic_ns()
        return after_ns - before_ns, (before_ns + after_ns) // 2 - page_ns

    def report(self, driver: Driver) -> None:
        """Hand over what the page has measured since the last time."""
        taken = self._browser.execute_script("return take()")
        if taken["error"] is not None:
            fail(f"the page said: {taken['error']}")
        for metric, value, at_ms in taken["samples"]:
            driver.measured(metric, value, self._ours_ns(at_ms))
        if taken["seen"] is None or self.shown_ns is None:
            return
        seen_ns = self._ours_ns(taken["seen"])
        if seen_ns > self.shown_ns:  # else it is the paint of an earlier visit
            driver.measured("tab_switch_ms", (seen_ns - self.shown_ns) / 1e6, seen_ns)
            self.shown_ns = None

    def _ours_ns(self, page_ms: float) -> int:
        return round(page_ms * 1e6) + self._offset_ns


class _Person:
    """What one does in a browser, one action after another."""

    def __init__(self, driver: Driver, browser: Any) -> None:
        self._driver = driver
        self._browser = browser
        self._rng = random.Random(driver.seed)  # noqa: S311
        self._given: Mapping[str, Any] = driver.parameters
        self._tabs = [self._open(place) for place in range(len(self._given["kinds"]))]
        self._tab = self._tabs[-1]

    def _open(self, place: int) -> _Tab:
        asked = {"kind": self._given["kinds"][place], "size": self._given["sizes"][place]}
        asked["seed"] = self._given["seeds"][place]
        if place:
            self._browser.switch_to.new_window("tab")
        self._browser.get(f"{PAGE.as_uri()}#{quote(json.dumps(asked))}")
        return _Tab(self._browser, self._browser.current_window_handle)

    def round(self) -> None:
        """Each action as often as the parameters say, in an order of its own; measured after each."""
        deck = [
            metric
            for metric, count in zip(APPLICATION.metrics, self._given["actions"], strict=True)
            for _ in range(count)
        ]
        self._rng.shuffle(deck)
        for metric in deck:
            if metric == "tab_switch_ms":
                self._switch()
            elif metric == "input_ms":
                self._type()
            elif metric == "scroll_frame_ms":
                self._scroll()
            else:
                self._click(metric)
            self._pause(self._given["think_s"])
            self._tab.report(self._driver)

    def _pause(self, mean_s: float) -> None:
        self._driver.pause(self._rng.uniform(0.5, 1.5) * mean_s)

    def _mouse(self, kind: str, x: float, y: float, **more: object) -> None:
        self._browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def _press(self, x: float, y: float) -> None:
        self._mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, button="left", clickCount=1)

    def _click(self, metric: str) -> None:
        where = self._browser.execute_script("return aim(...arguments)", metric, self._rng.randrange(1000))
        if where is not None:  # a search may have left nothing to click at
            self._press(*where)

    def _type(self) -> None:
        x, y = self._browser.execute_script(
            "const b = query.getBoundingClientRect(); query.select(); return [b.x + 20, b.y + 8]"
        )
        self._press(x, y)
        self._browser.execute_script("query.select()")
        for key in self._rng.choice(_WORDS.split()):
            self._pause(self._given["key_s"])
            for kind, text in (("keyDown", {"text": key}), ("keyUp", {})):
                self._browser.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, "key": key, **text})

    def _scroll(self) -> None:
        room = self._browser.execute_script("return room(...arguments)", self._rng.randrange(2))
        upwards = room["down"] < 200 or (room["up"] > 2000 and self._rng.random() < 0.3)
        for _ in range(max(3, round(self._rng.uniform(0.5, 1.5) * self._given["notches"]))):
            self._mouse("mouseWheel", room["x"], room["y"], deltaX=0, deltaY=-100 if upwards else 100)
            self._pause(self._given["notch_s"])

    def _switch(self) -> None:
        # Nobody leaves before he has seen what he asked for; and of a hidden page nothing would be painted.
        self._browser.execute_async_script("painted(arguments[0])")
        self._tab.report(self._driver)
        self._tab = self._rng.choice([tab for tab in self._tabs if tab is not self._tab])
        self._tab.shown_ns = time.monotonic_ns()
        self._browser.execute_cdp_cmd("Target.activateTarget", {"targetId": self._tab.handle})
        self._browser.switch_to.window(self._tab.handle)


def _launch(driver: Driver, service: Any, *, sandbox: bool) -> Any:
    from selenium import webdriver  # the table is read without it

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    own = (f"--user-data-dir={driver.scratch / 'profile'}", f"--window-size={driver.parameters['window']}")
    for flag in (*_FLAGS, *own, *(() if sandbox else ("--no-sandbox",))):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=service)


def main() -> None:
    """Browse until SIGTERM. Everything that the browser makes lies in the scratch folder, so nothing is cleaned up."""
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service

    driver = Driver.begin(interrupt=True)
    if len(str(driver.scratch)) > _LONGEST:
        fail(f"{driver.scratch}: longer than {_LONGEST} characters, too long for the browser's socket in it")
    need_fonts()
    service = Service(shutil.which("chromedriver"))
    try:
        try:
            browser = _launch(driver, service, sandbox=os.geteuid() != 0)  # root may not have one
        except WebDriverException:
            if os.geteuid() == 0:
                raise
            browser = _launch(driver, service, sandbox=False)  # no user namespaces here
        person = _Person(driver, browser)
        driver.ready({"chromium": browser.capabilities["browserVersion"]})
        while not driver.ending:
            person.round()
    except WebDriverException as error:
        if not driver.ending:
            fail(f"chromium: {(error.msg or type(error).__name__).partition(chr(10))[0].partition('; For doc')[0]}")
    finally:
        if service.process is not None:
            service.process.kill()  # else selenium asks it to end, and waits
            service.process.wait()


if __name__ == "__main__":
    main()
