"""Makes room for pending pods of some PriorityClasses, one pod at a time. Source: MAKE-9, MAKE-10.

Before each eviction the plan is made again from the present state. If anything of it differs, it is aborted:
then the room is not held any more, and a later plan starts from what is there. A pod that was evicted leaves
completely, and its claims are free, before the next one is evicted.
"""

from collections.abc import Iterable, Set
from functools import partial

import structlog
from msgspec import Struct
from msgspec.structs import asdict, replace

from reconciler.aio.tasks import Closed
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.gangs import GangSource, gang_of
from reconciler.api.objects.meta import ObjectKey, time_of
from reconciler.cluster.pod_writer import Evictions
from reconciler.control.decisions.every import Evicted, RoomPlanAborted, RoomPlanned
from reconciler.control.inputs import Planned
from reconciler.control.relocation import relocator
from reconciler.control.relocation.evictor import AGAIN, LONGEST_AGAIN, Purpose
from reconciler.control.relocation.ground import (
    Ground,
    Victim,
    changed,
    has_left,
    is_deleted,
    is_leaving,
)
from reconciler.control.units import Kind, Unit
from reconciler.errors import ReconcilerError, Rejected, Unlisted
from reconciler.state.nominations import Leaving, Nominee, own_of_all
from reconciler.state.pods.groups import KIND_OF

log = structlog.get_logger()

SHARE = 0.1
"""Maximum part of the time that is spent on plans"""
PAUSE = 1.0
"""Seconds between two looks at what is pending"""
_GROUPS = KIND_OF[GangSource.POD_GROUP], KIND_OF[GangSource.COMPOSITE]


class Leavers(Struct, kw_only=True):
    """Who leaves for a nominee."""

    nominee: Nominee
    rest: tuple[Victim, ...] = ()
    """The others of a group that leaves whole: their evictions are requested until they are gone"""
    not_before: float = 0.0
    """When the next eviction may be tried"""


class RoomCampaign(Leavers, kw_only=True):
    """A plan that is being carried out."""

    unit: Unit
    plan: relocator.RoomPlan
    """The rest of it: pods that have left are not in it any more"""
    leaving: Victim | None = None
    """The pod that was evicted last"""


