# SPDX-License-Identifier: GPL-2.0-only
"""An agent that stands in for the real one: it holds the lock, writes the status, takes requests and obeys by the real
policy; schedulers are only names. `behaviour` says what goes wrong."""

import json
import subprocess
import sys

import pytest

from asa import paths
from asa.cli.main import main

AGENT = """
import json, os, select, signal, sys, time
from dataclasses import replace
from pathlib import Path
import msgspec
from asa import wire
from asa import requests, status
from asa.core.decision import EEVDF, SwitchEvent, SwitchOutcome
from asa.decide import orders, policy
from asa.decide.books import Books
folder, behaviour = Path(sys.argv[1]), sys.argv[2]
empty = {"int": 0, "str": "", "float": 0.0, "bool": False, "list": [], "dict": {}, "tuple": []}
def blank(annotation):
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return None if "None" in text else empty[text.partition("[")[0]]
TRIAL = {"use": "web", "in_force": "scx_flash", "under_way": False, "pairs": 2, "most_pairs": 24, "block_s": 20.0}
fields = {f.name: blank(f.type) for f in msgspec.structs.fields(status.Status) if f.required}
state = fields | json.loads(sys.argv[3]) | {"pid": os.getpid(), "interval_s": 0.05}
memory = policy.PolicyState(
    outside=state["mode_reason"] if state["mode"] == "hold" else "",
    stranger=behaviour == "stranger",
    running=None if behaviour == "stranger" else state["scheduler"],
)
file = status.StatusFile(folder)
reader, writer = os.pipe2(os.O_NONBLOCK)
signal.set_wakeup_fd(writer)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests by nohup has it ignored
if behaviour != "old": signal.signal(signal.SIGUSR1, lambda *_: None)
def write():
    word = memory.held
    if state["mode"] in ("switching", "hold"):
        state["mode"], state["mode_reason"] = ("hold" if memory.hold else "switching"), memory.hold
    state["held"], state["held_until_ns"] = word is not None, word.until_ns if word else None
    state["chosen"] = word.scheduler if word else None
    state["updated_ns"] = time.time_ns()
    file.write(wire.shaped(state, status.Status))
def obey(one):
    global memory
    order = requests.order(one, time.time_ns())
    current = state["scheduler"]
    memory = policy.obey(Books(policy=memory), order, current).policy
    if memory.go_on and (not memory.stranger or current == EEVDF):
        memory = replace(memory, outside="", stranger=False, go_on=False)
    if isinstance(one, requests.Try):  # what the policy does of it: tests/decide/test_turns.py
        name = one.scheduler or state["trial"]["candidate"]
        state["trial"] = TRIAL | {"candidate": name, "under_way": True}
    if isinstance(one, requests.Untry):
        state["trial"] = None
    if isinstance(one, requests.Resume):
        gone = lambda name: one.scheduler in (None, name, name.partition(":")[0])
        state["set_aside"] = [name for name in state["set_aside"] if not gone(name)]
write()
print(flush=True)
while True:
    if select.select([reader], [], [], 0.05)[0]:
        os.read(reader, 64)
        if behaviour == "dies": os._exit(1)
        for one in requests.take(folder) if behaviour != "deaf" else ():
            if behaviour not in ("keeps", "silent") and not (behaviour == "once" and memory.held): obey(one)
        if behaviour == "silent": time.sleep(60)
    write()
    chosen = memory.held.scheduler if memory.held else None
    if chosen and chosen != state["scheduler"] and behaviour != "slow":
        if behaviour == "fails":
            failed = SwitchEvent(monotonic_ns=0, outcome=SwitchOutcome.REFUSED, old=EEVDF, new=chosen, elapsed_ns=0,
                                 detail="no such binary", undo="")
            memory = replace(memory, held=orders.failed(memory.held, failed))
        else:
            state["scheduler"] = chosen
            memory = replace(memory, running=chosen)
"""


class Host:
    """A run folder, and the agents that were started in it."""

    def __init__(self, folder):
        self.folder = folder
        self.agents = []

    def agent(self, behaviour="well", **state):
        """Start one; back when its first status is there."""
        words = [sys.executable, "-c", AGENT, str(self.folder), behaviour, json.dumps(state)]
        agent = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert agent.stdout is not None
        agent.stdout.readline()
        self.agents.append(agent)
        return agent

    def end(self):
        """End them all. What was asked is never left for a later agent."""
        for agent in self.agents:
            agent.kill()
            agent.wait()
            agent.stdout.close()
        assert not list(self.folder.glob("request-*"))


def host_in(tmp_path, monkeypatch):
    """For a fixture: the command line finds agents in `tmp_path`."""
    places = paths.Places(run=tmp_path / "run", cache=tmp_path / "cache")
    monkeypatch.setattr(paths, "default", lambda: places)
    host = Host(tmp_path / "run")
    yield host
    host.end()


def asa(capsys, *words):
    """Exit code, output and error output of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err
