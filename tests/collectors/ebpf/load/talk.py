# SPDX-License-Identifier: GPL-2.0-only
"""Network loads with a known count, in network namespaces of their own that end with the process.

Run as root: `talk.py LOAD [NUMBER...]`. Only loopback and addresses of its own namespaces are used. Prints one JSON
line: what it did, and how far the counters of its (first) namespace went meanwhile. It knows nothing of eBPF.
"""

import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

from second_source import network

CLONE_NEWNET = 0x40000000  # sched.h; os.unshare comes with Python 3.12 only
PR_SET_PDEATHSIG = 1
HERE, THERE, PORT = "192.0.2.1", "192.0.2.2", 7777  # TEST-NET-1, RFC 5737: never a real host
PAYLOAD_BYTES = 1000
LIBC = ctypes.CDLL(None, use_errno=True)


def own_namespace():
    if LIBC.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    ip("link", "set", "lo", "up")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def connections(count):
    """Opened on loopback and closed in order, both ends."""
    with socket.create_server(("127.0.0.1", PORT)) as door:
        for _ in range(count):
            with socket.create_connection(door.getsockname(), timeout=30) as caller:
                called, _ = door.accept()
                with called:
                    caller.sendall(b"?")
                    called.recv(1)
                    caller.shutdown(socket.SHUT_WR)
                    called.recv(1)
    return {"connections": count}


def held(count, shut):
    """`count` opened on loopback, of which both ends of `shut` are closed; prints what ss(8) tells, then waits."""
    ends = []
    with socket.create_server(("127.0.0.1", PORT), backlog=count) as door:
        for _ in range(count):
            ends.append(socket.create_connection(door.getsockname(), timeout=30))
            ends.append(door.accept()[0])
        for end in ends[: 2 * shut]:
            end.close()
        listing = ["ss", "--no-header", "--tcp", "--numeric", "state", "established"]
        listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
        print(json.dumps({"established": len(listed.splitlines())}), flush=True)
        sys.stdin.read()
    return {"connections": count}


def refused(count):
    """Nobody listens: a RST is sent and received for each."""
    for _ in range(count):
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=30).close()
        except ConnectionRefusedError:
            continue
        raise SystemExit("connected where nobody listens")
    return {"refused": count}


def aborted(count):
    """Established, then closed by a RST: SO_LINGER of no time, socket(7)."""
    with socket.create_server(("127.0.0.1", PORT)) as door:
        for _ in range(count):
            caller = socket.create_connection(door.getsockname(), timeout=30)
            called, _ = door.accept()
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            caller.close()
            try:
                called.recv(1)
            except ConnectionResetError:
                called.close()
                continue
            raise SystemExit("closed without a RST")
    return {"aborted": count}


def read_late(count, delay_us, writer, reader):
    """Each message is read `delay_us` after it came; the time from before sending until after reading is added up."""
    total = 0
    reader.settimeout(30)
    for _ in range(count):
        begin = time.monotonic_ns()
        writer.send(bytes(PAYLOAD_BYTES))
        time.sleep(delay_us / 1e6)
        reader.recv(PAYLOAD_BYTES)
        total += time.monotonic_ns() - begin
    return {"messages": count, "ns": total}


def datagrams(count, delay_us):
    with socket.socket(type=socket.SOCK_DGRAM) as reader, socket.socket(type=socket.SOCK_DGRAM) as writer:
        reader.bind(("127.0.0.1", PORT))
        writer.connect(reader.getsockname())
        return read_late(count, delay_us, writer, reader)


def stream(count, delay_us):
    with socket.create_server(("127.0.0.1", PORT)) as door, socket.create_connection(door.getsockname()) as writer:
        writer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, _ = door.accept()
        with reader:
            return read_late(count, delay_us, writer, reader)


