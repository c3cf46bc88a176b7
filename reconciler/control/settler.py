"""Writes decided plans: assume, write, confirm; or withdraw."""

from collections.abc import Callable, Sequence

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.cluster.writer import Writer
from reconciler.control.decisions.allocating import Freed
from reconciler.control.decisions.declaration import Report
from reconciler.control.intake import Intake
from reconciler.errors import Conflict, Gone, Rejected, Retry, Undecided


class Settler:
    """Writes plans. A plan is assumed until the answer of the server to its write is known."""

    def __init__(self, intake: Intake, writer: Writer, report: Report) -> None:
        self._intake = intake
        self._writer = writer
        self._report = report
        self._busy: set[str] = set()

    def assume(self, plan: Plan) -> None:
        """Count a plan as held. Its write begins soon, so nobody takes it for one without an answer."""
        self._busy.add(plan.uid)
        self._intake.assume(plan)

    async def settle(
        self, plans: Sequence[tuple[Plan, ResourceClaim]], on_written: Callable[[Plan], None]
    ) -> None:
        """Write assumed plans in order, until one fails. Calls `on_written` after each write.

        Conflict, Retry: the failed plan and the rest are free again; earlier ones stay written, and the
        next reconcile continues from there. Rejected, Gone: earlier ones are withdrawn too. Undecided
        or cancelled: the plan in flight stays assumed.
        """
        for plan, _ in plans:
            self._busy.add(plan.uid)
        written: list[ResourceClaim] = []
        try:
            for plan, claim in plans:
                written.append(await self._writer.write(plan, claim))
                self._confirm(plan, written[-1])
                on_written(plan)
        except Undecided:
            self._forget(plans[len(written) + 1 :])
            raise
        except Retry as exc:
            self._forget(plans[len(written) :])
            if isinstance(exc, Conflict):
                await self._refresh(plans[len(written)][1])
            raise
        except (Rejected, Gone):
            self._forget(plans[len(written) :])
            await self._withdraw(written)
            raise
        finally:
            for plan, _ in plans:
                self._busy.discard(plan.uid)

    async def resolve(self, claim: ResourceClaim) -> None:
        """Find out whether a write without an answer was applied, by reading the claim.

        Does nothing while another task writes the claim. Raises the errors of both requests; the plan
        then stays assumed.
        """
        uid = claim.metadata.uid
        plan = self._intake.store.assumed(uid)
        if plan is None or uid in self._busy:
            return
        self._busy.add(uid)
        try:
            found = await self._writer.read_claim(claim.key)
            if found is not None and found.metadata.uid == uid and found.allocation is None:
                # The write may still arrive, when its devices are given to others. Removing the finalizer
                # changes the resourceVersion of the claim, so the late write gets a conflict.
                found = await self._writer.withdraw(found)
        finally:
            self._busy.discard(uid)
        if found is not None:
            self._intake.observe(found)
        self._intake.forget(plan)

    def _confirm(self, plan: Plan, written: ResourceClaim) -> None:
        self._intake.observe(written)
        # If it is still assumed, the watch already reported a later version without an allocation.
        self._intake.forget(plan)

    def _forget(self, plans: Sequence[tuple[Plan, ResourceClaim]]) -> None:
        for plan, _ in plans:
            self._intake.forget(plan)

    async def _refresh(self, claim: ResourceClaim) -> None:
        found = await self._writer.read_claim(claim.key)
        if found is not None:
            self._intake.observe(found)

    async def _withdraw(self, claims: Sequence[ResourceClaim]) -> None:
        for claim in claims:
            try:
                self._intake.observe(await self._writer.withdraw(claim))
            except (Conflict, Gone):
                continue  # reserved or changed in between: not ours to withdraw
            self._report(Freed(claim.key, "another claim of its pod cannot be written"))
