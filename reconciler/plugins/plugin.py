"""What a plugin may bring, and where each part goes. `docs/plugins.md` shows how to write one.

A plugin serves objects of another project: kinds that are read, devices that are allocated, questions that
are answered. The rest of the program names no plugin: it asks those that are registered.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from reconciler.allocation.reasons.explanation import Advice
from reconciler.allocation.reasons.reasons import REASONS
from reconciler.api.objects.meta import ApiObject
from reconciler.api.plugins import PLUGINS
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.versions.reading import add_model

if TYPE_CHECKING:
    from reconciler.analysis.doctor.checks import Checks


class Plugin:
    """Brings nothing. A plugin overrides what it has."""

    name: ClassVar[str]
    models: ClassVar[Mapping[str, type[ApiObject]]] = {}
    """API version, such as `example.com/v1` -> the kind that is read of it, in manifests and on a server"""
    advice: ClassVar[Mapping[str, Advice]] = {}
    """Reasons why its units are pending"""

    def served_kinds(self) -> Sequence[ServedKind]:
        """Kinds that the embedded server serves."""
        return ()

    def checks(self) -> "Checks | None":
        """Checks of doctor."""
        return None


def register(plugin: Plugin) -> None:
    """Add a plugin, once, before anything is read or started."""
    PLUGINS.append(plugin)
    for version, model in plugin.models.items():
        add_model(model, version)
    REASONS.update(plugin.advice)
