# SPDX-License-Identifier: GPL-2.0-only
"""The bus policy and the polkit file of the root helper, written from the table of verbs.

`python -m asa.helper.bus_files` writes both anew in `asa/data`, as they are installed; a test compares them. The helper
does not load this module.
"""

from pathlib import Path
from xml.sax.saxutils import escape

from asa.core.helper_api import ASKED, BUS_NAME, INTERFACE, Action, Asked, Verb

DATA = Path(__file__).parents[1] / "data"
POLICY, ACTIONS = "org.asa.Helper1.conf", "org.asa.helper1.policy"
"""Names of the two files: the bus's and polkit's."""

_IN_FRONT = ("auth_admin", "auth_admin", "yes")
_ADMINISTRATOR = ("auth_admin_keep", "auth_admin_keep", "auth_admin_keep")
_STANDARD = (
    ("org.freedesktop.DBus.Properties", "Get"),
    ("org.freedesktop.DBus.Properties", "GetAll"),
    ("org.freedesktop.DBus.Introspectable", "Introspect"),
    ("org.freedesktop.DBus.Peer", ""),
)
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_POLICY = f"""\
{_HEAD}<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
  "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<!-- SPDX-License-Identifier: GPL-2.0-only -->
<busconfig>
  <!-- Nothing may be sent to the helper but calls of the methods below; whether one is carried out, it asks polkit. -->
  <policy context="default">
    <deny own="{BUS_NAME}"/>
    <deny send_destination="{BUS_NAME}"/>
%s  </policy>
  <policy user="root">
    <allow own="{BUS_NAME}"/>
    <!-- logind's, who sits at the machine: the deny above holds for signals to everybody too -->
    <allow send_destination="{BUS_NAME}" send_type="signal"/>
  </policy>
</busconfig>
"""
_ACTIONS = f"""\
{_HEAD}<!DOCTYPE policyconfig PUBLIC "-//freedesktop//DTD PolicyKit Policy Configuration 1.0//EN"
  "http://www.freedesktop.org/standards/PolicyKit/1.0/policyconfig.dtd">
<!-- SPDX-License-Identifier: GPL-2.0-only -->
<policyconfig>
  <vendor>ASA</vendor>
%s</policyconfig>
"""


def texts() -> dict[str, str]:
    """Both files, by name."""
    allowed = [*((INTERFACE, verb.member) for verb in Verb), *_STANDARD]
    return {
        POLICY: _POLICY % "".join(_allow(interface, member) for interface, member in allowed),
        ACTIONS: _ACTIONS % "".join(_action(action, asked) for action, asked in ASKED.items()),
    }


def write(folder: Path = DATA) -> None:
    """Write both. Raises OSError."""
    for name, text in texts().items():
        (folder / name).write_text(text, encoding="utf-8")


def _allow(interface: str, member: str) -> str:
    only = f' send_member="{member}"' if member else ""
    return (
        f'    <allow send_destination="{BUS_NAME}" send_type="method_call"\n'
        f'           send_interface="{interface}"{only}/>\n'
    )


def _action(action: Action, asked: Asked) -> str:
    places = zip(("any", "inactive", "active"), _IN_FRONT if asked.in_front else _ADMINISTRATOR, strict=True)
    defaults = "".join(f"      <allow_{place}>{answer}</allow_{place}>\n" for place, answer in places)
    return (
        f'  <action id="{action}">\n    <description>{escape(asked.description)}</description>\n'
        f"    <message>{escape(asked.message)}</message>\n    <defaults>\n{defaults}    </defaults>\n  </action>\n"
    )


if __name__ == "__main__":
    write()
