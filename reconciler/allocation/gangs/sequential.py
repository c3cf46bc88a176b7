"""Places the members of a gang one after another, in their order, domain by domain.

The plain twin of the search: it finds places for simple gangs, and may refuse a gang that a search over all
orders would place. Tiers must be node labels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from reconciler.allocation.alignment import decide
from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.gangs.question import GangGranted, GangQuestion, GangUnsatisfied, Member, Seat
from reconciler.allocation.placement import Placement, refusal_reason
from reconciler.allocation.placement.placing import among
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan, Reason
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot.node_subset import NodeSubset
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.nodes.demand import demand
from reconciler.state.nodes.room import Charge
from reconciler.state.nodes.table import Nodes

Values = tuple[str, ...]
"""A value for each tier that is looked at"""
_NOWHERE = "NoSuitableNode"


class Holds(Protocol):
    """A store, as far as a trial changes it."""

    def snapshot(self) -> Snapshot:
        """The present state."""

    def assume(self, plan: Plan) -> None:
        """Count devices as held."""

    def forget(self, plan: Plan) -> object:
        """Count them as free again."""


class Trial:
    """Places members on a store and on nodes. `undo` takes all of it back."""

    def __init__(self, store: Holds, nodes: Nodes, placement: Placement, *, steps: int) -> None:
        """`store` and `nodes` are as before when everything was undone. `placement` uses `nodes`."""
        self.store = store
        self._nodes = nodes
        self._placement = placement
        self._steps = steps
        self._plans: dict[ObjectKey, Plan] = {}
        self._before: dict[ObjectKey, tuple[Pod, Charge | None]] = {}
        """Placed pods, and how they were charged before"""
        self.steps = 0
        """Devices that were tried"""

    def place(self, member: Member, domain: frozenset[str] | None, budget: Budget) -> Seat | tuple[str, str]:
        """A seat on one of these nodes, which is taken until undone; or a reason and a message."""
        snapshot, pod = self.store.snapshot(), member.pod
        held = [
            *member.held,
            *(_holding(c, self._plans[c.key]) for c in member.claims if c.key in self._plans),
        ]
        todo = tuple(claim for claim in member.claims if claim.key not in self._plans)
        try:
            choice = self._placement.for_pod(pod, held, snapshot)
        except Rejected as exc:
            return refusal_reason(exc), str(exc)
        nodes = choice.nodes
        if domain is not None:
            inside = among(domain, snapshot.topology)
            nodes = inside if nodes is None else NodeSubset(nodes.order, nodes.mask & inside.mask)
        if todo:
            answer = decide(todo, snapshot, nodes=nodes, steps=self._steps, budget=budget)
            self.steps += answer.steps
            if not isinstance(answer, Granted):
                left_out = self._placement.left_out(pod, held, snapshot)
                return str(answer.reason), "; ".join(filter(None, [answer.message, left_out]))
            plans, node = answer.plans, answer.node
        else:
            plans, node = (), ""
        if not node:  # no claim binds it to a node
            names = snapshot.topology.order if nodes is None else tuple(nodes)
            if not names:
                return _NOWHERE, self._placement.left_out(pod, held, snapshot)
            node = names[0]
        for plan in plans:
            self.store.assume(plan)
            self._plans[plan.claim] = plan
        self._before.setdefault(pod.key, (pod, self._nodes.room.charged(pod.key)))
        self._nodes.host(pod.key, pod, node, demand(pod))
        return Seat(pod.key, node, plans)

    def undo(self) -> None:
        """Take everything back."""
        for plan in self._plans.values():
            self.store.forget(plan)
        for key, (pod, charge) in self._before.items():
            if charge is None:
                self._nodes.host(key, None)
            else:
                self._nodes.host(key, pod, charge.node, charge.amounts)
        self._plans.clear()
        self._before.clear()


def decide_gang(
    question: GangQuestion, trial: Trial, *, steps: int, budget: Budget = UNLIMITED
) -> GangGranted | GangUnsatisfied:
    """Places for all members that fit, at least the minimum. Stops after `steps` tried devices."""
    labels = {name: info.labels for name, info in trial.store.snapshot().topology.nodes.items()}
    for tier in question.tiers:
        if tier.required and not any(tier.key in of for of in labels.values()):
            return GangUnsatisfied(_NOWHERE, f"no node has the label {tier.key}, which the gang must share")
    best = GangUnsatisfied(_NOWHERE, "no node")
    for tiers in _relaxed(question.tiers):
        for values in _domains(tiers, labels, question.nodes):
            nodes = (
                frozenset(n for n, of in labels.items() if _values(tiers, of) == values) if tiers else None
            )
            answer = _inside(question, trial, nodes, budget)
            trial.undo()
            if isinstance(answer, GangGranted):
                domain = tuple(zip(tiers, values, strict=True))
                return GangGranted(answer.seats, answer.left_out, domain, trial.steps)
            if answer.fits > best.fits or best.message == "no node":
                best = answer
            if trial.steps >= steps:
                return GangUnsatisfied(Reason.GAVE_UP, f"gave up after {trial.steps} steps", best.fits)
    return best


def _inside(
    question: GangQuestion, trial: Trial, nodes: frozenset[str] | None, budget: Budget
) -> GangGranted | GangUnsatisfied:
    seats: list[Seat] = []
    out: list[ObjectKey] = []
    why = ("", "")
    for member in question.members:
        found = trial.place(member, nodes, budget)
        if isinstance(found, Seat):
            seats.append(found)
        else:
            out.append(member.pod.key)
            why = why if why[0] else found
    if len(seats) >= question.least:
        return GangGranted(tuple(seats), tuple(out))
    reason, text = why
    return GangUnsatisfied(
        reason, f"{len(seats)} of {question.least} pods fit together; {out[0]}: {text}", len(seats)
    )


def _relaxed(tiers: Sequence[Tier]) -> Iterator[tuple[Tier, ...]]:
    """All tiers, then without the tightest preferred one, and so on; in the end the required ones."""
    left = list(tiers)
    yield tuple(left)
    for tier in tiers:
        if not tier.required:
            left.remove(tier)
            yield tuple(left)


def _domains(
    tiers: Sequence[Tier], labels: Mapping[str, Mapping[str, str]], nodes: Iterable[str]
) -> list[Values]:
    """The combinations of values that occur, or the one that members with a place have."""
    fixed = {_values(tiers, labels[name]) for name in nodes if name in labels}
    found = fixed or {_values(tiers, of) for of in labels.values()}
    if len(fixed) > 1:  # they are in different domains already
        return []
    return sorted(values for values in found if None not in values)  # type: ignore[misc]


def _values(tiers: Sequence[Tier], labels: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(labels.get(tier.key) for tier in tiers)


def _holding(claim: ResourceClaim, plan: Plan) -> ResourceClaim:
    status = claim.status.model_copy(update={"allocation": plan.allocation})
    return claim.model_copy(update={"status": status})
