# SPDX-License-Identifier: GPL-2.0-only
"""Says which of asa's extras has a library that is not installed, before a command fails on its import."""

from importlib.util import find_spec

from asa.core.errors import AsaError


def need(*modules: str, extra: str) -> None:
    """Raises AsaError for the first that is not there."""
    for module in modules:
        if find_spec(module) is None:
            raise AsaError(
                f"this needs {module}; run `make setup` in ASA's folder (or `pip install '.[{extra}]'`), "
                "or `sudo asa lab setup` where the package asa-lab is installed"
            )
