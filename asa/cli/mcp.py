# SPDX-License-Identifier: GPL-2.0-only
"""`asa mcp`: a server of the Model Context Protocol, which a client starts and ends."""

import argparse
import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_TEXT = """\
Serves what the agent knows by the Model Context Protocol (MCP), to an assistant or another client. The client
starts it and speaks to it over standard input and output. It reads only, unless it is started with
--allow-changes: then the client may try schedulers and hold. What it does not commit comes back by itself.
It needs the Python package mcp: pip install '.[mcp]' in ASA's folder.
"""
_MORE = """\
exit status:
  0  the client has gone
  1  the package mcp is missing, the port cannot be had, or --any-user is missing

examples:
  asa mcp
      What a client's settings name as the command of the server.
  asa mcp --http 127.0.0.1:8931
      For clients that speak HTTP, at http://127.0.0.1:8931/mcp. Every user of this machine can connect.
  asa mcp --allow-changes
      The client may try schedulers. The address asa://changes shows what it did.
  asa mcp --allow-work
      The client may compose, verify and tune schedulers in the laboratory. Nothing changes on this machine.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "mcp", help="serve what the agent knows to a client of MCP", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "--http", type=loopback, metavar="ADDRESS:PORT", help="listen there, on loopback only (default: stdio)"
    )
    command.add_argument(
        "--allow-changes", action="store_true", help="list the tools that try schedulers and hold (default: read only)"
    )
    command.add_argument(
        "--allow-work", action="store_true", help="list the tools that compose, verify and tune (default: none)"
    )
    command.add_argument(
        "--any-user", action="store_true", help="with --http and these: every user of this machine may use them"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client has gone. Raises AsaError without the SDK, and for a port that cannot be had."""
    from asa.cli.extras import need
    from asa.cli.main import has_laboratory
    from asa.core.errors import AsaError

    acts = arguments.allow_changes or arguments.allow_work
    if acts and arguments.http is not None and not arguments.any_user:
        option = "--allow-changes" if arguments.allow_changes else "--allow-work"
        raise AsaError(f"{option} with --http lets every user of this machine change what runs; add --any-user")
    if arguments.allow_work and not has_laboratory():
        raise AsaError("--allow-work: the laboratory is not installed; `apt install asa-lab`, which `make deb` builds")
    need("mcp", extra="mcp")
    from asa.mcp import server
    from asa.mcp.changes import Changes
    from asa.mcp.machine import Machine
    from asa.mcp.working import Works

    machine = Machine()
    changes = Changes(machine) if arguments.allow_changes else None
    works = Works(machine) if arguments.allow_work else None
    served = server.make(machine, changes, works)

    def ended() -> None:
        if works is not None:
            works.close()
        if changes is not None:
            changes.close()

    if arguments.http is None:
        server.serve_stdio(served, ended)
    else:
        host, port = arguments.http
        server.serve_http(served, host, port, ended)
    return 0


def loopback(text: str) -> tuple[str, int]:
    """Address and port of `127.0.0.1:8931`; 0: any free port. Raises ArgumentTypeError for what is not loopback."""
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        address = None
    if address is None or not address.is_loopback or not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address of loopback and a port, as 127.0.0.1:8931")
    return str(address), int(port)
