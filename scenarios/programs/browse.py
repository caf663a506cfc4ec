# SPDX-License-Identifier: GPL-2.0-only
"""Browse: Firefox, surf, NetSurf and Dillo, scrolled and clicked by wheel, keys and pointer.

Those that run scripts show the pages of `scenarios.interactive.web`; NetSurf and Dillo show plain pages with links
from one to the next. Pages, resolution and how quickly somebody reads differ. No network is used.
"""

import json
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.interactive import web
from scenarios.programs.looping import Argv
from scenarios.programs.staged import Stage, Staged, draw_person, keys, program, words

_MOVES = ("Page_Down", "Page_Down", "space", "Page_Up", "Home", "End", "Down", "Down")
_PREFERENCES = {
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.tabs.warnOnClose": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.dns.disabled": True,  # nothing outside is asked for
    "toolkit.telemetry.enabled": False,
}


def _draw(rng: random.Random, _place: Place) -> Parameters:
    kinds = [rng.choice(tuple(web.SIZES)) for _ in range(rng.randint(1, 4))]
    return {
        **draw_person(rng),
        "kinds": kinds,
        "sizes": [rng.randint(*web.SIZES[kind]) for kind in kinds],
        "seeds": [rng.randrange(1 << 32) for _ in kinds],
        "notches": rng.randint(3, 15),  # of the wheel, of a turn
        "turns": rng.randint(1, 5),  # of a pass
        "clicks": rng.randint(0, 3),
        "moves": rng.randint(0, 4),
        "reloads": rng.random() < 0.5,
    }


def _pages(stage: Stage) -> list[str]:
    """Addresses of the benchmark's pages."""
    given = stage.given
    asked = zip(given["kinds"], given["sizes"], given["seeds"], strict=True)
    pages = ({"kind": kind, "size": size, "seed": seed} for kind, size, seed in asked)
    return [f"{web.PAGE.as_uri()}#{quote(json.dumps(page))}" for page in pages]


def _plain(stage: Stage) -> list[str]:
    """Addresses of pages without scripts, each with links to all."""
    rng, folder = stage.rng, stage.driver.scratch
    sizes = list(stage.given["sizes"])
    paths = [folder / f"page{number}.html" for number in range(len(sizes))]
    links = " ".join(f'<a href="{path.name}">{words(rng, 2)}</a>' for path in paths * 6)
    for path, size in zip(paths, sizes, strict=True):
        parts = []
        for _ in range(20 + int(size) // 4):
            cells = "".join(f"<td>{words(rng, 1)} {rng.randrange(1000)}</td>" for _ in range(rng.randint(2, 6)))
            text = words(rng, rng.randint(20, 120))
            parts.append(f"<h2>{words(rng, 1)}</h2><p>{links}</p><p>{text}</p><table border><tr>{cells}</table>")
        path.write_text(f"<!doctype html><title>page</title><body>{''.join(parts)}")
    return [path.as_uri() for path in paths]


def _act(stage: Stage) -> None:
    given, rng, desk = stage.given, stage.rng, stage.desk
    for _ in range(given["clicks"]):
        desk.click(rng.uniform(0.1, 0.8), rng.uniform(0.25, 0.9))
        stage.pause(given["think_s"])
    for _ in range(given["turns"]):
        desk.scroll(rng.choice((1, 1, -1)) * given["notches"])
        stage.pause(given["think_s"])
    keys(stage, _MOVES, given["moves"])
    if given["reloads"] and rng.random() < 0.5:
        desk.key("ctrl+r")
    stage.pause(given["think_s"])


def _browser(
    name: str,
    *,
    argv: Callable[[Stage], Argv],
    pages: Callable[[Stage], list[str]] = _pages,
    package: str = "",
    binary: str = "",
    env: Mapping[str, str] | None = None,
    version: Argv = ("--version",),
) -> Staged:
    def begin(stage: Stage) -> None:
        stage.start((*argv(stage), *pages(stage)), env)

    return program(
        __name__,
        name=name,
        kind=Kind.BROWSE,
        packages=(package or name,),
        programs=(binary or name,),
        draw=_draw,
        begin=begin,
        act=_act,
        version=version,
    )


def chromium_words(stage: Stage) -> Argv:
    """A Chromium of the session's own, in a window of the screen's size, that calls nobody."""
    width, height = stage.given["size"].split("x")
    return (
        "chromium",
        f"--user-data-dir={stage.driver.scratch / 'profile'}",
        *(
            "--no-first-run",
            "--ozone-platform-hint=auto",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-component-update",
        ),
        *("--disable-background-networking", "--disable-extensions", "--password-store=basic"),
        *(("--no-sandbox",) if os.geteuid() == 0 else ()),  # root may not have one
        f"--window-size={width},{height}",
    )


def firefox_profile(folder: Path, more: Mapping[str, bool]) -> Path:
    """Write a profile that asks nothing and calls nobody."""
    folder.mkdir()
    lines = (f"user_pref({json.dumps(key)}, {json.dumps(value)});\n" for key, value in {**_PREFERENCES, **more}.items())
    (folder / "user.js").write_text("".join(lines))
    return folder


def _firefox(stage: Stage) -> Argv:
    profile = firefox_profile(stage.driver.scratch / "profile", {})
    return ("firefox-esr", "--no-remote", "--new-instance", "--profile", str(profile))


def _one(pages: Callable[[Stage], list[str]]) -> Callable[[Stage], list[str]]:
    return lambda stage: pages(stage)[:1]


_WEBKIT = {"WEBKIT_DISABLE_COMPOSITING_MODE": "1"}  # there is no GPU

PROGRAMS = (
    _browser("firefox", package="firefox-esr", binary="firefox-esr", argv=_firefox),
    _browser("surf", argv=lambda _stage: ("surf",), pages=_one(_pages), env=_WEBKIT, version=("-v",)),
    _browser("netsurf", package="netsurf-gtk", argv=lambda _s: ("netsurf",), pages=_one(_plain), version=()),
    _browser("dillo", argv=lambda _stage: ("dillo",), pages=_one(_plain)),
)
