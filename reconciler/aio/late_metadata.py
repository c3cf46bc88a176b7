"""The standard library's `importlib.metadata`, loaded when something of it is used."""

import importlib
import sys
from importlib.machinery import PathFinder
from threading import Lock
from types import ModuleType
from typing import Any

NAME = "importlib.metadata"

_lock = Lock()


class _Late(ModuleType):
    """Stands for the module until somebody uses a part of it."""

    def entry_points(self, **selected: Any) -> Any:
        """As the module's: pydantic imports this function, and with its plugins disabled never calls it."""
        return _loaded().entry_points(**selected)

    def __getattr__(self, name: str) -> Any:
        return getattr(_loaded(), name)


def postpone_metadata() -> None:
    """Do not load the module before it is used: with `email`, `zipfile` and `tempfile` it takes 10 ms."""
    if NAME not in sys.modules:
        late = _Late(NAME)
        late.__spec__ = spec = PathFinder.find_spec(NAME, importlib.__path__)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        late.__path__ = spec.submodule_search_locations  # every import looks at it
        sys.modules[NAME] = late
        vars(importlib)["metadata"] = late


def _loaded() -> Any:
    """The module itself, which everybody gets from now on."""
    with _lock:
        if isinstance(sys.modules.get(NAME), _Late):
            del sys.modules[NAME]
    return importlib.import_module(NAME)
