# SPDX-License-Identifier: GPL-2.0-only
"""A tree like /sys with what schedulers set there, an undo journal's file, and processes to note in it."""

import subprocess
import sys

import pytest

from asa.act.undo import UndoJournal

CPU = "devices/system/cpu"
QOS = [f"{CPU}/cpu{number}/power/pm_qos_resume_latency_us" for number in range(2)]
GOVERNOR = f"{CPU}/cpu0/cpufreq/scaling_governor"
EPP = f"{CPU}/cpu0/cpufreq/energy_performance_preference"
TURBO = f"{CPU}/intel_pstate/no_turbo"
UNCORE = f"{CPU}/intel_uncore_frequency/package_00_die_00/max_freq_khz"
RCU = "kernel/rcu_expedited"
BEFORE = {
    QOS[0]: "0",
    QOS[1]: "0",
    GOVERNOR: "powersave",
    EPP: "balance_performance",
    TURBO: "0",
    UNCORE: "3600000",
    RCU: "0",
}


class Machine:
    """A tree like /sys, the journal's file, and processes."""

    def __init__(self, folder):
        self.sys = folder / "sys"
        self.path = folder / "run/undo.json"
        for name, value in BEFORE.items():
            (self.sys / name).parent.mkdir(parents=True, exist_ok=True)
            self.set(name, value)
        self.children = []

    def journal(self):
        return UndoJournal(self.path, sys=self.sys)

    def set(self, name, value):
        (self.sys / name).write_text(f"{value}\n")

    def now(self):
        return {name: (self.sys / name).read_text().strip() for name in BEFORE}

    def process(self, *, deaf=False):
        code = "import signal, time; print(flush=True); time.sleep(60)"
        if deaf:
            code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {code}"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert child.stdout is not None
        child.stdout.readline()  # it is up, its signal handling settled
        self.children.append(child)
        return child


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    for child in machine.children:
        child.kill()
        child.wait()
        child.stdout.close()
