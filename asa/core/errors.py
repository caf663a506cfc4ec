# SPDX-License-Identifier: GPL-2.0-only
"""Errors, one class for each thing a caller does differently.

Every message is one line: what, where (a path, a key), the value by `!r`, and what to do about it.
"""


class AsaError(Exception):
    """Root of all errors ASA raises on purpose; the command line prints its text as one line."""


class InputError(AsaError):
    """A file a person wrote (settings, mapping table, manifest) does not say something ASA accepts.

    `key` is the path inside the file (`voting.window_s`), "" for the whole file; `value` what stands there.
    """

    def __init__(self, *, path: str, key: str, value: object, allowed: str) -> None:
        where = f"{path}: {key}" if key else path
        text = f"{where}: {value!r} is not accepted; allowed: {allowed}"
        shown = "".join(sign if sign.isprintable() else " " for sign in text)
        super().__init__(" ".join(shown.split()))  # a key may hold anything, the message is one line
        self.path = path
        self.key = key
        self.value = value
        self.allowed = allowed


class SourceError(AsaError):
    """A collector cannot read what it needs on this host; sampling goes on without it.

    Raised by a collector's `open` for good, by its `read` for one sample only.
    """

    def __init__(self, *, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class SchedulerError(AsaError):
    """A scheduler could not be used: missing, not the recorded file, ended early, or never attached.

    `last_words` are the last lines it printed itself, "" when it said nothing.
    """

    def __init__(self, *, scheduler: str, reason: str, last_words: str = "") -> None:
        words = f"; it said: {last_words!r}" if last_words else ""
        super().__init__(f"{scheduler}: {reason}{words}")
        self.scheduler = scheduler
        self.reason = reason
        self.last_words = last_words


class ModelError(AsaError):
    """A model artefact is missing, truncated, tampered with, or of another schema."""


class JournalError(AsaError):
    """A journal cannot be opened, read or written now."""


class JournalLostError(JournalError):
    """A journal's file is damaged, or not one of this version: it will never take another session.

    `what` is the message without what to do.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; move it away to start anew")
        self.what = what


class LabError(AsaError):
    """The lab could not do its work: no emulator, no kernel, no boot."""


class GuestCrashError(LabError):
    """The guest's kernel crashed or the machine vanished before the command had ended."""


class LabTimeoutError(LabError):
    """The command in the guest did not end within its limit."""


class SetupError(AsaError):
    """An installation step failed; the text names the step, the tool's last words and what to do."""
