# SPDX-License-Identifier: GPL-2.0-only
"""`asa monitor` in a terminal as a user has it: tmux, with a real agent beside it, or one that stands in for it."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from standin import Host
from waiting import until

from asa import paths
from models import artefact

LIMIT_S = 90.0  # two Python programs start on a machine that may do much else
LAUNCH = """
import sys
from pathlib import Path
from asa import paths
if sys.argv[3] == "run":
    import asa.assembly  # it needs the class, which is no class below
run, cache = Path(sys.argv[1]), paths.default().cache
here = paths.Places(run=run, state=run, config=Path("/nowhere"), cache=cache)
paths.default, paths.Places = lambda: here, lambda **_: here
sys.modules.update({name: None for name in sys.argv[2].split(",") if name})
from asa.cli.main import main
main(sys.argv[3:])
"""
CLASSES = artefact.load(paths.base_model()).header.classes


def words(run, *arguments, lacking=""):
    return [sys.executable, "-c", LAUNCH, str(run), lacking, *arguments]


class Terminal:
    """A tmux server of our own with one window; the shell in it says how the program ended."""

    def __init__(self, folder, run):
        self.run = run
        self._tmux = ["tmux", "-f", "/dev/null", "-S", f"{folder}/tmux", "-u"]

    def start(self, *arguments, columns=80, rows=24, **more):
        command = f"{shlex.join(words(self.run, *arguments, **more))}; echo ended with $?; exec sleep 3600"
        environment = {**os.environ, "TERM": "screen-256color", "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh"}
        size = ["-x", str(columns), "-y", str(rows)]
        self._do("new-session", "-d", *size, "sh", "-c", command, env=environment)

    def press(self, *keys):
        self._do("send-keys", *keys)

    def resize(self, columns, rows):
        self._do("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self):
        return self._do("capture-pane", "-p")

    def shows(self, *texts, without=()):
        """Wait until all of it is to be seen; then give the screen."""
        found = ""

        def now():
            nonlocal found
            found = self.screen()
            time.sleep(0.05)  # each look is a program of its own
            return all(text in found for text in texts) and not any(text in found for text in without)

        until(now, lambda: f"{texts} on the screen, without {without}:\n{found}", limit_s=LIMIT_S)
        return found

    def end(self):
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _do(self, *arguments, env=None):
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True, env=env)
        return done.stdout


@pytest.fixture
def terminal(tmp_path):
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux; `asa lab setup --tests` installs it")
    with tempfile.TemporaryDirectory(prefix="asa-") as folder:  # a socket's path is 107 bytes at most
        found = Terminal(folder, tmp_path / "run")
        yield found
        found.end()


@pytest.fixture
def host(terminal):
    found = Host(terminal.run)
    yield found
    found.end()


def test_a_real_agent_comes_is_watched_and_goes(terminal):
    terminal.start("monitor")
    terminal.shows("No agent is running; `asa run` starts one.", "q quit")
    command = words(terminal.run, "run", "--observe", "--ebpf", "off", "--json")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as agent:
        try:
            # what the machine that runs the tests is taken for, if anything, is not ours to say
            screen = terminal.shows("ASA observing", f"pid {agent.pid}", "of a core", "█", without=["No agent"])
            shown = [name for name in CLASSES if f" {name} " in screen or f"▸{name} " in screen]
            assert len(shown) >= 3, screen  # those that are probable
            assert all(part in screen for part in ("votes", "run queue p99", "CPU pressure", " MB", "h hold 30 min"))
            assert all(len(line) <= 80 for line in screen.splitlines())
            assert len(screen.rstrip("\n").splitlines()) == 24
            terminal.press("h")
            terminal.shows("the agent switches nothing: its mode is observing")
            terminal.press("?")
            terminal.shows("any other key closes this", "resume: end the hold")
            terminal.press("End")
            terminal.shows("any other key closes this", "of a core, MB", "`asa explain` says more")
            terminal.resize(150, 45)  # also while the help is shown
            terminal.press("x")
            terminal.shows("votes, tick by tick", "ranking", "switches", "no switches yet", without=["any other key"])
        finally:
            agent.send_signal(signal.SIGTERM)
    terminal.shows("No agent is running", without=["votes", "of a core"])
    terminal.press("q")
    terminal.shows("ended with 0")


def test_hold_and_resume(terminal, host):
    lasting = {"probabilities": {"web": 0.75, "idle": 0.25}, "workload": "web", "wanted": "scx_flash"}
    host.agent(mode="switching", scheduler="scx_flash", sentence="scx_flash serves web", **lasting)
    terminal.start("monitor")
    terminal.shows("ASA switching", "scx_flash for", "as wanted", "scx_flash serves web", "▸web", "75%")
    terminal.press("h")
    terminal.shows("ASA hold: held by the user until")
    terminal.press("r")
    terminal.shows("ASA switching", without=["ASA hold"])
    terminal.press("C-c")
    terminal.shows("ended with 0")


def test_teach_asks_for_the_use_and_says_what_came_of_it(terminal, host):
    host.agent(mode="switching", scheduler="scx_flash")
    terminal.start("monitor")
    terminal.shows("t teach")
    terminal.press("t")
    terminal.shows("What runs now?")
    terminal.press("Escape")
    terminal.shows("votes, tick by tick", without=["What runs now?"])
    terminal.press("t")
    terminal.shows("What runs now?")
    terminal.press("knitting", "Enter")
    terminal.shows("the model has no use 'knitting'")
    terminal.press("q")
    terminal.shows("ended with 0")


def test_the_name_of_a_class_is_no_markup(terminal, host):
    name, place = "a[b]c+[/x]", {"scheduler": "scx_flash", "why": "it is first"}
    host.agent(mode="switching", scheduler="scx_flash", workload=name, probabilities={name: 1.0}, ranking=[place])
    terminal.start("monitor", columns=150, rows=45)
    terminal.shows(f"workload: {name} 0%", f"ranking for {name}", f"▸{name}")


def test_an_agent_that_stands_still_is_late(terminal, host):
    agent = host.agent(mode="switching", scheduler="eevdf")
    terminal.start("monitor", columns=100)
    terminal.shows("ASA switching", "eevdf for")
    agent.send_signal(signal.SIGSTOP)
    terminal.shows("last heard of")
    agent.send_signal(signal.SIGCONT)
    terminal.shows("ASA switching", without=["last heard of"])


def test_without_textual_it_says_which_package(terminal):
    terminal.start("monitor", columns=200, lacking="textual,textual.app")
    screen = terminal.shows("ended with 1")
    assert "asa: asa monitor needs the Python package textual, 8.0 or newer: pip install 'textual>=8'" in screen
    assert "Traceback" not in screen


def test_without_a_terminal_it_says_what_to_do_instead(tmp_path):
    done = subprocess.run(words(tmp_path, "monitor"), capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("asa: asa monitor needs a terminal; `asa monitor --json`")
    assert len(done.stderr.splitlines()) == 1
