"""The state that a question starts from, what is wanted on it, and one attempt to place that.

All questions share it: make room, drain, defragment, capacity, fit, whatif. They change store and nodes in
trials only, which undo it. What is wanted is placed as the reconciler places it: first which nodes it may
use, then which devices.
"""

import dataclasses
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.types import Rows
from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import STEPS, UNLIMITED, Budget
from reconciler.allocation.dra.node_attempt import only_rows
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, Member
from reconciler.allocation.placement.placing import Placement, refusal_reason
from reconciler.allocation.placement.together import Together
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimStatus
from reconciler.api.objects.core import Node, Pod, PodDisruptionBudget, claims_of
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Granted, Plan, Reason
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import instead
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import NodeSubset
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import NOBODY, Nominee, of_claim, own_of_all
from reconciler.state.pods.device_shares import demand_of
from reconciler.state.pods.groups import PodGroups
from reconciler.state.pods.placed import node_of
from reconciler.state.store import Store
from reconciler.state.trial import Trial


class World(Struct, frozen=True, eq=False):
    """Store, nodes with their pods, PodGroups and budgets."""

    store: Store
    nodes: Nodes
    groups: PodGroups
    budgets: tuple[PodDisruptionBudget, ...] = ()
    supposed: bool = False
    """Whether nodes without a Node object may be used"""
    own: frozenset[Nominee] = NOBODY
    """Those for whom is asked: what is nominated for others is held"""

    def trial(self) -> Trial:
        """A trial on this state."""
        return Trial(self.store, self.nodes, supposed=self.supposed, own=self.own)

    def placement(self) -> Placement:
        """Which nodes may be used."""
        return Placement(self.nodes, supposed=self.supposed)


def world_of(
    objects: Iterable[ApiObject],
    rules: Semantics,
    *,
    supposed: Iterable[Node] = (),
    may_suppose: bool = False,
    on_wanted: Callable[[str], None] | None = None,
) -> World:
    """The state of these objects. `supposed` are nodes that only slices name; `may_suppose` says whether they
    may be used; `on_wanted` is that of `Nodes`.
    """
    store, nodes = Store(rules), Nodes(on_wanted=on_wanted)
    groups = PodGroups(rules.gates)
    budgets: dict[object, PodDisruptionBudget] = {}
    for one in objects:
        change = Changed(type(one).__name__, one)
        store.apply(change)
        nodes.note(change)
        groups.note(change)
        if isinstance(one, PodDisruptionBudget):
            budgets[one.key] = one
    for node in supposed:
        store.apply(Changed("Node", node))
        nodes.suppose(node)
    for pod in store.pods.values():
        nodes.residents.nominate(pod.key, pod if not pod.spec.node_name else None)
        nodes.host(pod.key, pod, node_of(pod, store), demand_of(pod, store))
    return World(store, nodes, groups, tuple(budgets.values()), may_suppose)


def check_nodes(names: Iterable[str], store: Store) -> None:
    """Raise Rejected for a node that does not exist."""
    known = store.snapshot().topology.nodes
    for name in sorted(names):
        if name not in known:
            raise Rejected(f"there is no node {name}{instead(name, list(known), 'nodes')}")


def remove_nodes(names: Collection[str], store: Store, nodes: Nodes) -> None:
    """Remove nodes, with their devices. Raises Rejected for one that does not exist."""
    check_nodes(names, store)
    for name in names:
        removed = Removed("Node", ObjectKey("", name))
        store.apply(removed)
        nodes.note(removed)


class NoFit(NamedTuple):
    """Why it does not fit."""

    reason: str
    """An identifier of `reasons`, often a value of `Reason`"""
    message: str

    @property
    def proven(self) -> bool:
        """Whether it is certain; if not, the search gave up."""
        return self.reason != Reason.GAVE_UP

    def as_json(self) -> dict[str, str]:
        """The field names are stable."""
        return {"reason": str(self.reason), "message": self.message}


class Place(NamedTuple):
    """Where a pod or a claim fits."""

    pod: ObjectKey | None
    """None for a claim without a pod"""
    node: str
    plans: tuple[Plan, ...]
    together: Together | None = None
    """Of an attempt: how the pods fit that share the claims; None if no others do"""


Sharing = tuple[Pod, tuple[ResourceClaim, ...], tuple[int, ...]]
"""Another gated pod that uses some of the claims: with its allocated claims, and the positions of the shared
ones"""


