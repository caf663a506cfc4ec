# SPDX-License-Identifier: GPL-2.0-only
"""The monitor's screen: panels over what `asa.monitor.feed` gives, and the keys. Needs textual.

Colours of text and ground are the terminal's own.
"""

import subprocess
import time
from collections.abc import Callable
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from asa import paths, requests
from asa.core.errors import AsaError
from asa.monitor import numbers, panels
from asa.monitor.feed import Feed, History
from asa.monitor.panels import Line
from asa.status import Status, seen

_HOLD_S = 30 * 60
_SCROLL = frozenset({"up", "down", "pageup", "pagedown", "home", "end"})
_TALL_ROWS = 32  # from here on ranking and switches have panels of their own

_NOBODY = "No agent is running; `asa run` starts one.\nWaiting for it."
_KEYS: Line = (
    (" q", "bold"),
    (" quit  ", "dim"),
    ("h", "bold"),
    (" hold 30 min  ", "dim"),
    ("r", "bold"),
    (" resume  ", "dim"),
    ("t", "bold"),
    (" teach  ", "dim"),
    ("?", "bold"),
    (" help", "dim"),
)


class Panel(Widget):
    """Lines of styled runs in a frame with a title; only lines that have changed are drawn anew."""

    DEFAULT_CSS = """
    Panel { height: 1fr; width: 1fr; border: round ansi_bright_black; border-title-style: bold; padding: 0 1;
            border-title-color: ansi_default; border-subtitle-color: ansi_default; }
    Panel.line { height: 1; border: none; padding: 0; }
    """

    def __init__(self, title: str = "", *, name: str, classes: str = "") -> None:
        super().__init__(id=name, classes=classes)
        self._entitle(title)
        self._lines: tuple[Line, ...] = ()
        self._below: Line = ()

    def show(self, lines: list[Line], title: str | None = None, below: Line = ()) -> None:
        """Draw these if they are others than those on the screen; so with the titles above and `below`."""
        if title is not None and title != self._above:
            self._entitle(title)
        if below != self._below:
            self._below = below
            self.border_subtitle = Content.assemble(*below)
        before, self._lines = self._lines, tuple(lines)
        changed = [row for row, pair in enumerate(zip_longest(before, self._lines)) if pair[0] != pair[1]]
        if changed:
            self.refresh(*(Region(0, row, self.content_size.width, 1) for row in changed))

    def _entitle(self, title: str) -> None:
        # as it stands: a plain string would be read as markup, and names of classes come from models
        self._above = title
        self.border_title = Content(title)

    def render_line(self, y: int) -> Strip:
        """One line as textual draws it: cheaper than a text that would have to be wrapped."""
        plain = self.rich_style
        runs = self._lines[y] if y < len(self._lines) else ()
        segments = [Segment(text, plain + Style.parse(style)) for text, style in runs]
        return Strip(segments).adjust_cell_length(self.content_size.width, plain)


class Help(ModalScreen[None]):
    """The keys, and what is what."""

    CSS = """
    Help { align: center middle; }
    Help > VerticalScroll { width: 78; height: auto; max-height: 100%; border: round ansi_default; padding: 0 1; }
    """

    def compose(self) -> ComposeResult:
        """One text, which scrolls on a small screen."""
        with VerticalScroll() as text:
            text.border_subtitle = "arrows scroll, any other key closes this"
            yield Static(numbers.help_text(), markup=False)

    def on_key(self, event: Key) -> None:
        """Any key that does not scroll closes it."""
        if event.key not in _SCROLL:
            event.stop()
            self.dismiss()


class Use(ModalScreen[str]):
    """Asks what runs now; "" where nobody says it."""

    BINDINGS: ClassVar = [Binding("escape", "dismiss('')", "close")]
    CSS = """
    Use { align: center middle; }
    Use > Input { width: 78; border: round ansi_default; }
    """

    def compose(self) -> ComposeResult:
        """One line to type into."""
        asked = Input(placeholder="such as compress, or browse+compile; Escape closes this")
        asked.border_title = "What runs now?"
        yield asked

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """It is said."""
        self.dismiss(event.value.strip())


