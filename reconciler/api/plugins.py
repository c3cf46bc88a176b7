"""The plugins of this process. Each room asks them for its part; `plugins/plugin.py` describes all parts."""

from typing import Any

from reconciler.api.objects.core import Pod

PLUGINS: list[Any] = []
"""Each a `Plugin`, whose parts belong to higher rooms than this one"""


def serving(pod: Pod) -> Any:
    """The plugin whose devices a pod requests; None if it requests none."""
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
