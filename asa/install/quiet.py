# SPDX-License-Identifier: GPL-2.0-only
"""That no agent of root's runs while ASA's files go, and that nothing of an earlier one stays in the kernel.

Takes the run folder's lock, which the helper and `asa run` hold, and replays the undo journal, which goes with that
folder. Stops no unit and no agent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asa import paths, status
from asa.act.undo import UndoJournal
from asa.config import SwitchSettings
from asa.core.errors import AsaError, SetupError


@contextmanager
def quiet(places: paths.Places) -> Iterator[list[str]]:
    """Nobody switches for as long as this lasts. Gives lines that say what was put back.

    Raises SetupError while an agent runs: its scheduler is attached, and its settings are changed.
    """
    if not places.run.is_dir():
        yield []
        return
    lock = _locked(places.run)
    try:
        said = UndoJournal(places.run / "undo.json", places.proc, places.sys).recover(SwitchSettings().stop_limit_s)
        yield [said] if said else []
    finally:
        lock.close()


def _locked(run: Path) -> status.StatusFile:
    try:
        return status.StatusFile(run)
    except AsaError as error:
        agent = status.read(run)
        if agent is None:
            raise SetupError(str(error)) from error
        raise SetupError(f"{run}: an agent (pid {agent.pid}) is running; end it first, then run this again") from error
