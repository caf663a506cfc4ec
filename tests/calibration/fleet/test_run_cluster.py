# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab fleet run --cluster`: a real Dask scheduler and two workers on loopback, one of which is killed at work."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import fleet_toys
import pytest
from waiting import until

from asa.core.errors import AsaError
from calibration.fleet.run import Fleet, Request, run
from calibration.hosts import Where
from scenarios import catalogue
from scenarios.lab.machines import find

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("distributed") is None, reason="needs distributed; run `make setup`"),
]


@contextmanager
def running(*words, log):
    paths = os.pathsep.join(
        [str(ROOT), str(ROOT / "tests"), str(Path(fleet_toys.__file__).parent), os.environ.get("PYTHONPATH", "")]
    )
    environment = os.environ | {"PYTHONPATH": paths, fleet_toys.SLOW_S: "0.3"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words], stdout=output, stderr=output, env=environment
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(tmp_path, monkeypatch):
    monkeypatch.setenv(fleet_toys.LOG, str(tmp_path / "log"))
    log = tmp_path / "scheduler.log"
    with running("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", log=log):
        yield until(lambda: re.search(r"Scheduler at:\s+(tcp://\S+)", log.read_text()), log.read_text)[1]


def worker(address, folder):
    # no nanny: what is killed stays so
    words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
    return running("worker", address, *words, log=folder.with_suffix(".log"))


def test_a_worker_that_is_killed_costs_no_task(scheduler, tmp_path):
    request = Request(
        machines=find("vm120,vm125"),
        scenarios=catalogue.find("S1,S2"),
        columns=("eevdf", "agent"),
        repeats=2,
        seed=1,
        seconds=1.0,
        warm_up_s=0.0,
    )
    log, heard, killed = tmp_path / "log", [], []

    def hear(played):
        heard.append(played)
        if len(heard) == 4:
            doomed.kill()
            killed.append(fleet_toys.said(log, "begin"))

    with worker(scheduler, tmp_path / "one") as doomed, worker(scheduler, tmp_path / "two") as other:
        until(lambda: all("Registered to" in (tmp_path / f"{name}.log").read_text() for name in ("one", "two")), "both")
        with Fleet(tmp_path / "out", request) as fleet:
            run(fleet, Where(cluster=scheduler), hear, fleet_toys.play)
            counts = fleet.finish()
        assert other.poll() is None
        doomed_pid, other_pid = str(doomed.pid), str(other.pid)
    assert [(one.done, one.left) for one in counts] == [(14, 0), (14, 0)]
    assert sorted(one.task for one in heard) == sorted({one.task for one in heard})
    assert len(heard) == 12
    assert killed
    begun = fleet_toys.said(log, "begin")
    assert {words[0] for words in begun} == {doomed_pid, other_pid}
    assert len(begun) <= 12 + 1  # what the killed one was at has been begun once more


def test_an_address_without_a_scheduler(tmp_path, monkeypatch):
    import dask

    request = Request(
        machines=find("vm120"),
        scenarios=catalogue.find("S1"),
        columns=("eevdf",),
        repeats=1,
        seed=1,
        seconds=1.0,
        warm_up_s=0.0,
    )
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.5s"}),
        Fleet(tmp_path / "out", request) as fleet,
        pytest.raises(AsaError, match=r"--cluster tcp://127.0.0.1:1: .*needs `dask scheduler`"),
    ):
        run(fleet, Where(cluster="tcp://127.0.0.1:1"), print, fleet_toys.play)
