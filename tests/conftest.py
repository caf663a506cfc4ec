# SPDX-License-Identifier: GPL-2.0-only
"""What runs where: tests/guest needs sched_ext and runs inside the lab, by tests/scenarios/lab/test_guest.py.

In which order, and what is played beside what: see `beside`.

Under CI=true a skipped test is a failed one: there everything is set up, so a reason to skip is a fault of the set-up.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

IN_LAB = "virtme_" in Path("/proc/cmdline").read_text()
if not IN_LAB:  # no test there uses it, and emulated it takes seconds to import
    import hypothesis

    hypothesis.settings.register_profile("shared", deadline=None)  # these machines are shared: time says nothing
    hypothesis.settings.register_profile("emulated", deadline=None, max_examples=10)  # calibration/users/foreign.py
    hypothesis.settings.load_profile("shared")

    from beside import played_beside, pytest_collection_modifyitems, pytest_runtest_call  # noqa: F401  # hooks
    from kept_runs import pytest_configure, pytest_sessionfinish, pytest_terminal_summary  # noqa: F401  # hooks

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: all that tests start would be deaf
    signal.signal(signal.SIGINT, signal.default_int_handler)

_BUS = """<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>"""
collect_ignore = [] if IN_LAB else ["guest"]


@pytest.fixture(autouse=True)
def ordinary_priority():
    """The agent makes itself a real-time task; a test that ran its code here must not starve what comes after."""
    yield
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.fixture
def bus_address(tmp_path):
    """Address of a dbus-daemon of the test's own, on which everybody may do everything."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("needs dbus-daemon; `asa lab setup --tests` installs it")
    config, path = tmp_path / "bus.conf", tmp_path / "bus"
    config.write_text(_BUS.format(path=path))
    command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        yield daemon.stdout.readline().strip()
        daemon.kill()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        report.duration = getattr(item, "played_s", report.duration)  # where it was played, not here
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"nothing may skip under CI=true: {call.excinfo.value if call.excinfo else report.longrepr}"
    return report
