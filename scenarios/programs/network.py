# SPDX-License-Identifier: GPL-2.0-only
"""Network: wrk, ab, curl and aria2 fetch files of the seed's from nginx, over the link of `scenarios.background`.

nginx runs in the network namespace at the far end. Number and size of the files, connections, rates and delay differ
from session to session. iperf3 is `scenarios.background.network`.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from socket import create_connection

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.background.archive import fill
from scenarios.background.network_link import Link, LinkError, make_link
from scenarios.driving import Driver, fail
from scenarios.programs.looping import Argv, Looping, draw_degree, drawn, find, play_steps, program, version_of

_NGINX = "/usr/sbin/nginx"  # not on every user's PATH
_MB_PER_S = 200.0  # over the link here, which sizes the files
_START_LIMIT_S = 30.0
_MOST_MB = 60.0
_CONFIGURATION = """
{user}
daemon off;
worker_processes {workers};
pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile {sendfile};
    gzip {gzip};
    gzip_types *;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen {address}:{port}; root {folder}/www; }}
}}
"""


def _draw(rng: random.Random, place: Place) -> Parameters:
    how = draw_degree(rng, place)
    rate_mb_per_s = rng.choice((0, 0, 5, 40))
    size_mb = (rate_mb_per_s or _MB_PER_S) * float(how["pass_s"]) * rng.uniform(0.2, 1.0)
    return {
        **how,
        "files": rng.choice((1, 4, 30, 150)),
        "size_mb": round(min(_MOST_MB, max(1.0, size_mb)), 1),
        "connections": rng.choice((1, 2, 8, 32)) * int(how["threads"]),
        "rate_mb_per_s": rate_mb_per_s,  # of a download; 0: as fast as it goes
        "workers": rng.randint(1, place.cpus),
        "sendfile": rng.choice(("on", "off")),
        "gzip": rng.choice(("on", "off")),
        "mtu_bytes": rng.choice((1500, 1500, 9000)),
        "delay_ms": rng.choice((0, 0, 0, 1, 5, 20)),
        "loss_pct": 0.0,
    }


def _urls(driver: Driver) -> list[str]:
    base, www = (driver.scratch / "url").read_text(), driver.scratch / "www"
    return [f"{base}/{path.relative_to(www)}" for path in sorted(www.rglob("*.dat"))]


def _folder(driver: Driver) -> Path:
    folder = driver.scratch / "fetched"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _wrk(driver: Driver) -> Iterable[Argv]:
    given = driver.parameters
    seconds = max(1, round(float(given["pass_s"])))
    how = (f"-t{given['threads']}", f"-c{max(given['connections'], given['threads'])}", f"-d{seconds}s")
    yield ("wrk", *how, _urls(driver)[0])


def _ab(driver: Driver) -> Iterable[Argv]:
    given = driver.parameters
    connections = min(int(given["connections"]), 100)
    requests = max(connections, min(5000, round(float(given["pass_s"]) * 500)))
    for url in _urls(driver)[:3]:
        yield ("ab", "-q", "-k", "-c", str(connections), "-n", str(requests), url)


def _curl(driver: Driver) -> Iterable[Argv]:
    rate, folder = int(driver.parameters["rate_mb_per_s"]), _folder(driver)
    limit = ("--limit-rate", f"{rate}M") if rate else ()
    at_once = ("--parallel", "--parallel-max", str(min(50, int(driver.parameters["connections"]))))
    fetched = [word for number, url in enumerate(_urls(driver)) for word in ("-o", str(folder / str(number)), url)]
    yield ("curl", "-sS", "--fail", "--compressed", *limit, *at_once, *fetched)


def _aria2(driver: Driver) -> Iterable[Argv]:
    given, listed = driver.parameters, driver.scratch / "urls"
    listed.write_text("\n".join(f"{url}\n out={number}" for number, url in enumerate(_urls(driver))))
    split = max(1, min(16, int(given["connections"])))
    rate = (f"--max-download-limit={given['rate_mb_per_s']}M",) if given["rate_mb_per_s"] else ()
    how = (f"-j{min(16, given['threads'] * 2)}", f"-x{split}", f"-s{split}", "-k1M", "--file-allocation=none")
    yield ("aria2c", "-q", "--no-conf", *how, *rate, "-d", str(_folder(driver)), "-i", str(listed))


def _client(name: str, package: str, steps: Callable[[Driver], Iterable[Argv]], version: str = "--version") -> Looping:
    made = program(
        __name__,
        name=name,
        kind=Kind.NETWORK,
        packages=(package, "nginx-light", "iproute2"),
        programs=(name, _NGINX, "ip"),
        draw=_draw,
        steps=steps,
        version=(version,),
    )
    return replace(made, command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.programs.network", name))


PROGRAMS = (
    _client("wrk", "wrk", _wrk, "-v"),
    _client("ab", "apache2-utils", _ab, "-V"),
    _client("curl", "curl", _curl),
    _client("aria2c", "aria2", _aria2),
)


def _serve(driver: Driver, link: Link) -> "subprocess.Popen[bytes]":
    """nginx at the far end, once it answers."""
    given, port = driver.parameters, link.free_port()
    text = _CONFIGURATION.format(
        user="user root;" if os.geteuid() == 0 else "",  # the scratch folder is its owner's alone
        folder=driver.scratch,
        address=link.address,
        port=port,
        **{name: given[name] for name in ("workers", "sendfile", "gzip")},
    )
    (driver.scratch / "nginx.conf").write_text(text)
    (driver.scratch / "url").write_text(f"http://{link.address}:{port}")
    words = ("-p", str(driver.scratch), "-c", str(driver.scratch / "nginx.conf"), "-e", "stderr")
    server = subprocess.Popen((*link.there, _NGINX, *words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + _START_LIMIT_S
    while server.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), create_connection((link.address, port), 1.0):
            return server
        driver.pause(0.05)
    server.kill()
    return fail(f"nginx does not answer at {link.address}:{port}")


def main() -> None:
    """Serve and fetch until asked to end."""
    driver = Driver.begin(interrupt=True)
    client = find(__spec__.name, sys.argv[1])
    given, rng = driver.parameters, drawn(driver)
    try:
        with make_link(given, lambda: driver.ending) as link:
            size_bytes = round(float(given["size_mb"]) * 1e6)
            fill(driver.scratch / "www", rng, content="mixed", files=int(given["files"]), size_bytes=size_bytes)
            server = _serve(driver, link)
            try:
                versions = {one: version_of(one, *client.version) for one in client.programs[:1]}
                driver.ready({**versions, "nginx": version_of(_NGINX, "-v"), **link.facts})
                play_steps(driver, client)
            finally:
                server.terminate()
    except (LinkError, OSError) as error:
        fail(str(error))


if __name__ == "__main__":
    main()
