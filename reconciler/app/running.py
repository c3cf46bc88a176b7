"""The parts of plugins in a process that reconciles, and what they are built with."""

from collections.abc import Callable, Iterable
from random import random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.aio.tasks import forever
from reconciler.api.objects.meta import ObjectKey
from reconciler.app.foundation import Foundation
from reconciler.app.from_settings import Job
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Resource
from reconciler.cluster.pod_writer import PodWriter
from reconciler.cluster.watch import Sink, follow
from reconciler.control.decisions.declaration import Report
from reconciler.control.handler import Blocked, Handler
from reconciler.control.held_room import HeldRoomKeeper
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.page.sources import PluginView
from reconciler.operations.signals import MoreSeries

if TYPE_CHECKING:
    from reconciler.app.control import Control


class Host(Struct, frozen=True):
    """What the parts of a plugin are built with."""

    base: Foundation
    intake: Intake
    pod_writer: PodWriter
    ours: Ownership
    recorder: Recorder | None
    """The journal, if there is one"""
    report: Report


class Running:
    """Does nothing. A plugin overrides what it has."""

    handler: Handler[Any, Any, Any] | None = None
    """Serves units of the loop, before claims are asked for"""
    holders: Iterable[str] = ()
    """Kinds that say who holds devices: a new leader lists them again before it decides"""
    view: PluginView | None = None
    """What the status page shows"""
    series: MoreSeries = MappingProxyType({})

    def sink(self, below: Sink) -> Sink:
        """Takes the changes of all watches, and passes them on to `below`."""
        return below

    def keeps_from_gang(self, pod: ObjectKey) -> Blocked | None:
        """Why a pod cannot be placed with a gang; None if it can."""

    def jobs(self, core: "Control", keeper: HeldRoomKeeper | None) -> Iterable[Job]:  # noqa: ARG002
        """Tasks beside the loop. `keeper` writes down what room is held."""
        return ()


Start = Callable[[Host], Running]
"""Builds the parts of a plugin"""


def watch_job(name: str, client: Client, resource: Resource, sink: Sink, **more: Any) -> Job:
    """A watch of one kind; `more` are arguments of `follow`."""

    async def run() -> None:
        await forever(resource.plural, follow(client, resource, sink=sink, random=random, **more))

    return Job(name, run)
