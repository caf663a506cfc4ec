# SPDX-License-Identifier: GPL-2.0-only
"""Which network interfaces count, so that each byte counts once: the hardware's, and loopback.

A bridge, a bond, a VLAN, a tunnel or a container's end of a pair carries what a device of the hardware carries too.
/sys/class/net tells them apart: hardware has `device`; what lies upon another interface has its number as `iflink`; a
port has a `master`. Where nothing is hardware (a container, a network namespace), the interfaces count that stand on
no other one here. Without sysfs the names have to do.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path

LOOPBACK = "lo"
_AGAIN = 64  # reads after which a kept answer is asked for again: a port may have joined another master

# Names that the kernel, or what makes such interfaces, gives to those that carry another one's traffic.
_VIRTUAL = re.compile(
    r"(docker|br|virbr|lxcbr|lxdbr|incusbr|podman|cni|flannel|cali|cilium|weave|kube|nerdctl|ovs|veth|vnet|vif|vb-|ve-|"
    r"lxc|bond|team|nm-bond|nm-team|vlan|tun|tap|wg|tailscale|zt|nordlynx|proton|utun|ppp|vpn|ipsec|vti|xfrm|macvlan|"
    r"macvtap|ipvlan|ipvtap|vxlan|geneve|gre|erspan|sit|tunl|ip6tnl|ip6gre|ip6_vti|ip_vti|ifb|imq|dummy|nlmon|vrf|"
    r"hsr|bat|qmimux|rmnet|lowpan|mpls)[\w-]*|.*[.:@].*"
)
_RADIO = ("801", "802", "803", "804")  # a monitor's, ARPHRD_IEEE80211 and after: it hears its card's frames again
_STAND_IN = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+")  # phys_port_name of a port that stands for a virtual function
_ETHERNET = "1"  # ARPHRD_ETHER, include/uapi/linux/if_arp.h; tunnels have types of their own


class Interfaces:
    """Answers for the interfaces of one host. It never fails: what sysfs does not tell is not there."""

    def __init__(self, sys: Path) -> None:
        self._folder = f"{sys}/class/net"
        self._names: tuple[str, ...] | None = None
        self._counted: frozenset[str] = frozenset()
        self._reads = 0

    def counted(self, names: tuple[str, ...]) -> Collection[str]:
        """Those of the interfaces in /proc/net/dev that count."""
        self._reads += 1
        if names != self._names or self._reads >= _AGAIN:
            self._names, self._reads = names, 0
            self._counted = frozenset(self._choose(names))
        return self._counted

    def _choose(self, names: tuple[str, ...]) -> set[str]:
        others = [name for name in names if name != LOOPBACK]
        told = [name for name in others if os.path.isdir(f"{self._folder}/{name}")]  # noqa: PTH112  # many of them
        found = {name for name in told if self._is_hardware(name)}
        found |= {name for name in others if name not in told and not _VIRTUAL.fullmatch(name)}
        if not found:
            found = {name for name in told if self._stands_alone(name)} or set(others)
        return found | ({LOOPBACK} & set(names))

    def _is_hardware(self, name: str) -> bool:
        if not self._has(name, "device"):
            return False
        link = self._text(name, "iflink")
        if link and link != self._text(name, "ifindex"):
            return False  # upon another one, with its parent's device: a port of a switch chip (net/dsa)
        if self._text(name, "type") in _RADIO or _STAND_IN.fullmatch(self._text(name, "phys_port_name")):
            return False
        return not self._has(name, "master/device")  # whose counters hold its ports': netvsc, net_failover

    def _stands_alone(self, name: str) -> bool:
        if self._text(name, "type") not in (_ETHERNET, "") or name.startswith("ifb"):
            return False
        if any(self._has(name, part) for part in ("master", "bridge", "bonding", "tun_flags")):
            return False
        if "DEVTYPE=" in self._text(name, "uevent"):
            return False  # vlan, wireguard, vxlan, macvlan, ...: their drivers say so; a pair's end has none
        try:
            return not any(part.startswith("lower_") for part in os.listdir(f"{self._folder}/{name}"))  # noqa: PTH208
        except OSError:
            return True

    def _has(self, name: str, part: str) -> bool:
        return os.path.exists(f"{self._folder}/{name}/{part}")  # noqa: PTH110

    def _text(self, name: str, part: str) -> str:
        try:
            return Path(self._folder, name, part).read_text(errors="replace").strip()
        except OSError:
            return ""
