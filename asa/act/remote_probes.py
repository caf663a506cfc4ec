# SPDX-License-Identifier: GPL-2.0-only
"""Asks the root helper for its probes and keeps what comes until the collector takes it. Reads no counter."""

import os
from typing import Any

import msgspec

from asa import wire
from asa.act.helper_link import HelperLink
from asa.bus import CallError
from asa.core.errors import SourceError
from asa.core.helper_api import ProbeFacts

_SOURCE = "ebpf"


class ProbeFetch:
    """What `collectors.ebpf.remote.RemoteProbes` fetches with: never waits, so the first answer comes a tick later."""

    def __init__(self, link: HelperLink) -> None:
        self._link = link
        self._waiting: tuple[int, ProbeFacts] | None = None
        self._reason = "the helper has not been asked yet"
        self._asked = False
        self.arrived = False  # since `news` was last asked
        link.on_answer.append(self._ask)

    def __call__(self) -> tuple[int, ProbeFacts]:
        """The descriptor, which is the caller's from then on, and what it is. Raises SourceError."""
        if self._waiting is None:
            raise SourceError(source=_SOURCE, reason=self._reason)
        found, self._waiting = self._waiting, None
        self._reason = "the probes were taken already"
        return found

    def news(self) -> bool:
        """Whether something to fetch has come since the last call."""
        arrived, self.arrived = self.arrived, False
        return arrived

    def lost(self) -> None:
        """The helper, or its programs, have gone; it is asked anew when it is there."""
        if self._waiting is not None:
            os.close(self._waiting[0])
        self._waiting, self._asked, self._reason = None, False, "the helper has gone"

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._link.probes(self._take)

    def _take(self, answer: tuple[Any, ...] | CallError) -> None:
        if isinstance(answer, CallError):
            self._asked, self._reason = False, answer.message or answer.name
            return
        descriptor, *_, text = answer
        try:
            facts = wire.from_json(text, ProbeFacts)
        except msgspec.DecodeError as error:
            descriptor.close()
            self._reason = f"the helper speaks another version of asa: {error}; restart both"
            return
        if self._waiting is not None:  # asked twice, while the helper came and went
            os.close(self._waiting[0])
        self._waiting, self.arrived = (descriptor.to_raw_fd(), facts), True
