# SPDX-License-Identifier: GPL-2.0-only
"""The driver of `office`: a person at LibreOffice, who writes, reckons, shows slides and copies from one to another.

LibreOffice runs without a screen, steered by UNO over a pipe. Each action is measured until the office itself says that
nothing is left to do, layout and paint included. Runs under Debian's Python and imports nothing but its `uno` and
`scenarios.driving`. Writes the office's profile into the scratch folder.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from scenarios.driving import Driver, fail, missing, need_fonts

try:
    import uno
except ImportError:
    missing("the Python module uno is not installed; run: apt-get install python3-uno")

_FLAGS = ("--headless", "--norestore", "--nologo", "--nodefault", "--nofirststartwizard", "--nolockcheck")
_METRICS = ("key_ms", "recalc_ms", "slide_ms", "copy_ms")  # in the order of the parameter `blocks`
_START_LIMIT_S = 110.0
_WORDS = "time people day thing world state group hand part place week work number night point home water room"


class _Office:
    """A running LibreOffice."""

    def __init__(self, driver: Driver) -> None:
        name = f"asa{os.getpid()}"
        accept = f"--accept=pipe,name={name};urp;StarOffice.ComponentContext"
        profile = f"-env:UserInstallation={(driver.scratch / 'profile').as_uri()}"
        self.process = subprocess.Popen(
            (shutil.which("soffice") or "soffice", *_FLAGS, profile, accept), stdout=subprocess.DEVNULL
        )
        try:
            context = self._connect(driver, name)
        finally:
            _unlink_sockets()
        make = context.ServiceManager.createInstanceWithContext
        self.desktop = make("com.sun.star.frame.Desktop", context)
        self._toolkit = make("com.sun.star.awt.Toolkit", context)
        self._dispatcher = make("com.sun.star.frame.DispatchHelper", context)
        settings = make("com.sun.star.configuration.ConfigurationProvider", context)
        node = (_property("nodepath", "/org.openoffice.Setup/Product"),)
        product = settings.createInstanceWithArguments("com.sun.star.configuration.ConfigurationAccess", node)
        self.version = str(product.getByName("ooSetupVersionAboutBox"))

    def _connect(self, driver: Driver, name: str) -> Any:
        local = uno.getComponentContext()
        resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
        deadline = time.monotonic() + _START_LIMIT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            _unlink_sockets(but=name)
            try:
                return resolver.resolve(f"uno:pipe,name={name};urp;StarOffice.ComponentContext")
            except uno.getClass("com.sun.star.connection.NoConnectException"):
                driver.pause(0.05)
        return fail(f"soffice: no connection to it; its exit code: {self.process.poll()}")

    def settle(self) -> None:
        """Block until it has nothing left to do."""
        self._toolkit.processEventsToIdle()

    def open(self, kind: str) -> Any:
        return self.desktop.loadComponentFromURL(f"private:factory/{kind}", "_blank", 0, ())

    def order(self, document: Any, command: str, **properties: object) -> None:
        """What a menu's entry or a key does in a document's window."""
        given = tuple(_property(name, value) for name, value in properties.items())
        self._dispatcher.executeDispatch(document.CurrentController.Frame, f".uno:{command}", "", 0, given)


def _property(name: str, value: object) -> Any:
    made = uno.createUnoStruct("com.sun.star.beans.PropertyValue")
    made.Name, made.Value = name, value
    return made


def _programs() -> list[Path]:
    """Of our session in /proc, without us."""
    found = []
    for process in Path("/proc").glob("[1-9]*"):
        with suppress(OSError):  # it ended meanwhile
            if os.getsid(int(process.name)) == os.getsid(0) and int(process.name) != os.getpid():
                found.append(process)
    return found


def _unlink_sockets(but: str = "no") -> None:
    """LibreOffice makes two in /tmp, wherever TMPDIR is. Only we need one, by its name, until we are connected; later
    they would be left behind by an office that is killed."""
    ours = set()
    for process in _programs():
        with suppress(OSError):
            for file in (process / "fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    ours.add(str(file.readlink()))
    for line in Path("/proc/net/unix").read_text().splitlines():
        fields = line.split(maxsplit=7)  # the last two are inode and path
        if "/OSL_PIPE_" in fields[-1] and f"socket:[{fields[-2]}]" in ours and not fields[-1].endswith(f"_{but}"):
            Path(fields[-1]).unlink(missing_ok=True)


class _Person:
    """What one does in three documents, one action after another."""

    def __init__(self, driver: Driver, office: _Office) -> None:
        self._driver = driver
        self._office = office
        self._given = driver.parameters
        self._rng = random.Random(driver.seed)  # noqa: S311
        self._text = office.open("swriter")
        self._sheets = office.open("scalc")
        self._show = office.open("simpress")
        self._write()
        self._calculate()
        self._paint()
        office.settle()

    def _say(self, count: int) -> str:
        return " ".join(self._rng.choice(_WORDS.split()) for _ in range(count))

    def _write(self) -> None:
        text = "\r".join(self._say(self._given["words"]) for _ in range(self._given["paragraphs"]))
        self._text.Text.setString(text)

    def _calculate(self) -> None:
        rows, columns = self._given["rows"], self._given["formulas"]
        self._sheet = self._sheets.Sheets.getByIndex(0)
        formulas = ("=SIN(A{0})*$H$1", "=SUM(A$1:A{1})+$H$1", "=IF(B{0}>$H$2;B{0};A{0})", "=ROUND(B{0}^2+$H$1;3)")
        cells = tuple(
            (self._rng.random(), *(one.format(row, min(row, 300)) for one in formulas[:columns]))
            for row in range(1, rows + 1)
        )
        self._sheet.getCellRangeByPosition(0, 0, columns, rows - 1).setFormulaArray(cells)

    def _paint(self) -> None:
        pages = self._show.DrawPages
        for number in range(self._given["slides"]):
            page = pages.insertNewByIndex(number)
            for _ in range(self._given["shapes"]):
                kind = self._rng.choice(("Rectangle", "Ellipse", "Text"))
                shape = self._show.createInstance(f"com.sun.star.drawing.{kind}Shape")
                shape.Position = uno.createUnoStruct(
                    "com.sun.star.awt.Point", self._rng.randrange(20000), self._rng.randrange(12000)
                )
                shape.Size = uno.createUnoStruct(
                    "com.sun.star.awt.Size", self._rng.randint(1000, 8000), self._rng.randint(800, 5000)
                )
                page.add(shape)
                shape.String = self._say(3)
                if kind != "Text":
                    shape.FillColor = self._rng.randrange(1 << 24)
                    shape.FillTransparence = self._rng.randrange(60)

    def round(self) -> None:
        """Each kind of work as often as the parameters say, in an order of its own."""
        blocks = {"key_ms": self._type, "recalc_ms": self._change, "slide_ms": self._turn, "copy_ms": self._copy}
        deck = [name for name, count in zip(_METRICS, self._given["blocks"], strict=True) for _ in range(count)]
        self._rng.shuffle(deck)
        for name in deck:
            blocks[name]()

    def _measure(self, metric: str, action: Callable[[], object]) -> None:
        began_ns = time.monotonic_ns()
        action()
        self._office.settle()
        ended_ns = time.monotonic_ns()
        self._driver.measured(metric, (ended_ns - began_ns) / 1e6, ended_ns)
        pause_s = self._given["key_s" if metric == "key_ms" else "think_s"]
        self._driver.pause(self._rng.uniform(0.5, 1.5) * pause_s)

    def _type(self) -> None:
        cursor = self._text.CurrentController.ViewCursor
        cursor.gotoRange(self._text.Text.createTextCursorByRange(self._text.Text.Start), False)
        self._office.settle()
        for _ in range(self._rng.randrange(3)):
            self._measure("key_ms", cursor.screenDown)
        for _ in range(max(2, round(self._rng.uniform(0.5, 1.5) * self._given["keys"]))):
            kind = self._rng.random()
            if kind < 0.04:
                self._key("InsertPara")
            elif kind < 0.12:
                self._key("SwBackspace")
            elif kind < 0.15:
                self._key("Bold")
            else:
                self._key("InsertText", Text=self._rng.choice("etaoinshrdlu  "))

    def _key(self, command: str, **properties: object) -> None:
        self._measure("key_ms", lambda: self._office.order(self._text, command, **properties))

    def _change(self) -> None:
        def change() -> None:
            self._sheet.getCellByPosition(7, 0).Value = self._rng.random()
            self._sheets.calculate()

        for _ in range(self._given["cells"]):
            self._measure("recalc_ms", change)

    def _turn(self) -> None:
        controller, pages = self._show.CurrentController, self._show.DrawPages
        first = self._rng.randrange(pages.Count)
        for step in range(self._given["pages"]):
            page = pages.getByIndex((first + step) % pages.Count)
            self._measure("slide_ms", lambda page=page: controller.setCurrentPage(page))  # type: ignore[misc]

    def _copy(self) -> None:
        """From the sheet into the text, taken back again, or from the text into the sheet, always to one place."""
        rows = min(self._given["copied_rows"], self._given["rows"])
        text, sheets = self._text.CurrentController, self._sheets.CurrentController
        if self._rng.random() < 0.5:
            sheets.select(self._sheet.getCellRangeByPosition(0, 0, self._given["formulas"], rows - 1))
            text.ViewCursor.gotoStart(False)
            self._office.settle()
            self._measure("copy_ms", lambda: text.insertTransferable(sheets.getTransferable()))
            self._office.order(self._text, "Undo")
            self._office.settle()
        else:
            cursor = self._text.Text.createTextCursor()
            for _ in range(1 + rows // 10):
                cursor.gotoNextParagraph(True)
            text.select(cursor)
            sheets.select(self._sheet.getCellByPosition(10, 0))
            self._office.settle()
            self._measure("copy_ms", lambda: sheets.insertTransferable(text.getTransferable()))


def main() -> None:
    """Work until SIGTERM. What the office makes lies in the scratch folder, so it is simply killed."""
    driver = Driver.begin(interrupt=True)
    need_fonts()
    office = None
    try:
        office = _Office(driver)
        person = _Person(driver, office)
        driver.ready({"libreoffice": office.version})
        while not driver.ending:
            person.round()
    except uno.getClass("com.sun.star.uno.Exception") as error:
        if not driver.ending:
            fail(f"libreoffice: {type(error).__name__}: {error}")
    finally:
        for process in _programs():
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGSTOP)  # it must not make another now
        _unlink_sockets()


if __name__ == "__main__":
    main()
