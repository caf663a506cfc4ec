# SPDX-License-Identifier: GPL-2.0-only
"""Network Transfer: the real iperf3 on each of its three ways, and what is read out of its words."""

import dataclasses
import json
import os
import random
import signal
from pathlib import Path

import pytest
from playing import nothing_left
from waiting import until

from scenarios.application import ApplicationError, Place, Tier
from scenarios.background import network
from scenarios.session import Session

PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)
WAYS = {
    "host and namespace": (),
    "two namespaces": ("unshare", "--map-root-user"),  # root in name only: may change nothing of the host's network
    "loopback": (
        *("unshare", "--map-root-user", "sh", "-c"),
        *('echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"', "sh"),
    ),
}


def by(way, **changed):
    """The application on one of the ways, with some parameters that are not drawn."""

    def draw(rng, place):
        return {**network.draw(rng, place), "delay_ms": 0, "loss_pct": 0.0, **changed}

    def command(place, parameters):
        return (*WAYS[way], *network.command(place, parameters))

    return dataclasses.replace(network.APPLICATION, draw=draw, command=command)


def interfaces():
    return {path.name for path in Path("/sys/class/net").glob("asa*")}


@pytest.mark.apps
@pytest.mark.root
@pytest.mark.parametrize("reverse", [False, True])
def test_the_host_sees_what_is_sent(reverse):
    before = interfaces()
    application = by(
        "host and namespace", together=True, tcp_streams=1, udp_streams=1, tcp_reverse=reverse, udp_reverse=reverse
    )
    with (
        nothing_left(application) as (place, folder),
        Session.start(application, seed=1, place=place, folder=folder) as session,
    ):
        session.await_ready()
        assert session.versions["link"] == "host and namespace"
        (near,) = interfaces() - before
        statistics = Path("/sys/class/net", near, "statistics")
        begin = {way: int((statistics / way).read_text()) for way in ("rx_bytes", "tx_bytes")}
        seen, grown = set(), {}

        def all_metrics_and_much_sent():  # the metrics may all have come before the interface was first read
            session.check()
            seen.update(one.metric for one in session.measurements())
            grown.update({way: int((statistics / way).read_text()) - begin[way] for way in begin})
            return seen == set(application.metrics) and sum(grown.values()) > 1_000_000

        until(all_metrics_and_much_sent, lambda: f"only {seen}, {grown}", 100)
        assert (grown["rx_bytes"] > grown["tx_bytes"]) is reverse, grown


@pytest.mark.apps
@pytest.mark.parametrize("way", ["two namespaces", "loopback"])
def test_without_rights_it_takes_another_way(way):
    application = by(way, together=False, transfers_s=[2], pauses_s=[0.0])
    with (
        nothing_left(application) as (place, folder),
        Session.start(application, seed=2, place=place, folder=folder) as session,
    ):
        session.await_ready()
        assert session.versions["link"].startswith(way)
        seen = set()

        def all_metrics():
            session.check()
            seen.update(one.metric for one in session.measurements())
            return seen == set(application.metrics)

        until(all_metrics, lambda: f"only {seen}", 100)


@pytest.mark.apps
@pytest.mark.root
def test_nothing_is_left_of_a_driver_that_was_killed():
    application = by("host and namespace")
    with (
        nothing_left(application) as (place, folder),
        Session.start(application, seed=3, place=place, folder=folder) as session,
    ):
        session.await_ready()
        os.kill(min(session.members()), signal.SIGKILL)
        with pytest.raises(ApplicationError, match="signal 9"):
            until(session.check, "an error", 20)


TCP = "[  5]   0.00-1.00   sec   973 MBytes  8162 Mbits/sec                  "
TCP_SUM = "[SUM]   1.00-2.00   sec  2.17 GBytes  18600 Mbits/sec                  "
TCP_SENT = "[  5]   0.00-1.00   sec  1.64 GBytes  14039 Mbits/sec  6429   2.05 MBytes       "
TCP_REST = "[  5]   3.00-3.00   sec   128 KBytes  1699 Mbits/sec                  "
TCP_END = "[  5]   0.00-3.00   sec  2.89 GBytes  8262 Mbits/sec                  receiver"
UDP = "[  5]   1.00-2.00   sec  23.6 MBytes   198 Mbits/sec  0.014 ms  215/20837 (1%)  "
UDP_SUM = "[SUM]  10.00-11.00  sec  47.6 MBytes   399 Mbits/sec  0.008 ms  64/41652 (0.15%)  "
UDP_NONE = "[  5]   1.00-2.00   sec  0.00 Bytes  0.00 Mbits/sec  0.014 ms  0/0 (0%)  "
UDP_LATE = "[  5]   1.00-2.00   sec  23.6 MBytes   198 Mbits/sec  0.014 ms  -3/20837 (-0.014%)  "
UDP_END = "[  5]   0.00-3.00   sec  70.4 MBytes   197 Mbits/sec  0.007 ms  958/62488 (1.5%)  receiver"


@pytest.mark.parametrize(
    ("line", "streams", "expected"),
    [
        (TCP, 1, (8162.0, None, None)),
        (TCP, 2, None),
        (TCP_SUM, 2, (18600.0, None, None)),
        (TCP_SENT, 1, (14039.0, None, None)),
        (TCP_REST, 1, None),
        (TCP_END, 1, None),
        (UDP, 1, (198.0, 0.014, 100 * 215 / 20837)),
        (UDP_SUM, 2, (399.0, 0.008, 100 * 64 / 41652)),
        (UDP_NONE, 1, (0.0, None, None)),
        (UDP_LATE, 1, (198.0, 0.014, 0.0)),
        (UDP_END, 1, None),
        ("[ ID] Interval           Transfer     Bitrate         Retr  Cwnd", 1, None),
        ("[  5] local 198.19.0.2 port 5201 connected to 198.19.0.1 port 56350", 1, None),
        ("iperf3: error - the server is busy running a test. try again later", 1, None),
        ("", 1, None),
    ],
)
def test_iperf3s_lines(line, streams, expected):
    found = network.parse(f"{line}\n", streams=streams)
    assert (None if found is None else dataclasses.astuple(found)) == expected


def test_each_seed_has_transfers_of_its_own():
    drawn = [network.draw(random.Random(seed), PLACE) for seed in range(200)]  # noqa: S311
    assert drawn[7] == network.draw(random.Random(7), PLACE)  # noqa: S311
    assert len({json.dumps(one) for one in drawn}) == len(drawn)
    for switch in ("together", "tcp_reverse", "udp_reverse"):
        assert {one[switch] for one in drawn} == {False, True}
    for one in drawn:
        assert 0 < one["udp_rate_mbit"] <= 15_000 * 1400 * 8 / 1e6
        assert one["udp_datagram_bytes"] < one["mtu_bytes"] - 28
