"""Packages that are needed for single functions only."""

from __future__ import annotations

import importlib
from types import ModuleType


def needed(name: str, what: str) -> ModuleType:
    """Imports a package that fedsi does not depend on.

    Raises :class:`ImportError` with what needs it and how to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs {name}, which is not installed: pip install {name}") from error
