"""The admission check for Kueue. Off by default."""

from reconciler.app.control import Control
from reconciler.app.foundation import now
from reconciler.app.from_settings import Job
from reconciler.app.running import Host, Running, watch_job
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import Right, missing_rights
from reconciler.cluster.kinds import Resource
from reconciler.control.held_room import HeldRoomKeeper
from reconciler.errors import Rejected
from reconciler.plugins.kueue.checker import AdmissionChecker, KueueWakeUps, Terms
from reconciler.plugins.kueue.cluster import KueueKinds, KueueWriter, kueue_kinds
from reconciler.plugins.kueue.objects import GROUP
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


async def kinds_for_check(settings: Settings, client: Client) -> KueueKinds:
    """The kinds that the check needs.

    Raises Rejected if the server does not serve them, or if this account lacks rights.
    """
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


class KueueRunning(Running):
    """The check, its watches, and the handler that wakes it."""

    def __init__(self, kinds: KueueKinds, claims: Resource, host: Host) -> None:
        """`claims` are ResourceClaims as the server has them."""
        self._kinds, self._claims, self._host = kinds, claims, host
        self.handler = self._wake_ups = KueueWakeUps(host.intake)

    def jobs(self, core: Control, keeper: HeldRoomKeeper | None) -> list[Job]:
        host, kinds, settings = self._host, self._kinds, self._host.base.settings
        client = core.connection.client
        checker = AdmissionChecker(
            core.intake,
            KueueWriter(client, kinds),
            host.ours,
            Terms(
                settings.kueue_check,
                settings.fixed.kueue_retry_seconds,
                settings.fixed.kueue_requeue_seconds,
                settings.fixed.kueue_hold_seconds,
            ),
            self._wake_ups,
            steps=settings.search_steps,
            leads=core.fence.up,
            clock=host.base.clock,
            now=now,
            report=host.report,
            written=None if keeper is None else keeper.written,
            failures=core.failures,
        )
        templates = Resource(
            "ResourceClaimTemplate",
            "resource.k8s.io",
            self._claims.version,
            "resourceclaimtemplates",
            namespaced=True,
        )
        return [
            *(
                watch_job(f"watch {one.full_name} for Kueue", client, one, checker.objects.take)
                for one in (kinds.workload, kinds.check, kinds.flavor, templates)
            ),
            Job("admission check", checker.run),
        ]
