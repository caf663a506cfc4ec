# SPDX-License-Identifier: GPL-2.0-only
"""Issues tokens: an administrator vouches for what the verifier's report says of a policy.

Of the report nothing is believed but which stages were passed, for which polkit has asked an administrator. File, flags
and kernel are those that the helper finds itself; where the report is of others, there is no token.
"""

import msgspec

from asa import wire
from asa.act.portfolio import Portfolio
from asa.act.tokens import Token
from asa.core.decision import SchedulerName
from asa.core.helper_api import Failure, Vouched
from asa.helper.machine import RefusedError

_LIMIT_CHARACTERS = 65_536


def read(text: str) -> Vouched:
    """The report's words. Raises RefusedError."""
    try:
        if len(text) > _LIMIT_CHARACTERS:
            raise ValueError("it is too long")
        return wire.from_json(text, Vouched)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RefusedError(Failure.REFUSED, f"no report of `asa lab verify`: {error}") from error


def vouch(portfolio: Portfolio, name: SchedulerName, said: Vouched) -> Token:
    """Issue the token, or raise RefusedError, and AsaError where it cannot be kept; then nothing has changed."""
    if portfolio.tokens is None or not portfolio.guarded(name):
        raise RefusedError(Failure.REFUSED, f"{name} is neither composed nor tuned, and needs no token")
    sha256, flags = portfolio.file_of(name)
    kernel, btf = portfolio.tokens.kernel
    stages = portfolio.stages(name)
    missing = [one for one in stages if one not in said.stages]
    wrong = {
        f"another file (SHA-256 {said.sha256[:12]!r}, here is {sha256[:12]})": said.sha256 != sha256,
        f"other flags ({' '.join(said.flags)[:80] or 'none'})": said.flags != flags,
        f"other kernels than this one, {kernel}": said.kernels.get(kernel) != btf,
    }
    for words, holds in wrong.items():
        if holds:
            raise RefusedError(Failure.REFUSED, f"the report on {name} is of {words}; verify it here, and anew")
    if missing:
        raise RefusedError(Failure.REFUSED, f"{name} has not passed the stage {missing[0]}")
    return portfolio.tokens.issue(name, sha256, flags, stages)
