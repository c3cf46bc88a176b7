"""Requests for nodes: connects `analysis`, which sizes fleets, with `control`, which asks.

Off by default, so it is imported only where `requests_nodes` says so.
"""

from functools import partial
from random import random

from reconciler.aio.tasks import forever
from reconciler.aio.worker_thread import ShouldContinue
from reconciler.analysis.relocation.world import World
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.patterns import distinct_shapes
from reconciler.analysis.sizing.sizing import size
from reconciler.analysis.whatif.scenario import Unit
from reconciler.api.objects.provisioning import GROUP, VERSION, ProvisioningRequest
from reconciler.api.objects.validating import validated
from reconciler.app.control import Control
from reconciler.app.foundation import Foundation
from reconciler.app.from_settings import Job
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import Right, missing_rights
from reconciler.cluster.kinds import PROVISIONING_REQUEST
from reconciler.cluster.watch import Sink, follow
from reconciler.control.decisions.declaration import Report
from reconciler.control.ownership import Ownership
from reconciler.control.provisioning.provisioner import Needed, NodesQuestion, Provisioner
from reconciler.errors import Gone, Rejected

RIGHTS = (
    *(Right(verb, "provisioningrequests", GROUP) for verb in ("list", "watch", "create", "delete")),
    *(Right(verb, "podtemplates") for verb in ("create", "delete")),
)


async def check_provisioning(client: Client) -> None:
    """Raise Rejected if nodes cannot be requested."""
    try:
        listing = await client.fetch(PROVISIONING_REQUEST.root)
    except Gone:
        listing = {}
    if PROVISIONING_REQUEST.plural not in [entry["name"] for entry in listing.get("resources", ())]:
        raise Rejected(
            f"setting provisioning_requests: the server does not serve {GROUP}/{VERSION}: install the "
            "resource definition of ProvisioningRequests, or unset it"
        )
    lacking = await missing_rights(client, RIGHTS)
    if lacking:
        raise Rejected(
            "setting provisioning_requests needs rights that this account does not have: "
            f"{', '.join(map(str, lacking))}. Add deploy/components/provisioning, or set the value "
            "provisioningRequests of the chart"
        )


def provisioning_jobs(base: Foundation, core: Control, ours: Ownership, report: Report) -> list[Job]:
    """The requests and their watch."""
    settings, client = base.settings, core.connection.client
    provisioner = Provisioner(
        core.intake,
        client,
        ours,
        _needed,
        class_name=settings.provisioning_requests,
        patience=settings.provisioning_patience_seconds,
        leads=core.fence.up,
        clock=base.clock,
        report=report,
        failures=core.failures,
    )
    return [
        Job("watch provisioning requests", partial(_watch, client, provisioner.take)),
        Job("provisioning", provisioner.run),
    ]


def _needed(question: NodesQuestion, _: ShouldContinue) -> Needed:
    """Which pods fit on no present node beside the others, and would fit on an empty one of a known shape."""
    world = World(question.fork.store(), question.nodes, question.pod_groups)
    items = [
        Item(Unit(str(group.key), group.claims, group.pod), group.count, number)
        for number, group in enumerate(question.groups)
    ]
    shapes = tuple(distinct_shapes(question.nodes.known, question.slices))
    found = size(items, shapes, world)
    return {
        group.key: (one.left, one.served_by)
        for group, one in zip(question.groups, found.items, strict=True)
        if one.left and one.served_by
    }


async def _watch(client: Client, sink: Sink) -> None:
    decode = partial(validated, ProvisioningRequest)
    watch = follow(client, PROVISIONING_REQUEST, sink=sink, random=random, decode=decode)
    await forever(PROVISIONING_REQUEST.plural, watch)
