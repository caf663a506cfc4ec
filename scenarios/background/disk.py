# SPDX-License-Identifier: GPL-2.0-only
"""Disk IO: fio reads and writes files at random and in sequence, by several processes at once.

Two groups of processes run until the end; the seed chooses their number, files, block sizes, engine, depth and mix.
Each second fio sums up each group since its start; what is reported is the difference to the sum before:
`random_iops` are the random group's requests a second, `sequential_mb_per_s` the other's bytes, reads and writes
together, and `completion_ms` evenly spaced quantiles of all requests of that second, from fio's histograms, so that the
samples have the percentiles that the requests had. Works in the scratch folder alone.
"""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Role
from scenarios.driving import Driver, fail
from scenarios.metric import Summary, duration, speed

_KB, _MB = 1024, 1024 * 1024
_MOST_MB = 1024
_LEAST_FREE_BYTES = 256 * _MB
_SHARE_OF_FREE = 0.25
_ENGINES = ("io_uring", "libaio", "psync")  # what a seed may choose, and what takes its place where the kernel refuses
_QUANTILES = 50


def _draw(rng: random.Random, place: Place) -> Parameters:
    engine = rng.choice(_ENGINES)
    total_mb = round(2 ** rng.uniform(5, 10))
    share = rng.uniform(0.3, 0.7)  # of the random group
    random_jobs, sequential_jobs = rng.randint(1, max(2, place.cpus)), rng.randint(1, 2)
    direct = rng.random() < 0.65
    return {
        "engine": engine,
        "direct": direct,
        "sync_every": 0 if direct else rng.choice((2, 4, 8, 16)),  # or all would stay in memory
        "random_jobs": random_jobs,
        "random_files": rng.choice((1, 4, 30, 200)),
        "random_mb": min(_MOST_MB // 2, max(8, round(total_mb * share))),
        "random_block_kb": rng.choice((4, 4, 8, 16, 32)),
        "random_read_pct": rng.choice((0, 30, 50, 70, 100) if direct else (0, 30, 50)),  # cached reads alone are no I/O
        "random_depth": 1 if engine == "psync" else rng.choice((1, 2, 8, 32)),
        "sequential_jobs": sequential_jobs,
        "sequential_files": rng.choice((1, 1, 3)),
        "sequential_mb": min(_MOST_MB // 2, max(16, round(total_mb * (1 - share)))),
        "sequential_block_kb": rng.choice((64, 128, 512, 1024)),
        "sequential_read_pct": rng.choice((0, 50, 100) if direct else (0, 30)),
        "sequential_depth": 1 if engine == "psync" else rng.choice((1, 4)),
    }


APPLICATION = Application(
    name="disk",
    title="Disk IO",
    role=Role.BACKGROUND,
    kind=Kind.DISK,
    scored=(
        speed("random_iops", "iops", "random reads and writes", 0.40),
        speed("sequential_mb_per_s", "MB/s", "sequential reads and writes", 0.40),
        duration("completion_ms", "ms", "one request", 0.20, Summary.P99),
    ),
    packages=("fio",),
    programs=("fio",),
    draw=_draw,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.background.disk"),
    ready_limit_s=180.0,  # a slow disk takes its time for up to 1 GiB of files
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What fio has counted of a group since its start."""

    runtime_s: float = 0.0
    requests: int = 0
    bytes: int = 0
    bins: Counter[int] = field(default_factory=Counter)  # completion time in ns -> requests

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> Self:
        """Reads and writes together, of one of the `jobs` of a status."""
        sides = [job["read"], job["write"]]
        bins: Counter[int] = Counter()
        for side in sides:
            bins.update({int(time_ns): count for time_ns, count in side["clat_ns"].get("bins", {}).items()})
        return cls(
            runtime_s=max(side["runtime"] for side in sides) / 1000,
            requests=sum(side["total_ios"] for side in sides),
            bytes=sum(side["io_bytes"] for side in sides),
            bins=bins,
        )


def statuses(output: IO[str]) -> Iterator[dict[str, Any]]:
    """fio's status reports, as they come: JSON objects whose last line is a lone brace."""
    lines: list[str] = []
    for line in output:
        if line.startswith("{"):
            lines.clear()
        lines.append(line)
        if line.rstrip("\n") == "}":
            yield json.loads("".join(lines))
            lines.clear()


def quantiles(bins: Mapping[int, int], count: int) -> list[float]:
    """So many evenly spaced quantiles of a histogram value -> times, from the middle of the first part on."""
    total, seen = sum(bins.values()), 0
    found: list[float] = []
    for value, times in sorted(bins.items()):
        seen += times
        while total and len(found) < count and seen >= (len(found) + 0.5) / count * total:
            found.append(float(value))
    return found


def report(driver: Driver, before: Mapping[str, Sum], now: Mapping[str, Sum]) -> None:
    """Say what came between two statuses."""
    bins: Counter[int] = Counter()
    for group, current in now.items():
        last = before[group]
        elapsed_s = current.runtime_s - last.runtime_s
        bins += current.bins - last.bins
        if elapsed_s <= 0:
            continue
        if group == "random":
            driver.measured("random_iops", (current.requests - last.requests) / elapsed_s)
        else:
            driver.measured("sequential_mb_per_s", (current.bytes - last.bytes) / elapsed_s / 1e6)
    for time_ns in quantiles(bins, _QUANTILES):
        driver.measured("completion_ms", time_ns / 1e6)


def options(parameters: Mapping[str, Any], folder: Path, engine: str, shrunk: float) -> list[str]:
    """fio's, for both groups; sizes are multiplied by `shrunk`."""
    given = {
        "directory": folder,
        "ioengine": engine,
        "direct": int(bool(parameters["direct"])),
        "time_based": 1,
        "runtime": "1000h",
        "group_reporting": 1,
        "fsync": parameters["sync_every"],
        "fallocate": "none",  # reading what was only reserved is no work
    }
    words = [f"--{name}={value}" for name, value in given.items()]
    for group, pattern in (("random", "randrw"), ("sequential", "rw")):
        jobs, files, block_kb = (int(parameters[f"{group}_{name}"]) for name in ("jobs", "files", "block_kb"))
        size_kb = max(block_kb * files, int(parameters[f"{group}_mb"] * _KB * shrunk / jobs))
        words += [
            f"--name={group}",
            "--new_group",
            f"--rw={pattern}",
            f"--rwmixread={parameters[f'{group}_read_pct']}",
            f"--numjobs={jobs}",
            f"--nrfiles={files}",
            f"--filesize={max(block_kb, size_kb // files // block_kb * block_kb)}k",
            f"--bs={block_kb}k",
            f"--iodepth={1 if engine == 'psync' else parameters[f'{group}_depth']}",
        ]
    return words


def _possible(folder: Path, parameters: Mapping[str, Any]) -> tuple[str, bool]:
    # The engine and directness that kernel and file system allow, next to those wished for: fio itself tries them.
    engines = dict.fromkeys((parameters["engine"], *_ENGINES))
    words = ""
    for engine, direct in ((engine, direct) for direct in (parameters["direct"], False) for engine in engines):
        way = (f"--directory={folder}", f"--ioengine={engine}", f"--direct={int(direct)}")
        trial = ("fio", "--name=trial", *way, "--rw=write", "--size=64k", "--bs=4k")
        done = subprocess.run(trial, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return engine, direct
        words = f"fio ended with code {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}"
    return fail(words)


def _shrunk(folder: Path, parameters: Mapping[str, Any]) -> float:
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < _LEAST_FREE_BYTES:
        fail(f"{folder}: {os.strerror(errno.ENOSPC)}: {free_bytes // _MB} MiB are free")
    wanted_bytes: int = (parameters["random_mb"] + parameters["sequential_mb"]) * _MB
    return min(1.0, free_bytes * _SHARE_OF_FREE / wanted_bytes)


def _follow(driver: Driver, output: IO[str], about: Mapping[str, str]) -> None:
    before: dict[str, Sum] = {}
    for status in statuses(output):
        now = {job["jobname"]: Sum.of(job) for job in status["jobs"]}
        if before:
            report(driver, before, now)
            before = now
        elif all(one.requests for one in now.values()):
            driver.ready(about)
            before = now


def main() -> None:
    """Run fio until asked to end, and report each second."""
    driver = Driver.begin(interrupt=True)
    folder = driver.scratch / "files"
    folder.mkdir()
    engine, direct = _possible(folder, driver.parameters)
    parameters = {**driver.parameters, "direct": direct}
    version = subprocess.run(("fio", "--version"), stdout=subprocess.PIPE, text=True, check=False).stdout
    about = {"fio": version.strip().removeprefix("fio-"), "I/O": f"{engine}, {'direct' if direct else 'buffered'}"}
    words = options(parameters, folder, engine, _shrunk(folder, parameters))
    command = ("fio", "--status-interval=1", "--eta=never", "--output-format=json+", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as fio:
        assert fio.stdout is not None  # noqa: S101
        try:
            _follow(driver, fio.stdout, about)
        except BaseException:
            fio.kill()  # asked to end it would sum up into a pipe that nobody reads; its jobs are the crew's
            raise
    fail(f"fio ended with code {fio.returncode}")


if __name__ == "__main__":
    main()
