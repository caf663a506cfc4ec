# SPDX-License-Identifier: GPL-2.0-only
"""Which model judges: what the settings name, else what `asa model use` chose, else the package's."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from asa import config, paths
from asa.core.errors import ModelError
from models import versions
from models.runtime import Ensemble


def in_use(settings: config.Settings, places: paths.Places) -> Path:
    """The artefact to load: what the settings name comes before what `asa model use` chose. Raises ModelError."""
    return Path(settings.model) if settings.model else versions.in_use(versions.folder(places))


class Model(NamedTuple):
    """The artefact that judges."""

    path: Path
    sha256: str  # by which the journal names it
    classifier: Ensemble

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises ModelError."""
        classifier = Ensemble.load(path)  # first: it refuses what has no end
        return cls(path=path, sha256=versions.hash_of(path), classifier=classifier)

    @classmethod
    def wanted(cls, settings: config.Settings, places: paths.Places) -> Self:
        """Raises ModelError."""
        return cls.load(in_use(settings, places))

    @classmethod
    def first(cls, settings: config.Settings, places: paths.Places, say: Callable[[str], None]) -> Self:
        """At the start, when there is no running one that could stay: the package's in place of a chosen one that does
        not load, as after an update of the package. Raises ModelError for what the settings name.
        """
        try:
            return cls.wanted(settings, places)
        except ModelError as error:
            if settings.model:
                raise
            found = cls.load(paths.base_model())
            say(f"{error}; starting with the package's model")
            return found
