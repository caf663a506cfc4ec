# SPDX-License-Identifier: GPL-2.0-only
"""How long the helper is waited for: it does one thing after the other, and to load the probes may take minutes."""

from types import SimpleNamespace

from asa.act.helper_link import HelperLink
from asa.act.remote import RemoteSwitcher
from asa.core.decision import SchedulerName
from asa.core.helper_api import PROBES_LIMIT_S, LeaseFacts
from collectors.sampler import SystemClock


def test_orders_and_probes_wait_as_long_as_the_probes_may_take(tmp_path):
    limits_s = {}

    def send(*words, limit_s, **_):
        limits_s[words[3]] = limit_s

    link = HelperLink(lambda: None, SystemClock(), print)
    link.facts, link._bus = LeaseFacts(way="gated", no_gate="", approved=()), SimpleNamespace(send=send)
    switcher = RemoteSwitcher(
        link=link, portfolio=SimpleNamespace(), clock=SystemClock(), sys=tmp_path, answer_limit_s=0.0
    )
    link.probes(lambda _: None)
    switcher.begin(SchedulerName("scx_flash"))
    assert limits_s == {"Probes": PROBES_LIMIT_S, "Switch": PROBES_LIMIT_S}
    assert switcher.busy()
    link.advance = lambda: None
    assert switcher.poll() is None  # its own limit begins when the helper has taken the order
    switcher._answered(())
    assert "did not say" in switcher.poll().detail
