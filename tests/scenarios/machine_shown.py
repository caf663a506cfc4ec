# SPDX-License-Identifier: GPL-2.0-only
"""Played in a guest: what it shows of its CPUs and its tick, how fast each counts, where a scheduler leaves work.

`python machine_shown.py shown|placed OUT ...`; writes JSON to OUT. See `main`.
"""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

CPU = Path("/sys/devices/system/cpu")
CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
ITMT = (  # 6.15 moved it
    Path("/sys/kernel/debug/x86/sched_itmt_enabled"),
    Path("/proc/sys/kernel/sched_itmt_enabled"),
)
STATE = Path("/sys/kernel/sched_ext/state")
COUNT_S = 1.0
SETTLE_S, WATCH_S = 2.0, 2.0
LOAD_S = 200.0  # scx_lavd took more than 60 s of an emulated CPU to load


def word(path):
    try:
        return path.read_text().strip()
    except OSError:
        return None


def facts():
    found = [
        {
            "core": f"{word(cpu / 'topology/physical_package_id')}-{word(cpu / 'topology/core_id')}",
            "siblings": word(cpu / "topology/thread_siblings_list"),
            "cache": word(cpu / "cache/index3/shared_cpu_list"),
            "beyond": word(cpu / "cache/index4/level"),
            "capacity": word(cpu / "cpu_capacity"),
            "driver": word(cpu / "cpufreq/scaling_driver"),
            "governors": word(cpu / "cpufreq/scaling_available_governors"),
            "governor": word(cpu / "cpufreq/scaling_governor"),
            "max_khz": word(cpu / "cpufreq/cpuinfo_max_freq"),
            "min_khz": word(cpu / "cpufreq/cpuinfo_min_freq"),
        }
        for cpu in (CPU / f"cpu{number}" for number in range(os.cpu_count()))
    ]
    options = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    return {
        "possible": word(CPU / "possible"),
        "itmt": next((text for path in ITMT if (text := word(path)) is not None), None),
        "clock": word(CLOCK),
        "hz": re.search(r"^CONFIG_HZ=(\d+)$", options, re.MULTILINE)[1],
        "cpus": found,
    }


def jiffies():
    """With the moment it was read."""
    text = Path("/proc/timer_list").read_text()
    return time.monotonic(), int(re.search(r"^jiffies: (\d+)$", text, re.MULTILINE)[1])


def ticks(cpu):
    """Interrupts of a CPU's own timer since boot."""
    (line,) = (line for line in Path("/proc/interrupts").read_text().splitlines() if line.strip().startswith("LOC:"))
    return int(line.split()[1 + cpu])


def count(cpu, begin_s):
    """Turns of an empty loop in COUNT_S from a moment on."""
    os.sched_setaffinity(0, {cpu})
    while time.monotonic() < begin_s:
        pass
    turns = 0
    while time.monotonic() < begin_s + COUNT_S:
        for _ in range(500):
            pass
        turns += 1
    return turns


def speeds(groups):
    """Of each group of CPUs, counted at the same time."""
    found = []
    for group in groups:
        begin_s = time.monotonic() + 0.5
        pipes = []
        for cpu in group:
            ours, theirs = os.pipe()
            if os.fork() == 0:
                os.write(theirs, str(count(cpu, begin_s)).encode())
                os._exit(0)
            os.close(theirs)
            pipes.append(ours)
        turns = []
        for ours in pipes:
            turns.append(int(os.read(ours, 32)))
            os.close(ours)
            os.wait()
        found.append(turns)
    return found


@contextmanager
def in_force(command):
    """A scheduler, without a command the kernel's own; its text comes to our standard error."""
    if not command:
        yield
        return
    process = subprocess.Popen(command, stdout=sys.stderr)
    try:
        until_s = time.monotonic() + LOAD_S
        while word(STATE) != "enabled":
            if process.poll() is not None or time.monotonic() > until_s:
                raise SystemExit(f"{command}: not in force, {process.poll()}")
            time.sleep(0.05)
        yield
        if process.poll() is not None:
            raise SystemExit(f"{command}: ended with {process.poll()}")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def work(busy_share):
    """Never ends: busy for a share of each 10 ms."""
    while True:
        begin_s = time.monotonic()
        while time.monotonic() < begin_s + 0.01 * busy_share:
            pass
        if busy_share < 1.0:
            time.sleep(0.01 * (1.0 - busy_share))


def busy():
    """Ticks that each CPU was at work, since boot."""
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    return [sum(map(int, line[1:4])) + sum(map(int, line[6:8])) for line in lines[1:]]


def placed(tasks, busy_share):
    """Ticks at work by CPU, while so many tasks run: longer where they do less, for what else runs counts, too."""
    workers = []
    for _ in range(tasks):
        child = os.fork()
        if child == 0:
            work(busy_share)
        workers.append(child)
    time.sleep(SETTLE_S)
    before = busy()
    time.sleep(WATCH_S / busy_share)
    after = busy()
    for child in workers:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return [late - early for early, late in zip(before, after, strict=True)]


def shown(groups):
    """What the guest shows after it was busy, with each CPU set to save power."""
    for path in CPU.glob("cpu*/cpufreq/scaling_governor"):
        path.write_text("powersave")
    begin_s, early = jiffies()
    turns = speeds(groups)
    end_s, late = jiffies()
    os.sched_setaffinity(0, {0})
    interrupts, until_s = ticks(0), time.monotonic() + COUNT_S
    while time.monotonic() < until_s:
        pass
    interrupts = ticks(0) - interrupts
    return facts() | {"turns": turns, "jiffies_per_s": (late - early) / (end_s - begin_s), "ticks_per_s": interrupts}


def main():
    """`shown OUT [[0, 1], [0]]`, or `placed OUT TASKS SHARE [[scheduler, option], ...]`."""
    what, out, *words = sys.argv[1:]
    if what == "shown":
        said = shown(json.loads(words[0]))
    else:
        said = []
        for command in json.loads(words[2]):
            with in_force(command):
                said.append(placed(int(words[0]), float(words[1])))
                print(command, said[-1], flush=True)  # what is known when it goes wrong later
    Path(out).write_text(json.dumps(said))


if __name__ == "__main__":
    main()