class Monitor(App[None]):
    """The live view."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [
        Binding("q,ctrl+c", "quit", "quit"),
        Binding("h", "hold", "hold"),
        Binding("r", "resume", "resume"),
        Binding("t", "teach", "teach"),
        Binding("question_mark", "help", "help"),
    ]
    CSS = """
    Screen { overflow: hidden; }
    #view { height: 1fr; }
    #top { height: 10; }
    #strips { height: 5; }
    #latency { height: 6; }
    #more { height: 1fr; display: none; }
    #none { border: none; padding: 1 2; display: none; }
    #more.tall { display: block; }
    #latency.tall { height: 10; }
    Toast { max-width: 76; background: ansi_default; border: round ansi_default; padding: 0 1; }
    Toast.-error { border: round ansi_red; }
    """

    def __init__(self, feed: Feed | None = None, now_ns: Callable[[], int] = time.time_ns) -> None:
        super().__init__()
        self._now_ns = now_ns
        self.animation_level = "none"
        self.theme = "ansi-dark"  # the terminal's own ground and ink, light or dark
        self._feed = feed if feed is not None else Feed()
        self._history = History()
        self._panels: dict[str, Panel] = {}
        self._view, self._more = Vertical(id="view"), Horizontal(id="more")
        self._none = Panel(name="none")

    def compose(self) -> ComposeResult:
        """All panels."""
        made = {
            "head": Panel(name="head", classes="line"),
            "workload": Panel("workload", name="workload"),
            "force": Panel("scheduler", name="force"),
            "strips": Panel("votes, tick by tick", name="strips"),
            "latency": Panel("latency, tick by tick", name="latency"),
            "ranking": Panel("ranking", name="ranking"),
            "switches": Panel("switches", name="switches"),
            "cost": Panel(name="cost", classes="line"),
            "keys": Panel(name="keys", classes="line"),
        }
        self._panels = made
        yield self._none
        with self._view:
            yield made["head"]
            with Horizontal(id="top"):
                yield made["workload"]
                yield made["force"]
            yield made["strips"]
            yield made["latency"]
            with self._more:
                yield made["ranking"]
                yield made["switches"]
        yield made["cost"]
        yield made["keys"]

    def on_mount(self) -> None:
        """The first look; each look orders the next."""
        self._panels["keys"].show([_KEYS])
        self._look()

    def on_resize(self, event: Resize) -> None:
        """Panels are as wide as the screen lets them be."""
        for panel in (self._more, self._panels["latency"]):
            panel.set_class(event.size.height >= _TALL_ROWS, "tall")
        self.call_after_refresh(self._draw)

    def action_hold(self) -> None:
        """Ask the agent to switch nothing for half an hour."""
        until_ns = time.time_ns() + _HOLD_S * 10**9
        self._ask(requests.Hold(until_ns=until_ns))

    def action_resume(self) -> None:
        """Ask the agent to go on."""
        self._ask(requests.Resume())

    def action_teach(self) -> None:
        """Ask what runs now, and teach it the model."""

        def said(use: str | None) -> None:
            if use:
                self.notify(f"{use}: watching for two minutes; let it run", markup=False)
                self._teach(use)

        self.push_screen(Use(), said)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help())

    @work(thread=True, group="ask", exclusive=True)
    def _ask(self, request: requests.Hold | requests.Resume) -> None:
        try:
            said, severe = answered(request), False
        except AsaError as error:
            said, severe = str(error), True
        self.call_from_thread(self.notify, said, severity="error" if severe else "information", markup=False)
        self.call_from_thread(self._refreshed)

    @work(thread=True, group="teach", exclusive=True)
    def _teach(self, use: str) -> None:
        said, severe = taught(use)
        self.call_from_thread(self.notify, said, severity="error" if severe else "information", markup=False)

    def _look(self) -> None:
        self._refreshed()
        self.set_timer(self._feed.next_look_s(), self._look)

    def _refreshed(self) -> None:
        if self._feed.look():
            found = self._feed.status
            if found is not None:
                self._history.add(found)
            self._draw()
        elif self._feed.late_s() is not None:
            self._draw()

    def _draw(self) -> None:
        found = self._feed.status
        if self._view.display != (found is not None):
            self._view.display = found is not None
            self._none.display = found is None
            self.call_after_refresh(self._draw)  # when it is known how large the panels are
        if found is None:
            self._none.show([((line, ""),) for line in (self._feed.error or _NOBODY).splitlines()])
            self._panels["cost"].show([])
            return
        self._show(found, self._now_ns())

    def _show(self, found: Status, now_ns: int) -> None:
        shown, history, tall = self._panels, self._history, self._more.display
        sizes = {name: panel.content_size for name, panel in shown.items()}
        shown["head"].show([panels.head(found, self._feed.late_s(), now_ns, self.size.width)])
        title = f"workload: {seen(found)} {found.confidence:.0%}"
        shown["workload"].show(panels.workload(found, *sizes["workload"]), title)
        shown["force"].show(panels.in_force(found, now_ns, *sizes["force"], switches=not tall))
        width = sizes["strips"].width
        shown["strips"].show(panels.strips(found, history, width), below=panels.legend(history, width - 4))
        shown["latency"].show(panels.latencies(history, *sizes["latency"]))
        if tall:
            title = f"ranking for {found.workload}" if found.ranking else "ranking"
            shown["ranking"].show(panels.ranking(found, *sizes["ranking"]), title)
            shown["switches"].show(panels.latest(found.lately, *sizes["switches"]))
        shown["cost"].show([panels.cost(found, history, self.size.width)])


def taught(use: str) -> tuple[str, bool]:
    """Run `asa teach` for its two minutes, in a process of its own; what it says, and whether it failed."""
    words = [*paths.program(), "teach", "--", use]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # our own argument list
    lines = (done.stdout if done.returncode == 0 else done.stdout + done.stderr).strip().splitlines()
    return "\n".join(lines[-2:]), done.returncode != 0


def answered(request: requests.Hold | requests.Resume) -> str:
    """Ask the running agent, wait, and say in a line what became of it. Raises AsaError."""
    folder, before = requests.agent()
    if before.mode not in {"switching", "hold"}:
        why = f" ({before.mode_reason})" if before.mode_reason else ""
        raise AsaError(f"the agent switches nothing: its mode is {before.mode}{why}")
    if isinstance(request, requests.Hold):
        until_ns = request.until_ns
        after = requests.ask(
            folder, before, request, settled=lambda found: found.held and found.held_until_ns == until_ns
        )
    else:
        after = requests.ask(
            folder, before, request, settled=lambda found: found.mode != "hold" and not found.set_aside
        )
    reason = f": {after.mode_reason}" if after.mode_reason else ""
    return f"{after.mode}{reason}; {after.scheduler} in force"
