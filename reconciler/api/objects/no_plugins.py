"""Keeps pydantic from looking for plugins, of which this program has none.

Before it builds its first model, it would read the entry points of every installed distribution. That and the
modules for it take longer than building the models that a small command needs.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_LOADER = "pydantic.plugin._loader"


class _NoPlugins(ModuleType):
    """In place of pydantic's module; any other name is that of the real one."""

    @staticmethod
    def get_plugins() -> tuple[()]:
        return ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        del sys.modules[_LOADER]
        return getattr(import_module(_LOADER), name)


def load_none() -> None:
    """Have pydantic find no plugins, unless it looked for them before."""
    sys.modules.setdefault(_LOADER, _NoPlugins(_LOADER))
