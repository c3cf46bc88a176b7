"""Keeps standing advice which pods to move, and moves them if that is allowed. Source: MOVE-5, MOVE-6.

One pod moves at a time. Before each move, what is left of the plan is tried on the present state. The place
of what replaces the pod is held, the pod is evicted, and the next one follows only when the replacement runs
there. If anything differs, the rest of the plan is dropped: a later plan starts from what is there.
"""

from collections.abc import Hashable
from functools import partial

from msgspec.structs import replace

from reconciler.control.build_ahead import build_ahead
from reconciler.control.decisions.every import MoveEvicted, MovesAborted, MovesPlanned, PodMoved
from reconciler.control.inputs import Planned
from reconciler.control.relocation import moves
from reconciler.control.relocation.evictor import Purpose
from reconciler.control.relocation.ground import Ground, changed, has_left, is_leaving
from reconciler.control.relocation.relocator import Means, Relocator, Terms
from reconciler.errors import Rejected
from reconciler.state.nominations import NOBODY

SHARE = 0.01
"""Maximum part of the time that is spent on plans"""
LOOK, STEP = 5.0, 1.0
"""Seconds between two looks at rest, and while pods are moved"""
LONGEST_WAIT = 60.0
"""Seconds: a plan whose next eviction was not allowed is dropped if it would have to wait longer. The rates
may let it wait longer"""
LONGEST_REST = 3600.0
"""Seconds until the next plan after several in a row were dropped"""
TRIES = 3
"""How often a move is tried again because devices changed meanwhile"""
RUNNING = "Running"


class MovesTerms(Terms, frozen=True, kw_only=True):
    """What the settings allow."""

    calm_seconds: float
    """How long nothing must have changed before a plan is made"""


