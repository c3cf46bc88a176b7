"""What a plugin may bring, and where each part goes. `docs/plugins.md` shows how to write one.

A plugin serves objects of another project: kinds that are read, devices that are allocated, questions that
are answered. The rest of the program names no plugin: it asks those that are registered.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from msgspec import Struct

from reconciler.allocation.explanation import Advice
from reconciler.allocation.reason_table import REASONS
from reconciler.api.objects.changes import Change
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject
from reconciler.api.plugins import PLUGINS
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.versions import kinds

if TYPE_CHECKING:
    from reconciler.allocation.pod_devices import PodDevices
    from reconciler.analysis.doctor.checks import Checks
    from reconciler.app.control import Start
    from reconciler.cluster.client import Client
    from reconciler.cluster.kinds import Served
    from reconciler.control.intake import Intake
    from reconciler.operations.journal.replaying import ReplayPart
    from reconciler.settings import Settings

# ruff: noqa: ARG002 - what overrides these uses the arguments


class UsageLine(Struct, frozen=True):
    """Devices of one type, of all nodes or of one."""

    node: str
    """Empty for all nodes"""
    kind: str
    devices: int
    states: tuple[int, ...]
    """How many are in each state"""
    extra: str
    """What is told of them beside numbers"""
    value: Mapping[str, Any]
    """The same for programs"""


class Usage(Protocol):
    """The usage of the devices of a plugin, which changes with its objects."""

    types: Sequence[str]
    states: Sequence[str]
    extra: str
    """The heading of what is told beside numbers"""

    def apply(self, change: Change) -> None:
        """Take a change of an object."""
        ...

    def lines(self, *, nodes: bool) -> Sequence[UsageLine]:
        """A line for each type, or for each of the `nodes` and type; sorted by name."""
        ...


class Shown(NamedTuple):
    """A table, and the same for programs."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    values: list[Mapping[str, Any]]


class Plugin:
    """Brings nothing. A plugin overrides what it has, and imports what is large when it is asked for it."""

    title: ClassVar[str] = ""
    """Whose devices these are, for people: `Koordinator's devices`"""
    name: ClassVar[str]
    """Also that of its inputs in a journal"""
    models: ClassVar[Mapping[str, type[ApiObject]]] = {}
    """API version, such as `example.com/v1` -> the kind that is read of it, in manifests and on a server"""
    advice: ClassVar[Mapping[str, Advice]] = {}
    """Reasons why its units are pending"""

    def served_kinds(self) -> Sequence[ServedKind]:
        """Kinds that the embedded server serves."""
        return ()

    def requests(self, pod: Pod) -> bool:
        """Whether a pod requests devices of the plugin, validly or not."""
        return False

    def own_resource(self, pod: Pod) -> str:
        """A resource of a pod that is a device of the plugin whatever the node offers; empty for none."""
        return ""

    def holds(self, pod: Pod) -> bool:
        """Whether a pod says that it holds devices of the plugin."""
        return False

    def record(self, pod: Pod) -> str:
        """How a pod says which devices it holds."""
        return ""

    def offline(
        self, objects: Iterable[ApiObject], pods: Iterable[Pod], options: Mapping[str, str]
    ) -> "PodDevices | None":
        """Its devices among objects of manifests or of a listing; None if no object or pod concerns it.

        `pods` may hold some of them; `options` are those of the command that concern plugins.
        """
        return None

    def checks(self) -> "Checks | None":
        """Checks of doctor."""

    def usage(self) -> Usage:
        """The usage of its devices, for `top`."""
        raise NotImplementedError

    def modes(self, objects: Iterable[ApiObject]) -> Shown | None:
        """Devices that exclude others while they are held, for `modes`; None if no object concerns it."""

    async def with_kinds(self, client: "Client", served: "Served") -> "Served":
        """The kinds of a server, and those of the plugin. Raises Rejected if these are not served."""
        return served

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

    def replay(self, settings: Mapping[str, Any], intake: "Intake") -> "ReplayPart | None":
        """What decides its units of a journal again, in the state of `intake`; None if the plugin was off.
        `settings` are those that the journal was recorded with.
        """


def register(plugin: Plugin) -> None:
    """Add a plugin, once, before anything is read or started."""
    PLUGINS.append(plugin)
    for version, model in plugin.models.items():
        group, _, name = version.rpartition("/")
        kinds.register(model, group, (name,))
    REASONS.update(plugin.advice)
