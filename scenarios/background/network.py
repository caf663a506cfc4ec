# SPDX-License-Identifier: GPL-2.0-only
"""Network Transfer: iperf3 sends TCP streams and a paced UDP flow between this machine and a namespace of its own.

The servers run in an unnamed network namespace, the clients here, a veth pair between them, so that the host's own
counters see the packets; all of it vanishes with the processes. `scenarios.background.network_link` makes the link and
says what it does where that is refused. The driver reads what the receiving end prints each second.
"""

import itertools
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Role
from scenarios.background.network_link import Link, LinkError, make_link
from scenarios.driving import Driver, fail
from scenarios.metric import Direction, Metric, Summary, speed

_LEAST_S = 0.5  # a shorter interval is the rest of a transfer, and its rate means nothing
_TRIES = 60
_TRY_AGAIN_S = 0.5
_LINE = re.compile(
    r"\[ *(?P<stream>\d+|SUM)\] +(?P<begin>[\d.]+)-(?P<end>[\d.]+) +sec +[\d.]+ \w+"
    r" +(?P<rate>[\d.]+) Mbits/sec(?P<rest>.*)"
)
_DATAGRAMS = re.compile(r" +(?P<jitter>[\d.]+) ms +(?P<lost>-?\d+)/(?P<all>\d+) ")


def draw(rng: random.Random, place: Place) -> Parameters:  # noqa: ARG001
    """Streams, directions, rates and lengths; TCP and UDP at once, or in turn."""
    together = rng.random() < 0.6
    longest_s = 15 if together else 5  # in turn, each has to come soon enough
    datagram_bytes = rng.choice((172, 512, 1200, 1400))  # speech, a game, video
    udp_streams = rng.choice((1, 1, 2))
    datagrams_per_s = 1000 * 15 ** rng.uniform(0.0, 1.0)  # more than that is lost on an idle machine too
    return {
        "together": together,
        "transfers_s": [rng.randint(3, longest_s) for _ in range(5)],
        "pauses_s": [round(rng.uniform(0.0, 1.5), 1) for _ in range(5)],
        "tcp_streams": rng.choice((1, 1, 2, 4)),
        "tcp_reverse": rng.random() < 0.5,
        "tcp_block_kb": rng.choice((16, 128, 512)),
        "tcp_zero_copy": rng.random() < 0.3,
        "tcp_rate_mbit": rng.choice((0, 0, 0, 0, 500, 2000)),  # of each stream; 0: as fast as it goes
        "udp_streams": udp_streams,
        "udp_reverse": rng.random() < 0.5,
        "udp_datagram_bytes": datagram_bytes,
        "udp_rate_mbit": round(datagrams_per_s * datagram_bytes * 8 / 1e6 / udp_streams, 1),  # of each stream
        "mtu_bytes": rng.choice((1500, 1500, 9000)),
        "delay_ms": rng.choice((0, 0, 0, 0, 1, 5)),
        "loss_pct": rng.choice((0.0, 0.0, 0.0, 0.1)),
    }


def command(place: Place, parameters: Parameters) -> tuple[str, ...]:  # noqa: ARG001
    """The driver."""
    return (sys.executable, "-m", "scenarios.background.network")