class Rebalancer(Relocator):
    """Its plan is lost with the process: a new one starts from what is. Held places may be written down."""

    purpose = Purpose.REBALANCING
    failure = "rebalancing failed"

    def __init__(self, means: Means, plan: moves.PlanMoves, trial: moves.TryMoves, terms: MovesTerms) -> None:
        super().__init__(means, terms)
        self._trial = trial
        self._plan = plan
        self._calm_seconds = terms.calm_seconds
        self._calm = moves.Calm(terms.calm_seconds)
        self._campaign: moves.MovesCampaign | None = None
        self._rests_until = 0.0
        self._rest = terms.calm_seconds
        """How long to rest after the next plan that is dropped"""
        self.standing = moves.StandingAdvice()

    def _failed(self) -> None:
        self._end()
        self._back_off()

    def _pause(self, spent: float) -> float:  # noqa: ARG002 - the pause after a plan is longer, see `_consider`
        return LOOK if self._campaign is None else STEP

    async def _step(self) -> None:
        if not self._intake.listed.is_set() or not self._means.leads():
            self._end()
            self.standing.forget()
            self._calm.again()
            return
        await build_ahead(self._store)  # the snapshots below then do not hold the loop
        if self._campaign is not None:
            await self._advance(self._campaign)
        elif self._clock() >= self._rests_until and self._calm.due(self._state(), self._clock()):
            await self._consider()

    def _state(self) -> Hashable:
        """Equal while a plan would say the same."""
        return self._store.snapshot().version, self._intake.nodes.serial, self._means.budgets.serial

    async def _consider(self) -> None:
        """Make new advice, and start to carry out the first of it if that is allowed."""
        self._means.budgets.asked.set()
        if not self._means.budgets.listed:
            return
        state, began = self._state(), self._clock()
        found = await self._thread.run(partial(self._plan, self._question(NOBODY)))
        spent = self._clock() - began
        self._calm.planned(state, began, self._clock())
        self._rests_until = self._clock() + spent / SHARE
        self.standing.without_budgets = self._means.budgets.unknown
        chosen = next((one for one in found if one.moves), None)
        acts = self._terms.evict and self._calm.rests(began)
        for one in self.standing.note(found):
            self._say(one, acts=acts and one is chosen)
        if acts and chosen is not None and not self._intake.pause.paused:
            self._campaign = moves.MovesCampaign(chosen)

    def _say(self, advice: moves.MovesAdvice, *, acts: bool) -> None:
        why = "" if acts else self._why_not()
        said = MovesPlanned(
            advice.goal,
            advice.counted,
            advice.before,
            advice.after,
            tuple(move.victim.key for move in advice.moves),
            tuple(move.to.node for move in advice.moves),
            acts,
            why,
        )
        self._report(said)
        self._intake.note(Planned(said))

    def _why_not(self) -> str:
        if not self._terms.evict:
            return "evictions are off"
        return "another goal comes first, or the fleet does not rest"

    # -- carrying out

    async def _advance(self, campaign: moves.MovesCampaign) -> None:
        """Follow the pod that moves, or move the next one."""
        if campaign.moving is not None:
            self._follow(campaign, campaign.moving)
            return
        if not campaign.advice.moves:
            self._end()
            return
        move = campaign.advice.moves[0]
        if campaign.asked and is_leaving(move.victim, self._store):
            self._means.evictor.leaves(move.victim)  # an eviction without an answer was granted
            self._begun(campaign, move)
            return
        if self._clock() < campaign.not_before:
            return
        if campaign.asked and self._store.nominations.get(move.nominee) is None:
            self._abort(campaign, f"pod {move.victim.key} could not be evicted in time")
            return
        if self._means.turns.yields(self.purpose):
            self._abort(campaign, "room is made for a pending pod first")
            return
        if (wait := self._means.evictor.wait()) > 0:
            campaign.not_before = self._clock() + wait
            return
        await self._move(campaign, move)

    async def _move(self, campaign: moves.MovesCampaign, move: moves.Relocation) -> None:
        """Hold the place of what replaces a pod, and evict it."""
        if not self._means.turns.take(self.purpose):
            self._abort(campaign, "room is made for a pending pod first")
            return
        if self._unreadable:
            self._abort(campaign, f"{self._unreadable} cannot be read")
            return
        version = self._store.snapshot().version
        # The place of the move may be held already.
        question = self._question(frozenset([move.nominee]) if campaign.asked else NOBODY)
        ground = self._ground(question)
        why = await self._thread.run(partial(self._trial, question, campaign.advice))
        if why:
            self._abort(campaign, why)
            return
        if version != self._store.snapshot().version:
            campaign.tries += 1
            if campaign.tries > TRIES:
                self._abort(campaign, "the fleet changes too fast")
            return
        campaign.tries = 0
        if why := self._changed(ground, move):
            self._abort(campaign, f"{why} while the move was checked")
            return
        if not self._means.leads() or is_leaving(move.victim, self._store):
            self._abort(campaign, f"pod {move.victim.key} is gone, or another replica leads")
            return
        if not campaign.asked:
            campaign.asked = True
            campaign.before = frozenset(pod.metadata.uid for pod in moves.siblings(move, self._store))
            self._hold(move)
            if self._means.written is not None:
                await self._means.written()  # a next leader holds it, too: no pod leaves its place in vain
                return  # something may have changed meanwhile
        counted = campaign.advice.counted
        granted = MoveEvicted(
            move.victim.key, move.victim.uid, move.node, move.to.node, move.to.devices, counted, move.gains
        )
        try:
            delay = await self._means.evictor.evict(move.victim, granted)
        except Rejected as exc:
            self._abort(campaign, str(exc))
            return
        if delay is None:
            self._begun(campaign, move)
        elif delay > LONGEST_WAIT:
            self._abort(campaign, f"pod {move.victim.key} cannot be evicted now")
        else:
            campaign.not_before = self._clock() + delay

    def _changed(self, before: Ground, move: moves.Relocation) -> str:
        """What of a move has changed; empty if nothing has."""
        if self._unreadable:
            return f"{self._unreadable} became unreadable"
        now = self._ground()
        victim, own = before.pods.get(move.victim.key), frozenset([move.nominee])
        replaced = [] if victim is None else [victim]
        return changed(before, now, [move.victim], [move.to], waiting=replaced, own=own)

    def _hold(self, move: moves.Relocation) -> None:
        why = f"it replaces pod {move.victim.key}, which moves"
        self._hold_places(move.nominee, [move.to], move.priority, move.victim.uid, why)

    def _begun(self, campaign: moves.MovesCampaign, move: moves.Relocation) -> None:
        """The pod leaves. Its place is held afresh from now on."""
        if moves.replacement(move, self._store) is None:
            self._hold(move)
        campaign.moving, campaign.asked, campaign.deadline = move, False, None
        campaign.advice = replace(campaign.advice, moves=campaign.advice.moves[1:])

    def _follow(self, campaign: moves.MovesCampaign, move: moves.Relocation) -> None:
        """See whether what replaces a pod has come, and runs."""
        pod = moves.replacement(move, self._store)
        if pod is None:
            if why := moves.astray(move, campaign.before, self._store):
                self._abort(campaign, why)
            elif self._store.nominations.get(move.nominee) is None:
                self._abort(campaign, f"nothing replaced pod {move.victim.key} in time")
            return
        if campaign.deadline is None:
            campaign.deadline = self._clock() + self._terms.hold_seconds
        if pod.spec.node_name and pod.status.phase == RUNNING and has_left(move.victim, self._store):
            self._report(PodMoved(move.victim.key, pod.key, pod.spec.node_name, move.to.devices))
            self._means.turns.end(self.purpose)
            self._rest = self._calm_seconds
            campaign.moving = None
            if not campaign.advice.moves:
                self._end()
        elif self._clock() >= campaign.deadline:
            self._abort(campaign, f"pod {pod.key}, which replaces pod {move.victim.key}, does not run")

    def _abort(self, campaign: moves.MovesCampaign, why: str) -> None:
        """Drop the rest of a plan."""
        left = campaign.advice.moves
        concerned = campaign.moving or left[0]
        pods = tuple(one.victim.key for one in left)
        victim = concerned.victim
        self._report(MovesAborted(campaign.advice.goal, victim.key, victim.uid, pods, why))
        self._intake.nominating.drop(concerned.nominee, f"the plan was aborted: {why}")
        self._end()
        self._back_off()

    def _back_off(self) -> None:
        self._rests_until = max(self._rests_until, self._clock() + self._rest)
        self._rest = min(2 * self._rest, max(LONGEST_REST, self._calm_seconds))
        self._calm.again()

    def _end(self) -> None:
        """Carry out no plan any more."""
        self._campaign = None
        self._means.turns.end(self.purpose)
