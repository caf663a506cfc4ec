# SPDX-License-Identifier: GPL-2.0-only
"""The eBPF counters of the network against what the kernel counts elsewhere, and against loads that know what they did.

The checks are among those of probe_checks.py, which says how they go about it.
"""

import json
import subprocess
import sys

import second_source
from probe_scene import FOUND_SHARE, HERE, LOST_SHARE, MS, Beside, nothing, unknown

from asa.config import Ebpf

_MEASURED = {"delivery": "deliveries_measured", "receive": "receives_measured"}


def check_packets(scene):
    """The load's namespace tells its own packets, this one the machine's other; GRO joins some before we see them."""
    both = Beside(scene, second_source.network, lambda: scene.talk("connections", scene.sized(200, 20)))
    joined = both.range["received_packets"][1]
    both.agree("packets_sent", "sent_packets", own=both.told["sent_packets"], below=joined)
    both.agree("packets_received", "received_packets", own=both.told["received_packets"], below=joined)


def check_protocols(scene):
    """A segment or datagram of that size is one packet, counted where it is sent and where it comes in."""
    if scene.backend is Ebpf.BCC:
        assert {"tcp_packets", "udp_packets"} <= unknown(scene)
        assert "packets by protocol" in scene.lacking
        return
    for load in (("connections", scene.sized(200, 20)), ("datagrams", 50, 100)):
        both = Beside(scene, second_source.network, lambda words=load: scene.talk(*words))
        for field, names in (
            ("tcp_packets", ("TcpInSegs", "TcpOutSegs")),
            ("udp_packets", ("UdpInDatagrams", "UdpOutDatagrams")),
        ):
            own = sum(both.told[name] for name in names)
            rest = sum(both.range[name][1] for name in names)  # segments, of which GRO and GSO make one packet
            assert own * (1 - LOST_SHARE) <= both.grown(field) <= own + rest + 2, field


def check_connections(scene):
    """ActiveOpens and PassiveOpens count what sets out to open; refused ones never reach ESTABLISHED."""
    number = scene.sized(100, 20)
    both = Beside(scene, second_source.network, lambda: scene.talk("connections", number))
    opens = both.told["TcpActiveOpens"] + both.told["TcpPassiveOpens"]
    assert opens == 2 * number
    elsewhere = both.range["TcpActiveOpens"][1] + both.range["TcpPassiveOpens"][1]
    assert opens * (1 - LOST_SHARE) <= both.grown("connections_opened") <= opens + elsewhere + 2
    before = second_source.network()["TcpCurrEstab"]  # those may close as well
    assert opens * (1 - LOST_SHARE) <= both.grown("connections_closed") <= opens + elsewhere + before + 2


def check_connections_open(scene):
    """ss(8) lists what is established: as many as were opened and not closed yet, both ends of each."""
    number, shut = scene.sized(200, 20), scene.sized(80, 8)
    before = scene.reader.read()
    begun = second_source.network()
    command = [sys.executable, "-E", "-S", str(HERE / "talk.py"), "held", str(number), str(shut)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as load:  # stdin's end lets it end
        told = json.loads(load.stdout.readline())
        after = scene.reader.read()
        ended = second_source.network()
        load.communicate(timeout=120)
    assert load.returncode == 0
    assert told["established"] == 2 * (number - shut)
    opened, closed = (
        getattr(after, name) - getattr(before, name) for name in ("connections_opened", "connections_closed")
    )
    opens = sum(ended[name] - begun[name] for name in ("TcpActiveOpens", "TcpPassiveOpens"))
    others = opens + begun["TcpCurrEstab"]  # of other namespaces nothing is known: the machine's own are here
    slack = others + max(2, 4 * number * LOST_SHARE)
    assert abs(opened - closed - told["established"]) <= slack, (opened, closed, told, others)


def check_resets(scene):
    """OutRsts counts what is sent; in a namespace of its own each of them also comes in."""
    number = scene.sized(50, 10)
    for load, opened in (("refused", 0), ("aborted", 2 * number)):
        both = Beside(scene, second_source.network, lambda name=load: scene.talk(name, number))
        assert both.told["TcpOutRsts"] == number
        elsewhere = sum(both.range[name][1] for name in ("TcpOutRsts", "TcpEstabResets", "TcpAttemptFails"))
        assert 2 * number * (1 - LOST_SHARE) <= both.grown("connections_reset") <= 2 * number + elsewhere + 2
        opens = both.range["TcpActiveOpens"][1] + both.range["TcpPassiveOpens"][1]
        assert opened * (1 - LOST_SHARE) <= both.grown("connections_opened") <= opened + opens + 2


def check_retransmits(scene):
    """Real loss between two namespaces: netem where the kernel has it, else a queue that is too slow and short."""
    loss = ["netem", "loss", "8%"] if scene.emulated else []
    both = Beside(scene, second_source.network, lambda: scene.talk("lossy", scene.sized(400_000, 150_000), *loss))
    own = both.told["TcpRetransSegs"] + both.told["retransmitted_there"]
    assert own > 0
    both.agree("retransmits", "TcpRetransSegs", own=own)


def check_receive_and_delivery(scene):
    """Each message waits 2 ms for its reader. Short datagrams are copied without skb_copy_datagram_iovec (udp.c)."""
    number, delay_ns = 50, 2 * MS
    for load, kinds in (("datagrams", ("delivery",)), ("stream", ("delivery", "receive"))):
        both = Beside(scene, nothing, lambda name=load: scene.talk(name, number, delay_ns // 1000))
        for measured, latency in ((_MEASURED[kind], f"{kind}_latency_ns") for kind in kinds):
            assert both.grown(measured) >= number * FOUND_SHARE, (load, measured)
            assert both.grown(latency) >= number * delay_ns * FOUND_SHARE, (load, latency)


def check_transmit(scene):
    """Datagrams in a token bucket: tc-tbf(8) lets each out when enough tokens have come together."""
    both = Beside(scene, nothing, lambda: scene.talk("queued", 10, 1_000_000))
    assert both.grown("transmits_measured") >= both.told["datagrams"]
    assert both.grown("transmit_latency_ns") >= both.told["ns"] * FOUND_SHARE
    assert both.grown("transmit_latency_ns") <= both.told["ns"] * scene.sized(1.5, 4)