class Other:
    """A child in a namespace of its own, joined to this one by a veth pair. It ends with this process."""

    def __init__(self):
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(120)
        self.pid = os.fork()
        if not self.pid:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            self._line.close()
            other_end(theirs)
            os._exit(0)
        theirs.close()
        self.hear("unshared")
        ip("link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(self.pid))
        # A packet is then a segment: tcp_retransmit_skb tells packets, RetransSegs segments.
        ip("link", "set", "here", "gso_max_segs", "1", "up")
        ip("addr", "add", f"{HERE}/24", "dev", "here")
        self.say("joined")
        self.hear("listening")

    def say(self, word):
        self._line.send(word.encode())

    def hear(self, word):
        said = self._line.recv(1 << 16).decode()
        if said != word:
            raise SystemExit(f"the other end said {said!r}, not {word!r}")

    def counters(self):
        """The other namespace's; asking sends no packet."""
        self.say("count")
        return json.loads(self._line.recv(1 << 16))


def other_end(line):
    own_namespace()
    line.send(b"unshared")
    line.recv(16)
    ip("link", "set", "there", "up")
    ip("addr", "add", f"{THERE}/24", "dev", "there")
    with socket.socket(type=socket.SOCK_DGRAM) as mail, socket.create_server((THERE, PORT)) as door:
        mail.bind((THERE, PORT))
        line.send(b"listening")
        stream, _ = door.accept()
        line.recv(16)
        count = 0
        while piece := stream.recv(1 << 16):
            count += len(piece)
        line.send(b"%d" % count)
        while line.recv(16):
            line.send(json.dumps(network()).encode())


def tc(*words, namespace=None):
    enter = ["nsenter", f"--net=/proc/{namespace}/ns/net"] if namespace else []
    subprocess.run([*enter, "tc", *words], check=True)


def narrow(namespace):
    """What comes in there goes through a slow and short queue: TCP finds the narrowest place by losing packets.

    The sender's own queue would not do: what it refuses TCP takes back, and sends as new.
    """
    nsenter = ["nsenter", f"--net=/proc/{namespace}/ns/net", "ip", "link"]
    subprocess.run([*nsenter, "add", "slow", "type", "ifb"], check=True)
    subprocess.run([*nsenter, "set", "slow", "up"], check=True)
    bucket = ["tbf", "rate", "8mbit", "burst", "4kb", "limit", "8kb"]
    tc("qdisc", "add", "dev", "slow", "root", *bucket, namespace=namespace)
    tc("qdisc", "add", "dev", "there", "ingress", namespace=namespace)
    everything = ["protocol", "ip", "u32", "match", "u32", "0", "0"]
    to_slow = ["action", "mirred", "egress", "redirect", "dev", "slow"]
    tc("filter", "add", "dev", "there", "parent", "ffff:", *everything, *to_slow, namespace=namespace)


def lossy(count, *qdisc):
    """`count` bytes to the other namespace, with loss from the moment the stream is open: by `qdisc`, else `narrow`."""
    other = Other()
    with socket.create_connection((THERE, PORT), timeout=120) as stream:
        if qdisc:
            tc("qdisc", "add", "dev", "here", "root", *qdisc)
        else:
            narrow(other.pid)
        other.say("begin")
        stream.sendall(bytes(count))
        stream.shutdown(socket.SHUT_WR)
        other.hear(str(count))
    return {"bytes": count, "retransmitted_there": other.counters()["TcpRetransSegs"]}


def queued(count, rate_bits_per_s):
    """Datagrams at once into a token bucket that lets them out one by one; prints the delay it must cause.

    tc-tbf(8): a packet leaves when the bucket holds its length. The bucket holds `burst` bytes at first.
    """
    frame_bytes = PAYLOAD_BYTES + 8 + 20 + 14  # UDP, IPv4, Ethernet
    burst_bytes = 1600
    Other()
    rate = ["rate", str(rate_bits_per_s), "burst", str(burst_bytes), "limit", str(frame_bytes * count)]
    with socket.socket(type=socket.SOCK_DGRAM) as writer:
        writer.sendto(b"resolve", (THERE, PORT))  # its neighbour's address has to be asked for first
        deadline = time.monotonic() + 30
        while b"lladdr" not in subprocess.run(["ip", "neigh", "show", THERE], capture_output=True, check=True).stdout:
            if time.monotonic() > deadline:
                raise SystemExit("no neighbour")
        tc("qdisc", "add", "dev", "here", "root", "tbf", *rate)
        sent = network()["sent_packets"]
        for _ in range(count):
            writer.sendto(bytes(PAYLOAD_BYTES), (THERE, PORT))
        while network()["sent_packets"] < sent + count:
            if time.monotonic() > deadline:
                raise SystemExit("the queue does not empty")
    total_ns = 0
    for number in range(1, count + 1):
        missing_bytes = max(0, number * frame_bytes - burst_bytes)
        total_ns += missing_bytes * 8 * 1_000_000_000 // rate_bits_per_s
    return {"datagrams": count, "ns": total_ns}


LOADS = {
    "connections": connections,
    "held": held,
    "refused": refused,
    "aborted": aborted,
    "datagrams": datagrams,
    "stream": stream,
    "lossy": lossy,
    "queued": queued,
}


def main():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    own_namespace()
    before = network()
    words = [int(word) if word.isdigit() else word for word in sys.argv[2:]]
    told = LOADS[sys.argv[1]](*words)
    after = network()
    print(json.dumps({**told, **{name: after[name] - value for name, value in before.items()}}))


if __name__ == "__main__":
    main()