class WantedPod(Struct, frozen=True):
    """The pending claims of one pod, or one claim that no pod uses."""

    claims: tuple[ResourceClaim, ...]
    """Those that need devices; empty for a pod that only needs a node"""
    pod: Pod | None = None
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the pod that are allocated already"""
    sharing: tuple[Sharing, ...] = ()
    """The other gated pods that use any of its claims; positions are those in `claims`, then in `held`"""
    priority: int | None = None
    """Instead of the pod's"""

    @property
    def name(self) -> str:
        """For people: `pod default/a`, `claim default/b`."""
        if self.pod is not None:
            return f"pod {self.pod.key}"
        return ", ".join(f"claim {claim.key}" for claim in self.claims)

    @property
    def own(self) -> frozenset[Nominee]:
        """For whom room may be held that it uses."""
        return own_of_all(self.pods) | frozenset(of_claim(claim.key) for claim in self.claims)

    @property
    def beside(self) -> tuple[Sharing, ...]:
        """The gated pods that share claims which need devices: these have to suit them, too."""
        count = len(self.claims)
        found = ((pod, held, tuple(at for at in shared if at < count)) for pod, held, shared in self.sharing)
        return tuple(one for one in found if one[2])

    @property
    def all_held(self) -> tuple[ResourceClaim, ...]:
        """What it holds, and what the pods hold that share its claims: all of it says where it can run."""
        return (*self.held, *(claim for _, held, _ in self.sharing for claim in held))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods whose priority decides who may leave."""
        return () if self.pod is None else (self.pod, *(pod for pod, _, _ in self.beside))

    def when_free(self, freed: Container[ObjectKey]) -> "WantedPod":
        """The same when some claims are free: those that it held need devices again."""
        if self.pod is None or not any(claim.key in freed for claim in self.all_held):
            return self
        claims, held = _when_free(self.pod, self.claims, self.held, freed)
        keys = [claim.key for claim in (*claims, *held)]
        sharing = []
        for pod, of_pod, _ in self.sharing:
            names = claims_of(pod)
            kept = tuple(claim for claim in of_pod if claim.key not in freed)
            sharing.append((pod, kept, tuple(at for at, key in enumerate(keys) if key in names)))
        return replace(self, claims=claims, held=held, sharing=tuple(sharing))

    def place(
        self,
        trial: Trial,
        *,
        on: str | None = None,
        only: Rows | None = None,
        steps: int = STEPS,
        budget: Budget = UNLIMITED,
    ) -> tuple[Place, ...] | NoFit:
        """Where it fits in a trial, on a node and with devices (n,) if these are given; holds nothing
        afterwards.
        """
        asked = replace(self, sharing=self.beside)
        found = attempt(asked, trial, steps=steps, budget=budget, on=on, only=only)
        if isinstance(found, NoFit):
            return found
        return (found._replace(together=None),)


class WantedGang(Struct, frozen=True):
    """The members of a gang that have no place yet."""

    question: GangQuestion
    priority: int | None = None
    """Instead of that of the members"""

    @property
    def name(self) -> str:
        """For people."""
        return f"gang {self.question.gang}"

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods of the members."""
        return tuple(member.pod for member in self.question.members)

    @property
    def own(self) -> frozenset[Nominee]:
        """For whom room may be held that it uses."""
        return own_of_all(self.pods)

    @property
    def claims(self) -> tuple[ResourceClaim, ...]:
        """The claims of all members that need devices."""
        return tuple(claim for member in self.question.members for claim in member.claims)

    @property
    def held(self) -> tuple[ResourceClaim, ...]:
        """Claims of members that are allocated already."""
        return tuple(claim for member in self.question.members for claim in member.held)

    @property
    def all_held(self) -> tuple[ResourceClaim, ...]:
        """The same: other pods that share them are not considered."""
        return self.held

    def when_free(self, freed: Container[ObjectKey]) -> "WantedGang":
        """The same when some claims are free: those that members held need devices again."""
        if not any(claim.key in freed for claim in self.held):
            return self
        members = tuple(
            Member(one.pod, *_when_free(one.pod, one.claims, one.held, freed))
            for one in self.question.members
        )
        return WantedGang(dataclasses.replace(self.question, members=members), self.priority)

    def place(
        self, trial: Trial, *, on: str | None = None, steps: int = STEPS, budget: Budget = UNLIMITED
    ) -> tuple[Place, ...] | NoFit:
        """Where its members fit in a trial; holds nothing afterwards. A gang has no single node."""
        assert on is None
        mark = trial.mark()
        answer = decide_gang(self.question, trial, steps=steps, budget=budget)
        trial.back_to(mark)
        if isinstance(answer, GangGranted):
            return tuple(Place(seat.pod, seat.node, seat.plans) for seat in answer.seats)
        return NoFit(answer.reason, answer.message)


