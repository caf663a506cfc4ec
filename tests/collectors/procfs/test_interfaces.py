# SPDX-License-Identifier: GPL-2.0-only
"""Each byte of the network counts once, whatever carries it a second time."""

import pytest

from collectors.procfs.interfaces import Interfaces
from collectors.procfs.network import NetworkCollector

MB = 1_000_000
HEAD = "Inter-|   Receive  |  Transmit\n face |bytes packets ...\n"


class Net:
    """/proc/net/dev and /sys/class/net as a test has them."""

    def __init__(self, folder):
        self.proc, self.sys = folder / "proc", folder / "sys"
        (self.proc / "net").mkdir(parents=True)
        self.number = 0

    def dev(self, **interfaces):
        rows = [f"{name}: {rx} 1 0 0 0 0 0 0 {tx} 1 0 0 0 0 0 0\n" for name, (rx, tx) in interfaces.items()]
        (self.proc / "net/dev").write_text(HEAD + "".join(rows))

    def add(self, name, *, device=False, over="", master="", kind="1", **files):
        folder = self.sys / "class/net" / name
        folder.mkdir(parents=True)
        self.number += 1
        below = self.sys / "class/net" / (over or name) / "ifindex"
        (folder / "ifindex").write_text(f"{self.number}\n")
        (folder / "iflink").write_text(below.read_text())
        (folder / "type").write_text(f"{kind}\n")
        if device:
            (folder / "device").mkdir()
        if over:
            (folder / f"lower_{over}").symlink_to(f"../{over}")
        if master:
            (folder / "master").symlink_to(f"../{master}")
            (self.sys / "class/net" / master / f"lower_{name}").symlink_to(f"../{name}")
        for file, text in files.items():
            (folder / file).write_text(text)

    def counted(self, *names):
        return set(Interfaces(self.sys).counted(names))


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path)


def test_a_container_behind_a_bridge_is_the_cards_traffic(net):
    net.add("enp3s0", device=True)
    net.add("docker0", uevent="DEVTYPE=bridge\n")
    net.add("veth12ab", master="docker0")
    collector = NetworkCollector(net.proc, net.sys)
    net.dev(lo=(0, 0), enp3s0=(0, 0), docker0=(0, 0), veth12ab=(0, 0))
    collector.open()
    net.dev(lo=(0, 0), enp3s0=(100 * MB, 2 * MB), docker0=(2 * MB, 100 * MB), veth12ab=(2 * MB, 100 * MB))
    found = collector.read()["network"]
    collector.close()
    assert (found.received_bytes, found.sent_bytes) == (100 * MB, 2 * MB)
    assert (found.received_packets, found.sent_packets) == (2, 2)  # loopback's too


def test_loopback_counts_as_ever(net):
    net.add("eth0", device=True)
    net.add("lo", kind="772")
    assert net.counted("lo", "eth0") == {"lo", "eth0"}


def test_what_lies_upon_hardware_does_not_count(net):
    for name in ("eth0", "eth1", "wlan0"):
        net.add(name, device=True)
    net.add("bond0", uevent="DEVTYPE=bond\n")
    net.add("eth2", device=True, master="bond0")
    net.add("eth3", device=True, master="bond0")
    net.add("team0")
    net.add("eth4", device=True, master="team0")
    net.add("eth0.7", over="eth0", uevent="DEVTYPE=vlan\n")
    net.add("mv0", over="eth1", uevent="DEVTYPE=macvlan\n")
    net.add("office", kind="65534", tun_flags="0x1001\n")
    net.add("home", kind="65534", uevent="DEVTYPE=wireguard\n")
    net.add("ifb0")
    net.add("sit0", kind="776")
    net.add("vnet3", master="bond0", tun_flags="0x1002\n")
    hardware = {"eth0", "eth1", "eth2", "eth3", "eth4", "wlan0"}
    others = ("bond0", "team0", "eth0.7", "mv0", "office", "home", "ifb0", "sit0", "vnet3")
    assert net.counted(*sorted(hardware), *others) == hardware


def test_a_port_of_a_switch_chip_has_a_device_and_lies_upon_its_conduit(net):
    net.add("eth0", device=True)
    net.add("lan1", device=True, over="eth0", uevent="DEVTYPE=dsa\n")
    net.add("lan2", device=True, over="eth0", uevent="DEVTYPE=dsa\n")
    assert net.counted("eth0", "lan1", "lan2") == {"eth0"}


def test_a_virtual_function_below_a_card_that_counts_it_is_left_out(net):
    net.add("eth0", device=True)  # of Hyper-V, whose counters hold the function's
    net.add("enP1s1", device=True, master="eth0")
    assert net.counted("eth0", "enP1s1") == {"eth0"}


def test_a_monitor_of_a_radio_hears_its_cards_frames_again(net):
    net.add("wlan0", device=True, uevent="DEVTYPE=wlan\n")
    net.add("wlan0mon", device=True, kind="803", uevent="DEVTYPE=wlan\n")
    net.add("ap0", device=True, uevent="DEVTYPE=wlan\n")  # traffic of its own
    assert net.counted("wlan0", "wlan0mon", "ap0") == {"wlan0", "ap0"}


def test_a_port_that_stands_for_a_virtual_function_is_its_cards_traffic(net):
    net.add("enp1s0f0np0", device=True, phys_port_name="p0\n")
    net.add("enp1s0f0npf0vf1", device=True, phys_port_name="pf0vf1\n")
    net.add("eth7", device=True, phys_port_name="c1pf0sf88\n")
    assert net.counted("enp1s0f0np0", "enp1s0f0npf0vf1", "eth7") == {"enp1s0f0np0"}


def test_without_hardware_what_stands_alone_counts(net):
    net.add("eth0")  # a pair's end in a container, its other end elsewhere
    net.add("tun0", kind="65534", tun_flags="0x1001\n")
    net.add("br-5", uevent="DEVTYPE=bridge\n")
    net.add("veth1", master="br-5")
    net.add("eth0.2", over="eth0", uevent="DEVTYPE=vlan\n")
    net.add("ifb0")
    assert net.counted("lo", "eth0", "tun0", "br-5", "veth1", "eth0.2", "ifb0") == {"lo", "eth0"}


@pytest.mark.parametrize(
    "virtual",
    [
        *("docker0", "br-12ab34cd56ef", "br0", "virbr0", "veth12ab", "vnet0", "bond0", "team0", "eth0.7", "vlan7"),
        *("tun0", "tap0", "wg0", "tailscale0", "ifb0", "dummy0", "macvtap0", "vxlan.calico", "cali12ab", "sit0"),
        *("lxcbr0", "cni0", "flannel.1", "ip6tnl0", "proton0", "ipvlan1", "gre0", "nm-bond"),
    ],
)
def test_without_sysfs_the_names_have_to_do(net, virtual):
    assert net.counted("lo", "enp3s0", "wlp2s0", "eth1", "usb0", "wwan0", virtual) == {
        *("lo", "enp3s0", "wlp2s0", "eth1", "usb0", "wwan0")
    }


def test_names_alone_leave_something(net):
    assert net.counted("lo", "tun0") == {"lo", "tun0"}


def test_an_interface_that_comes_is_asked_about(net):
    net.add("eth0", device=True)
    interfaces = Interfaces(net.sys)
    assert set(interfaces.counted(("eth0",))) == {"eth0"}
    net.add("eth1", device=True)
    net.add("office", kind="65534", tun_flags="0x1001\n")
    assert set(interfaces.counted(("eth0", "eth1", "office"))) == {"eth0", "eth1"}
