"""What a plugin may bring, and where each part goes. `docs/plugins.md` shows how to write one.

A plugin serves objects of another project: kinds that are read, devices that are allocated, questions that
are answered. The rest of the program names no plugin: it asks those that are registered.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from reconciler.allocation.reasons.explanation import Advice
from reconciler.allocation.reasons.reasons import REASONS
from reconciler.api.objects.meta import ApiObject
from reconciler.api.plugins import PLUGINS
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.versions.reading import add_model

if TYPE_CHECKING:
    from reconciler.analysis.doctor.checks import Checks
    from reconciler.app.running import Start
    from reconciler.cluster.client import Client
    from reconciler.cluster.kinds import Served
    from reconciler.operations.journal.replaying import ReplayPart
    from reconciler.settings import Settings


class Plugin:
    """Brings nothing. A plugin overrides what it has, and imports what is large when it is asked for it."""

    name: ClassVar[str]
    """Also the type of its entries in a journal"""
    models: ClassVar[Mapping[str, type[ApiObject]]] = {}
    """API version, such as `example.com/v1` -> the kind that is read of it, in manifests and on a server"""
    advice: ClassVar[Mapping[str, Advice]] = {}
    """Reasons why its units are pending"""

    def served_kinds(self) -> Sequence[ServedKind]:
        """Kinds that the embedded server serves."""
        return ()

    def checks(self) -> "Checks | None":
        """Checks of doctor."""

    def check(self, settings: "Settings") -> None:
        """Raise Rejected for settings that exclude each other."""

    async def discover(self, client: "Client", settings: "Settings") -> "Served | None":
        """All kinds to watch, if the plugin is on and needs others than usual.

        Raises Rejected if the server does not serve them.
        """

    async def prepare(self, client: "Client", settings: "Settings", served: "Served") -> "Start | None":
        """Ask the server what must be known before the start; None if the plugin is off.

        Raises Rejected if the server or the rights of this account do not allow to start.
        """

    def replay(self, settings: Mapping[str, Any]) -> "ReplayPart | None":
        """What makes the decisions of a journal again; `settings` are those that it was recorded with."""


def register(plugin: Plugin) -> None:
    """Add a plugin, once, before anything is read or started."""
    PLUGINS.append(plugin)
    for version, model in plugin.models.items():
        add_model(model, version)
    REASONS.update(plugin.advice)