APPLICATION = Application(
    name="network",
    title="Network Transfer",
    role=Role.BACKGROUND,
    kind=Kind.NETWORK,
    scored=(
        speed("tcp_mbit_per_s", "Mbit/s", "received over TCP", 0.40, steady=True),
        speed("udp_mbit_per_s", "Mbit/s", "received over UDP", 0.20, steady=True),
        Metric(
            name="udp_loss_pct",
            unit="%",
            sentence="datagrams lost",
            direction=Direction.SMALLER,
            summary=Summary.MEAN,
            good=1.0,
            bad=3.0,
            weight=0.20,
            reason="Streamed audio and video bear 1 %, a conversation 3 %.",
            sources=("g1010",),
        ),
        Metric(
            name="udp_jitter_ms",
            unit="ms",
            sentence="variation of the datagrams' delay",
            direction=Direction.SMALLER,
            summary=Summary.MEAN,
            good=1.0,
            bad=50.0,
            weight=0.20,
            reason="1 ms is not heard, beyond 50 ms a real-time stream breaks. It is a spread itself.",
            sources=("g1010", "y1541"),
        ),
    ),
    packages=("iperf3", "iproute2"),
    programs=("iperf3", "ip"),
    draw=draw,
    command=command,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What a receiver told of some second."""

    mbit_per_s: float
    jitter_ms: float | None  # of UDP; None when no datagram came, as the next one
    loss_pct: float | None


def parse(line: str, *, streams: int) -> Interval | None:
    """An interval of all streams in a line of `iperf3 -i 1 -f m`; None for any other line."""
    found = _LINE.fullmatch(line.strip())
    if found is None or (found["stream"] == "SUM") != (streams > 1):
        return None
    if found["rest"].rstrip().endswith(("sender", "receiver", "(omitted)")):
        return None
    if float(found["end"]) - float(found["begin"]) < _LEAST_S:
        return None
    datagrams = _DATAGRAMS.match(found["rest"])
    came = datagrams is not None and int(datagrams["all"]) > 0
    return Interval(
        mbit_per_s=float(found["rate"]),
        jitter_ms=float(datagrams["jitter"]) if datagrams and came else None,
        # What was counted as lost in one second and came in the next is counted down there.
        loss_pct=max(0.0, 100.0 * int(datagrams["lost"]) / int(datagrams["all"])) if datagrams and came else None,
    )


class Flow:
    """One of the two protocols: a server of its own, and clients one after another."""

    def __init__(self, *, name: str, link: Link, parameters: Mapping[str, object], voice: "Voice") -> None:
        self.name = name  # tcp or udp
        self._link = link
        self._voice = voice
        self._streams = int(str(parameters[f"{name}_streams"]))
        self._reverse = bool(parameters[f"{name}_reverse"])
        self._words = tuple(_client_words(name, parameters))
        self._port = 0
        self._server: subprocess.Popen[bytes] | None = None
        self._client: subprocess.Popen[bytes] | None = None

    def transfer(self, seconds: int) -> None:
        """Blocks for so long. Raises LinkError when iperf3 would not."""
        for _ in range(_TRIES):
            self._serve()
            self._client = subprocess.Popen(
                (
                    *("iperf3", "--client", self._link.address, "--port", str(self._port), "--time", str(seconds)),
                    *("--interval", "1", "--format", "m", "--forceflush", "--parallel", str(self._streams)),
                    *self._words,
                    *(("--reverse",) if self._reverse else ()),
                ),
                stdout=subprocess.PIPE,
            )
            self._listen(self._client, quiet=not self._reverse)
            if self._client.wait() == 0:
                return
            if not self._voice.driver.pause(_TRY_AGAIN_S):  # the server is not up yet, or ends the last transfer still
                return
        raise LinkError(f"iperf3: {self.name} to {self._link.address} port {self._port} fails again and again")

    def kill(self) -> None:
        """End server and client."""
        for process in (self._client, self._server):
            if process is not None:
                process.kill()
                process.wait()

    def _serve(self) -> None:
        if self._server is not None and self._server.poll() is None:
            return
        self._port = self._link.free_port()
        self._server = subprocess.Popen(
            (
                *self._link.there,
                *("iperf3", "--server", "--port", str(self._port)),
                *("--interval", "1", "--format", "m", "--forceflush"),
            ),
            stdout=subprocess.DEVNULL if self._reverse else subprocess.PIPE,
        )
        if not self._reverse:
            threading.Thread(target=self._listen, args=(self._server,), daemon=True).start()

    def _listen(self, end: subprocess.Popen[bytes], *, quiet: bool = False) -> None:
        """Read an end's lines until it closes them; the sending one's are of no use."""
        for line in _lines(end.stdout):
            interval = None if quiet else parse(line, streams=self._streams)
            if interval is not None:
                self._voice.tell(self.name, interval)


def _lines(stream: IO[bytes] | None) -> Iterator[str]:
    for line in stream or ():
        yield line.decode(errors="replace")


def _client_words(name: str, parameters: Mapping[str, object]) -> Iterator[str]:
    if rate := parameters[f"{name}_rate_mbit"]:
        yield from ("--bitrate", f"{rate}M")
    if name == "udp":
        yield from ("--udp", "--length", str(parameters["udp_datagram_bytes"]))
    else:
        yield from ("--length", f"{parameters['tcp_block_kb']}K")
        if parameters["tcp_zero_copy"]:
            yield "--zerocopy"


class Voice:
    """Tells the driver's caller what was received; ready with the first of it."""

    def __init__(self, driver: Driver, versions: Mapping[str, str]) -> None:
        self.driver = driver
        self._versions = versions
        self._lock = threading.Lock()
        self._ready = False

    def tell(self, name: str, interval: Interval) -> None:
        """From any thread."""
        with self._lock:
            if not self._ready:
                self.driver.ready(self._versions)
                self._ready = True
        self.driver.measured(f"{name}_mbit_per_s", interval.mbit_per_s)
        if interval.loss_pct is not None:
            self.driver.measured("udp_loss_pct", interval.loss_pct)
        if interval.jitter_ms is not None:
            self.driver.measured("udp_jitter_ms", interval.jitter_ms)


def main() -> None:
    """The driver: transfer until SIGTERM."""
    driver = Driver.begin()
    flows: list[Flow] = []
    with make_link(driver.parameters, lambda: driver.ending) as link:
        version = subprocess.run(("iperf3", "--version"), stdout=subprocess.PIPE, text=True, check=False).stdout
        versions = {"iperf3": version.split()[1] if version else "", **link.facts}
        voice = Voice(driver, versions)
        flows = [Flow(name=name, link=link, parameters=driver.parameters, voice=voice) for name in ("tcp", "udp")]
        rows = [[flow] for flow in flows] if driver.parameters["together"] else [flows]
        failed: list[str] = []
        for row in rows:
            threading.Thread(target=_play, args=(driver, row, failed), daemon=True).start()
        try:
            while driver.pause(0.2):
                if failed:
                    fail(failed[0])
        finally:
            for flow in flows:
                flow.kill()


def _play(driver: Driver, row: list[Flow], failed: list[str]) -> None:
    """These flows in turn, again and again."""
    lengths = itertools.cycle(driver.parameters["transfers_s"])
    pauses = itertools.cycle(driver.parameters["pauses_s"])
    try:
        for flow in itertools.cycle(row):
            flow.transfer(next(lengths))
            if not driver.pause(next(pauses)):
                return
    except (LinkError, OSError) as error:
        failed.append(str(error))


if __name__ == "__main__":
    try:
        main()
    except LinkError as error:
        fail(str(error))
