# SPDX-License-Identifier: GPL-2.0-only
"""`asa machine`: what holds for everybody here: the root helper's hold, and which schedulers are approved."""

import argparse
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.core.helper_api import Verb

_PASSWORD_S = 130.0  # the helper waits 120 s for a person to type one

_TEXT = """\
Asks the root helper (asa-helper.service) for what concerns all users of this machine. `status` shows its
state. `hold` stops switching for everybody, also after a restart, until `resume` or until the time is over.
`approve` and `revoke` say which schedulers users may choose without an administrator; at first, all that are
installed. All but `status` need an administrator: root, or a password that polkit asks for.
"""
_MORE = """\
exit status:
  0  it was done
  1  the helper cannot be reached, or it may not be done

files:
  /var/lib/asa/hold.json       the hold
  /var/lib/asa/approvals.json  what was approved or revoked

examples:
  asa machine status
      Who has the lease, what is in force, what is approved.
  sudo asa machine hold 2h
      Nothing is switched for two hours, whoever is logged in.
  sudo asa machine revoke scx_lavd
      Users cannot choose it any more without an administrator.
"""


def register(commands: "Commands") -> None:
    """Add the parser and what it can do."""
    from asa.cli.hold import add_duration
    from asa.core.helper_api import Verb

    parser = commands.add_parser(
        "machine", help="hold, resume and approve for all users of this machine", description=_TEXT, epilog=_MORE
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    status = actions.add_parser("status", help="what the helper says of itself")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run=_status)
    hold = actions.add_parser("hold", help="switch nothing for anybody")
    add_duration(hold)
    hold.set_defaults(run=lambda arguments: _do(Verb.HOLD, (arguments.duration or 0,), "held"))
    resume = actions.add_parser("resume", help="end that")
    resume.set_defaults(run=lambda _: _do(Verb.RESUME, (), "not held any more"))
    for name, member in (("approve", True), ("revoke", False)):
        one = actions.add_parser(name, help=f"{name} a scheduler")
        one.add_argument("scheduler", metavar="NAME[:MODE]", help="as in `asa schedulers list`")
        one.set_defaults(
            run=lambda arguments, approved=member: _do(
                Verb.APPROVE, (arguments.scheduler, approved), "approved" if approved else "not approved any more"
            )
        )


def _do(verb: "Verb", body: tuple[Any, ...], done: str) -> int:
    from asa.core.helper_api import INTERFACE

    ask(INTERFACE, verb.member, verb.value.takes, body)
    print(done)
    return 0


def _status(arguments: argparse.Namespace) -> int:

    from asa import wire
    from asa.core.decision import EEVDF
    from asa.core.helper_api import INTERFACE, NO_END, NOBODY

    (told,) = ask("org.freedesktop.DBus.Properties", "GetAll", "s", (INTERFACE,))
    found = {name: value for name, (_, value) in told.items()}
    if arguments.json:
        found["Standbys"] = wire.from_json(found.get("Standbys") or "[]", list)
        print(wire.json_text(found))
        return 0
    until_ns, holder = found.get("HeldUntil", 0), found.get("Holder", NOBODY)
    held = "nothing" if until_ns == 0 else "until `asa machine resume`"
    if 0 < until_ns < NO_END:
        held = time.strftime("until %Y-%m-%d %H:%M:%S", time.localtime(until_ns / 1e9))
    print(f"helper     {found.get('Version', '?')}; switches {found.get('Way') or 'not asked for yet'}")
    print(f"in force   {found.get('State') or EEVDF}")
    print(f"lease      {'nobody' if holder == NOBODY else f'user {holder}'}")
    print(f"held       {held}")
    print(f"approved   {', '.join(found.get('Approved', ())) or 'none'}")
    return 0


def ask(interface: str, member: str, signature: str, body: tuple[Any, ...]) -> tuple[Any, ...]:
    """The helper's answer, after a password where polkit wants one. Raises AsaError."""
    from asa.bus import Bus, CallError
    from asa.core.errors import AsaError
    from asa.core.helper_api import BUS_NAME, PATH

    bus = Bus.system()
    try:
        return bus.ask(BUS_NAME, PATH, interface, member, signature, body, limit_s=_PASSWORD_S, interactive=True)
    except CallError as error:
        if error.name in {"org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner"}:
            raise AsaError("the helper is not installed here; `sudo asa install`") from error
        raise AsaError(error.message or error.name) from error
    finally:
        bus.close()
