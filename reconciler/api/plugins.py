"""The plugins of this process. Each room asks them for its part; `plugins/plugin.py` describes all parts."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.api.migrate.special_claims import served_by_classes
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject

PLUGINS: list[Any] = []
"""Each a `Plugin`, whose parts belong to higher rooms than this one"""


def classes_first(objects: Iterable[ApiObject]) -> Mapping[str, DeviceClass]:
    """Name -> each class whose extended resources come before those of plugins: none if a plugin has objects.

    A class and a plugin may serve the same name: nvidia.com/gpu is also one of Koordinator's.
    """
    known = list(objects)
    if not {type(one).__name__ for one in known}.isdisjoint(kinds_of_plugins()):
        return {}
    return {one.key.name: one for one in known if isinstance(one, DeviceClass)}


def serving(pod: Pod, first: Mapping[str, DeviceClass] | None = None) -> Any:
    """The plugin whose devices a pod requests; None if it requests none, or if one of `first` serves it."""
    if first and served_by_classes(pod, first):
        return None
    return next((plugin for plugin in PLUGINS if plugin.requests(pod)), None)


def holding(pod: Pod) -> Any:
    """The plugin whose devices a pod holds; None if it holds none."""
    return next((plugin for plugin in PLUGINS if plugin.holds(pod)), None)


def plugin_of(kind: str) -> Any:
    """The plugin that reads a kind; None for other kinds."""
    return next(
        (one for one in PLUGINS if any(model.__name__ == kind for model in one.models.values())), None
    )


def kinds_of_plugins() -> tuple[str, ...]:
    """All kinds that plugins read."""
    return tuple([model.__name__ for plugin in PLUGINS for model in plugin.models.values()])
