"""Reports claims that nobody allocates: on the embedded server there is no other allocator."""

import asyncio
from collections.abc import Callable, Iterable, Iterator

import structlog

from reconciler.allocation.reasons.reasons import remedy
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import GATE
from reconciler.control.intake import Intake
from reconciler.control.ownership import MANAGED, Ownership
from reconciler.operations.events.events import Notice, Regarding

log = structlog.get_logger()

NOT_MANAGED = "NotManaged"
"""The reason of the Event"""
PAUSE_SECONDS = 5.0
"""Between two checks. A claim is reported at the second one: its pod may be created after it"""


class UnmanagedClaims:
    """Checks all pending claims periodically, and reports each unmanaged one once."""

    def __init__(
        self, intake: Intake, ours: Ownership, *, record: Callable[[Iterable[Notice]], None], version: str
    ) -> None:
        """`record` takes Events; `version` is the API version of claims on the API server."""
        self._intake = intake
        self._ours = ours
        self._record = record
        self._version = version
        self._seen: set[str] = set()
        self._reported: set[str] = set()

    async def run(self) -> None:
        """Check until cancelled."""
        await self._intake.listed.wait()
        while True:
            self.check()
            await asyncio.sleep(PAUSE_SECONDS)

    def check(self) -> None:
        """Report the claims that were unmanaged at the previous check, too."""
        found = {claim.metadata.uid: claim for claim in self._unmanaged()}
        new = (found.keys() & self._seen) - self._reported
        self._record([self._notice(claim) for uid, claim in found.items() if uid in new])
        for uid in sorted(new):
            log.warning("claim is not managed", claim=str(found[uid].key))
        self._seen = set(found)
        self._reported = (self._reported | new) & self._seen

    def _unmanaged(self) -> Iterator[ResourceClaim]:
        store, roster = self._intake.store, self._intake.roster
        for claim in store.claims.values():
            if claim.allocation is not None or claim.deleting or self._ours.claims(claim):
                continue
            pods = (store.pods.get(key) for key in roster.users(claim.key))
            if not any(pod is not None and pod.gated for pod in pods):
                yield claim

    def _notice(self, claim: ResourceClaim) -> Notice:
        text = (
            f"claim {claim.key} stays pending: it has neither the label {MANAGED}=true nor a pod with the "
            f"scheduling gate {GATE}, and the embedded server has no other allocator. {remedy(NOT_MANAGED)}"
        )
        regarding = Regarding(self._version, "ResourceClaim", claim.key, claim.metadata.uid)
        return Notice(regarding, NOT_MANAGED, text, "")