class Preemptor(relocator.Relocator):
    """All its state is lost with the process, but for what `Nominating` has."""

    purpose = Purpose.PREEMPTION
    failure = "making room failed"

    def __init__(
        self,
        means: relocator.Means,
        candidates: relocator.Candidates,
        evictions: Evictions,
        plan: relocator.PlanRoom,
        terms: relocator.Terms,
    ) -> None:
        super().__init__(means, terms)
        self._candidates = candidates
        self._evictions = evictions
        self._plan = plan
        self._campaign: RoomCampaign | None = None
        self._finishing: Leavers | None = None
        """The rest of a group of which an earlier leader, or a plan that failed, has evicted a part"""
        self._before: Ground | None = None
        """What the last plan was made from"""
        self._sharers: list[Pod] = []
        """The other pods that used its claims then"""
        self._waits: dict[Unit, tuple[float, float]] = {}
        """Unit -> when it may have another plan, and the delay after that"""
        self._asking: set[Unit] = set()
        """Units that asked for the turn while a pod was moved, and did not get it yet"""
        self.standing = relocator.StandingRoom()

    def _failed(self) -> None:
        self._stop()

    def _pause(self, spent: float) -> float:
        return max(PAUSE, spent / SHARE - spent)

    async def _step(self) -> None:
        if not self._intake.listed.is_set() or not self._means.budgets.listed or not self._means.leads():
            self._stop()
            return
        if self._campaign is not None:
            await self._advance(self._campaign)
            return
        if (leaving := self._intake.nominating.leaving) is not None:
            await self._finish(leaving)
            return
        self._before = None  # it is as large as the state, and out of date
        units = self._candidates.units()
        self.standing.keep(units)
        self._waits = {unit: wait for unit, wait in self._waits.items() if unit in set(units)}
        for unit in self._asking.difference(units):
            self._ask_no_more(unit)
        for unit in units:
            if self._waits.get(unit, (0.0, 0.0))[0] <= self._clock():
                await self._consider(unit)
                return

    async def _consider(self, unit: Unit) -> None:
        """Make a plan for a pending unit, and start to carry it out if that is allowed."""
        plan = await self._planned(unit)
        if plan is None:
            self._wait(unit)
            self._ask_no_more(unit)
            return
        new = self.standing.note(unit, plan)
        nominee = self._candidates.nominee(unit)
        acts = plan.acts and self._terms.evict
        if plan.victims and new:
            self._say(nominee, plan, acts=acts)
        if not acts or not (plan.victims or plan.awaits):
            self._intake.put(unit)  # it fits as it is, or waits for somebody else
            self._wait(unit)
            self._ask_no_more(unit)
            return
        if plan.victims and (wait := self._rates_allow(plan)) > 0:
            self._waits[unit] = self._clock() + wait, AGAIN
            return
        if not self._means.turns.take(self.purpose):
            self._asking.add(unit)
            self._waits[unit] = self._clock() + AGAIN, AGAIN  # a pod is being moved
            return
        self._asking.clear()
        # Also if nobody has to leave: pods that are being deleted make room, which is held for it.
        self._campaign = RoomCampaign(unit=unit, nominee=nominee, plan=plan)
        self._hold(self._campaign)
        await self._hint(self._campaign, self._node(plan))
        await self._advance(self._campaign)

    def _say(self, nominee: Nominee, plan: relocator.RoomPlan, *, acts: bool) -> None:
        why = plan.advice or ("" if acts else "dry run" if self._terms.evict else "evictions are off")
        said = RoomPlanned(
            nominee,
            tuple(victim.key for victim in plan.victims),
            tuple(dict.fromkeys(place.node for place in plan.places)),
            tuple(device for place in plan.places for device in place.devices),
            acts,
            why,
        )
        self._report(said)
        self._intake.note(Planned(said))

    async def _advance(self, campaign: RoomCampaign) -> None:
        """Take the next step of a plan: wait for the pod that leaves, or evict the next one."""
        victims = campaign.plan.victims
        if campaign.leaving is None and victims and is_leaving(victims[0], self._store):
            # Somebody else deleted it, or an eviction without an answer was granted.
            self._means.evictor.leaves(victims[0])
            self._left(campaign)
        if campaign.rest:
            await self._evict_rest(campaign)
            return
        if self._store.nominations.get(campaign.nominee) is None:
            self._end(campaign)  # it was used, it has expired, or it is gone
            await self._hint(campaign, "")
            return
        if campaign.leaving is not None and not has_left(campaign.leaving, self._store):
            return
        campaign.leaving = None
        if not campaign.plan.victims or self._clock() < campaign.not_before:
            return
        if (wait := self._rates_allow(campaign.plan)) > 0:
            if wait > self._terms.hold_seconds:  # devices should not be idle for so long
                await self._abort(campaign, "no further eviction is allowed for a long time")
                return
            campaign.not_before = self._clock() + wait
            self._hold(campaign, more=wait)
            return
        self._note_leaving(campaign)
        if self._means.written is not None:
            await self._means.written()  # a next leader holds it, too: nobody leaves in vain
        if not await self._may_leave_together(campaign):
            return
        again = await self._planned(campaign.unit)
        if self._store.nominations.get(campaign.nominee) is None:
            self._end(campaign)
            return
        if again is None or not _is_same(again, campaign.plan):
            why = "the pod waits for something else" if again is None else again.refused or again.advice
            await self._abort(campaign, why or "another plan is better now")
            return
        if why := self._changed(campaign.unit, again):
            await self._abort(campaign, f"{why} while the plan was checked")
            return
        await self._evict(campaign, campaign.plan.victims[0])

    async def _may_leave_together(self, campaign: RoomCampaign) -> bool:
        """Whether the server would evict all that leave whole: none of them goes while another may not."""
        if len(group := _first(campaign.plan)) == 1:
            return True
        try:
            delay = await self._means.evictor.check(group)
        except Rejected as exc:
            await self._abort(campaign, str(exc))
            return False
        if delay is not None:
            campaign.not_before = self._clock() + delay
        return delay is None

    async def _evict(self, campaign: RoomCampaign, victim: Victim) -> None:
        """Nothing awaited between the comparison of the plans and this."""
        if is_leaving(victim, self._store) or self._candidates.need(campaign.unit) is None:
            return
        if self._intake.queue.is_due(campaign.unit):
            return  # something was freed that may be enough: it is decided first
        try:
            delay = await self._means.evictor.evict(victim, Evicted(victim.key, victim.uid, campaign.nominee))
        except Rejected as exc:
            await self._abort(campaign, str(exc))
            return
        if delay is not None:  # what happened is seen before the next try
            campaign.not_before = self._clock() + delay
            return
        self._left(campaign)

    def _note_leaving(self, campaign: RoomCampaign) -> None:
        """Say who leaves as one, so that a next leader finishes what is begun."""
        if len(group := _first(campaign.plan)) > 1:
            pods, until = tuple((one.key, one.uid) for one in group), self._deadline(self._terms.hold_seconds)
            self._intake.nominating.leave(Leaving(campaign.nominee, pods, until))

    async def _finish(self, leaving: Leaving) -> None:
        """Evict the others of a group of which some are gone. If none is, or that was too long ago, nobody
        leaves.
        """
        if self._finishing is None:
            group = tuple(Victim(key, uid, ()) for key, uid in leaving.pods)
            until, now = time_of(leaving.deadline), self._means.now()
            stay = [victim for victim in group if not is_deleted(victim, self._store)]
            begun = len(stay) < len(group)
            if not (self._terms.evict and begun and until is not None and now < until):
                self._intake.nominating.leave(None)
                return
            try:
                whole = self._leave_whole(self._store.pods[victim.key] for victim in stay)
            except Unlisted:  # until the deadline
                return
            if not whole:
                self._intake.nominating.leave(None)
                return
            if self._means.evictor.wait(len(stay)) > 0 or not self._means.turns.take(self.purpose):
                return
            self._finishing = Leavers(nominee=leaving.nominee, rest=group)
        await self._evict_rest(self._finishing)
        if not self._finishing.rest:
            self._stop()

    def _leave_whole(self, pods: Iterable[Pod]) -> bool:
        """Whether these pods are of groups that leave whole. Without this, whoever may write the record could
        have any pod evicted. Raises Unlisted if the groups are not known yet.
        """
        groups = self._intake.groups
        self._intake.nodes.on_demand.require_all(_GROUPS, "a group that leaves whole")
        gangs = {gang_of(pod) for pod in pods}
        return all(
            gang is not None and any(map(groups.leaves_whole, (gang, *groups.above(gang)))) for gang in gangs
        )

    async def _evict_rest(self, campaign: Leavers) -> None:
        """Evict the others of a group that leaves whole; those that may not go yet again later."""
        if self._clock() < campaign.not_before:
            return
        evictor = self._means.evictor
        stay: dict[Victim, float] = {}
        for victim in campaign.rest:
            if is_leaving(victim, self._store):
                evictor.leaves(victim)
                continue
            try:
                delay = await evictor.evict(victim, Evicted(victim.key, victim.uid, campaign.nominee))
            except Rejected as exc:  # a part of the group has left, so the others have to
                delay = evictor.later(victim, exc)
            if delay is not None:
                stay[victim] = delay
        campaign.rest = tuple(stay)
        campaign.not_before = self._clock() + min(stay.values(), default=0.0)
        if (leaving := self._intake.nominating.leaving) is not None:
            until = self._deadline(self._terms.hold_seconds)
            self._intake.nominating.leave(replace(leaving, deadline=until) if stay else None)

    def _rates_allow(self, plan: relocator.RoomPlan) -> float:
        """Seconds until the next pod may be evicted, with its group if that leaves whole; 0 if it may."""
        return self._means.evictor.wait(len(_first(plan)))

    def _left(self, campaign: RoomCampaign) -> None:
        """The next victim leaves, and the others of its group have to, if that leaves whole."""
        self._note_leaving(campaign)
        group = _first(campaign.plan)
        campaign.leaving, campaign.rest = group[0], group[1:]
        campaign.plan = replace(campaign.plan, victims=campaign.plan.victims[len(group) :])
        if self._candidates.need(campaign.unit) is not None:  # else it has its place already
            self._hold(campaign)

    async def _planned(self, unit: Unit) -> relocator.RoomPlan | None:
        """A plan from the present state; None if the unit needs no devices now."""
        need = self._candidates.need(unit)
        if need is None:
            return None
        if self._unreadable:
            why = f"{self._unreadable} cannot be read, so nobody knows which pods it protects"
            return relocator.RoomPlan((), (), refused=why)
        state = self._question(own_of_all(self._candidates.judged(unit)))
        self._before, self._sharers = self._ground(state), self._candidates.sharers(unit)
        question = relocator.RoomQuestion(**asdict(state), need=need, sharing=self._candidates.sharing(need))
        try:
            plan = await self._thread.run(partial(self._plan, question))
        except Closed:
            raise
        except Exception as exc:
            # A missing plan must not stop the reconciler.
            log.exception("plan to make room failed", unit=str(unit))
            return relocator.RoomPlan((), (), refused=f"internal error: {exc}")
        on_demand = self._intake.nodes.on_demand
        if missing := question.nodes.on_demand.wanted - on_demand.wanted:
            # As the PodGroups of pods that may have to leave, if no pending pod has needed any.
            on_demand.want(missing)
            kinds = ", ".join(sorted(missing))
            return relocator.RoomPlan((), (), refused=f"{kinds} objects are not listed yet")
        return plan

    def _changed(self, unit: Unit, plan: relocator.RoomPlan) -> str:
        """What of the last plan has changed since it was asked for; empty if nothing has."""
        if self._unreadable:
            return f"{self._unreadable} became unreadable"
        assert self._before is not None  # a plan was made
        before, now = self._before, self._ground()
        wanted = self._intake.units.claims(unit)
        needing = {key for victim in plan.victims for key, _ in victim.frees}
        needing |= {key for key in wanted if key in before.claims and before.claims[key].allocation is None}
        then = _users(needing, self._sharers)
        if other := then.keys() ^ _users(needing, self._candidates.sharers(unit)).keys():
            return f"pod {min(other)}, which shares a claim, came or went"
        pods = [*self._candidates.pods(unit), *then.values()]
        keys = dict.fromkeys([*wanted, *(key for pod in then.values() for key in claims_of(pod))])
        own = own_of_all(pods)
        return changed(before, now, plan.victims, plan.places, waiting=pods, wanted=keys, own=own)

    def _hold(self, campaign: RoomCampaign, *, more: float = 0.0) -> None:
        """Hold the room of a plan from now on."""
        pods = self._candidates.pods(campaign.unit)
        one = len(pods) == 1 and campaign.unit.kind is Kind.POD
        self._hold_places(
            campaign.nominee,
            campaign.plan.places,
            min((pod.spec.priority or 0 for pod in pods), default=0),
            pods[0].metadata.uid if one else "",
            "pods of lower priority leave for it" if campaign.plan.victims else "pods are being deleted",
            more=more,
        )

    async def _abort(self, campaign: RoomCampaign, why: str) -> None:
        self._report(RoomPlanAborted(campaign.nominee, why))
        self._intake.nominating.drop(campaign.nominee, f"the plan was aborted: {why}")
        self._end(campaign)
        await self._hint(campaign, "")

    def _end(self, campaign: RoomCampaign) -> None:
        self._intake.nominating.leave(None)
        self._stop()
        self._wait(campaign.unit)

    def _stop(self) -> None:
        """Carry out no plan any more. Room that is held expires."""
        self._campaign = self._finishing = self._before = None
        self._asking.clear()
        self._means.turns.end(self.purpose)

    def _ask_no_more(self, unit: Unit) -> None:
        """A unit does not want the turn any more, if it did: it keeps nobody from moving."""
        self._asking.discard(unit)
        if not self._asking:
            self._means.turns.end(self.purpose)

    def _wait(self, unit: Unit) -> None:
        """Let some time pass before another plan for a unit."""
        _, delay = self._waits.get(unit, (0.0, AGAIN))
        self._waits[unit] = self._clock() + delay, min(2 * delay, LONGEST_AGAIN)

    async def _hint(self, campaign: RoomCampaign, node: str) -> None:
        """Write where a pod is expected. Only a hint: nobody depends on it, so errors do not matter."""
        pod = self._store.pods.get(campaign.unit.key) if campaign.unit.kind is Kind.POD else None
        if pod is None or not pod.gated or self._intake.pause.paused:
            return
        if pod.status.nominated_node_name == node:
            return
        try:
            self._intake.observe_pod(await self._evictions.nominate(pod, node))
        except ReconcilerError as exc:
            log.debug("hint not written", pod=str(pod.key), error=str(exc))

    @staticmethod
    def _node(plan: relocator.RoomPlan) -> str:
        return plan.places[0].node if len(plan.places) == 1 else ""


def _first(plan: relocator.RoomPlan) -> tuple[Victim, ...]:
    """The pod that leaves next, with the others of its group if that leaves whole."""
    victim = plan.victims[0]
    return tuple(one for one in plan.victims if one is victim or (one.group and one.group == victim.group))


def _users(claims: Set[ObjectKey], pods: Iterable[Pod]) -> dict[ObjectKey, Pod]:
    """The pods that use some of these claims."""
    return {pod.key: pod for pod in pods if not claims.isdisjoint(claims_of(pod))}


def _is_same(plan: relocator.RoomPlan, before: relocator.RoomPlan) -> bool:
    """Whether a plan made again says the same."""
    return plan.acts and plan.places == before.places and plan.victims == before.victims