Wanted = WantedPod | WantedGang


def attempt(
    wanted: WantedPod,
    trial: Trial,
    *,
    steps: int,
    budget: Budget = UNLIMITED,
    policies: Policies | None = None,
    leaves: bool = False,
    on: str | None = None,
    only: Rows | None = None,
    preferred: str | None = None,
) -> Place | NoFit:
    """Place it as the reconciler would, without a trace. Raises Unfinished as `budget` does.

    `policies` are first fit without them. `leaves`: the pod leaves the node to which it is bound. `on` is the
    only node to try, `only` (n,) the only devices. `preferred` is the node of a pod without claims to
    allocate, if it may be used.
    """
    snapshot, placement = trial.snapshot, Placement(trial.nodes, supposed=trial.supposed)
    claims, pod, together = wanted.claims, wanted.pod, None
    own = pod.key if pod is not None else None

    def left_out() -> str:
        return "" if pod is None else placement.left_out(pod, wanted.held, snapshot)

    try:
        if pod is None:
            nodes = placement.for_claim(snapshot).nodes
        else:
            select = placement.before_binding if leaves else placement.for_pod
            nodes = select(pod, wanted.held, snapshot).nodes
            if wanted.sharing and claims:
                first = pod, wanted.held, tuple(range(len(claims)))
                together = placement.together([first, *wanted.sharing], snapshot)
                if together is not None:
                    nodes = placement.reduced(nodes, together, snapshot)
    except Rejected as exc:
        return NoFit(refusal_reason(exc), str(exc))
    if on is not None:
        nodes = _only(nodes, on, snapshot.topology.order)
    if not claims:
        names = snapshot.topology.order if nodes is None else nodes
        node = preferred if preferred is not None and preferred in names else next(iter(names), None)
        if node is not None:
            return Place(own, node, ())
        return NoFit(Reason.NO_NODE, left_out() or "no node suits the pod")
    charging = None if pod is None else placement.charging(pod, wanted.held, snapshot)
    if charging is not None:
        shared = frozenset(at for _, _, positions in wanted.sharing for at in positions)
        charging = replace(charging, shared=shared)
    outcome = decide(
        claims,
        snapshot,
        nodes=nodes,
        steps=steps,
        budget=budget,
        companions=together,
        charging=charging,
        policy=None if policies is None else policies.of(claims, snapshot, budget),
        pod=None if pod is None or policies is None else placement.room(pod, snapshot, policies),
        only=None if only is None else only_rows(claims, only.tolist(), snapshot),
    )
    if isinstance(outcome, Granted):
        return Place(own, outcome.node, outcome.plans, together)
    more = left_out() if on is None else ""
    return NoFit(str(outcome.reason), "; ".join(filter(None, [outcome.message, more])))


def _only(nodes: NodeSubset | None, name: str, order: tuple[str, ...]) -> NodeSubset:
    mask = np.zeros(len(order), dtype=np.bool_)
    if name in order:  # it may be gone since it was named
        at = order.index(name)
        mask[at] = nodes is None or bool(nodes.mask[at])
    return NodeSubset(order, mask)


def unallocated(claim: ResourceClaim) -> ResourceClaim:
    """The claim without its status."""
    return claim.model_copy(update={"status": ResourceClaimStatus()})


def again(claim: ResourceClaim) -> ResourceClaim:
    """A claim like this one, not allocated."""
    metadata = claim.metadata.model_copy(update={"uid": _new_uid(claim)})
    return claim.model_copy(update={"metadata": metadata, "status": ResourceClaimStatus()})


def held_again(claim: ResourceClaim, trial: Trial) -> ResourceClaim | None:
    """A released claim with the place that it has again in a trial; None if it has none."""
    plan = trial.store.assumed(_new_uid(claim))
    if plan is None:
        return None
    return claim.model_copy(update={"status": ResourceClaimStatus(allocation=plan.allocation)})


def _new_uid(claim: ResourceClaim) -> str:
    return f"again {claim.key}"


def _when_free(
    pod: Pod, claims: Sequence[ResourceClaim], held: Sequence[ResourceClaim], freed: Container[ObjectKey]
) -> tuple[tuple[ResourceClaim, ...], tuple[ResourceClaim, ...]]:
    """The claims of a pod that need devices when some are free, in its order, and those still held."""
    released = [again(claim) for claim in held if claim.key in freed]
    needed = sorted([*claims, *released], key=lambda claim: claims_of(pod).index(claim.key))
    return tuple(needed), tuple(claim for claim in held if claim.key not in freed)
