"""The admission check for Kueue. Off by default."""

from functools import partial
from random import random

from reconciler.aio.tasks import forever
from reconciler.api.objects.validating import validated
from reconciler.api.versions.reading import read
from reconciler.app.control import Control
from reconciler.app.foundation import Foundation, now
from reconciler.app.from_settings import Job
from reconciler.cluster.client import Client
from reconciler.cluster.cursor import Decode
from reconciler.cluster.discovery import Right, missing_rights
from reconciler.cluster.kinds import Resource, Served
from reconciler.cluster.watch import Sink, follow
from reconciler.control.decisions.declaration import Report
from reconciler.control.held_room import HeldRoomKeeper
from reconciler.control.ownership import Ownership
from reconciler.errors import Rejected
from reconciler.plugins.kueue.checker import AdmissionChecker, Terms
from reconciler.plugins.kueue.cluster import KueueKinds, KueueWriter, kueue_kinds
from reconciler.plugins.kueue.objects import GROUP, AdmissionCheck, ResourceFlavor, Workload
from reconciler.settings import Settings

_READ = ("list", "watch")
RIGHTS = (
    *(Right(verb, "workloads", GROUP) for verb in _READ),
    *(Right(verb, "admissionchecks", GROUP) for verb in _READ),
    *(Right(verb, "resourceflavors", GROUP) for verb in _READ),
    *(Right(verb, "resourceclaimtemplates", "resource.k8s.io") for verb in _READ),
    Right("patch", "workloads/status", GROUP),
    Right("patch", "admissionchecks/status", GROUP),
)


async def kinds_for_check(settings: Settings, client: Client) -> KueueKinds | None:
    """The kinds that the check needs; None without a check.

    Raises Rejected if the server does not serve them, or if this account lacks rights.
    """
    if not settings.kueue_check or settings.mode == "shadow":
        return None
    if settings.shard:
        raise Rejected("setting kueue_check: a shard knows a part of the fleet only; unset it, or shard")
    found = await kueue_kinds(client, settings.kueue_check)
    lacking = await missing_rights(client, RIGHTS)
    if lacking:
        raise Rejected(
            f"setting kueue_check needs rights that this account does not have: "
            f"{', '.join(map(str, lacking))}. Add deploy/components/kueue, or set the value kueueCheck of "
            "the chart"
        )
    return found


def kueue_jobs(
    base: Foundation,
    core: Control,
    served: Served,
    kinds: KueueKinds | None,
    ours: Ownership,
    report: Report,
    keeper: HeldRoomKeeper | None = None,
) -> list[Job]:
    """The check and its watches; none without one. `keeper` writes down what is held."""
    if kinds is None or core.wake_ups is None:
        return []
    settings, client = base.settings, core.connection.client
    checker = AdmissionChecker(
        core.intake,
        KueueWriter(client, kinds),
        ours,
        Terms(
            settings.kueue_check,
            settings.kueue_retry_seconds,
            settings.kueue_requeue_seconds,
            settings.kueue_hold_seconds,
        ),
        core.wake_ups,
        steps=settings.search_steps,
        leads=core.fence.up,
        clock=base.clock,
        now=now,
        report=report,
        written=None if keeper is None else keeper.written,
        failures=core.failures,
    )
    templates = Resource(
        "ResourceClaimTemplate",
        "resource.k8s.io",
        served["ResourceClaim"].version,
        "resourceclaimtemplates",
        namespaced=True,
    )
    watched: list[tuple[Resource, Decode]] = [
        (kinds.workload, partial(validated, Workload)),
        (kinds.check, partial(validated, AdmissionCheck)),
        (kinds.flavor, partial(validated, ResourceFlavor)),
        (templates, read),
    ]
    return [
        *(
            Job(
                f"watch {one.full_name} for Kueue", partial(_watch, client, one, checker.objects.take, decode)
            )
            for one, decode in watched
        ),
        Job("admission check", checker.run),
    ]


async def _watch(client: Client, resource: Resource, sink: Sink, decode: Decode) -> None:
    watch = follow(client, resource, sink=sink, random=random, decode=decode)
    await forever(resource.plural, watch)
