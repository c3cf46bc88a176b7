"""Loads the parts of kubernetes-asyncio that are used here; the others load on first use.

On import, the library loads a class for each kind and each API of Kubernetes: a thousand modules, 30 MiB and
a fifth of the start time of a command. Only its transport and its kubeconfig loader are used here. Any other
name is still there: asking for it loads the library as a plain import does.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_LIBRARY = "kubernetes_asyncio"
_CLIENT = f"{_LIBRARY}.client"
_MODELS = f"{_CLIENT}.models"
_USED = {
    "exceptions": (),
    "configuration": ("Configuration",),
    "rest": (),
    "api_client": ("ApiClient",),
}
"""Modules of the client, in the order in which they need each other -> names that the client exports"""
_UNUSED = "kubernetes_validate"
"""The dynamic client, which is unused here, loads this package with every validator if it is installed."""


class _Deferred(ModuleType):
    """A module that runs its code when a name is asked of it that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__spec__ is None or self.__spec__.loader is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def load() -> None:
    """Load the library, if it is not loaded. Only this module imports from it, and only after this."""
    if _LIBRARY in sys.modules:
        return
    library = _module(_LIBRARY)
    client = _defer(_CLIENT)
    models = _defer(_MODELS)
    setattr(library, "client", client)  # noqa: B010 as the import of a submodule does
    setattr(client, "models", models)  # noqa: B010
    for module, names in _USED.items():
        loaded = import_module(f"{_CLIENT}.{module}")
        for name in names:
            setattr(client, name, getattr(loaded, name))
    absent = _UNUSED not in sys.modules
    if absent:
        sys.modules[_UNUSED] = None  # type: ignore[assignment]
    try:
        assert library.__spec__ is not None
        assert library.__spec__.loader is not None
        library.__spec__.loader.exec_module(library)
    finally:
        if absent:
            del sys.modules[_UNUSED]


def _module(name: str) -> ModuleType:
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return sys.modules.setdefault(name, module_from_spec(spec))


def _defer(name: str) -> ModuleType:
    module = _module(name)
    module.__class__ = _Deferred
    return module


load()

# Only now, or the whole library would load.
from kubernetes_asyncio.client import ApiClient, Configuration  # noqa: E402
from kubernetes_asyncio.config import ConfigException, load_incluster_config  # noqa: E402
from kubernetes_asyncio.config.kube_config import KubeConfigLoader  # noqa: E402

__all__ = ["ApiClient", "ConfigException", "Configuration", "KubeConfigLoader", "load_incluster_config"]
