"""The nodes on which a pod, or a claim without a pod, may be allocated: kube-scheduler can use them too.

`filters.py` has the tests; pods that are nominated to nodes keep their places (`other_pods.py`).
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.domains import Counter, Even, Near
from kernels.matching import Kind
from kernels.types import Amounts, Mask
from reconciler.allocation.dra.charging import Charging
from reconciler.allocation.placement import other_pods
from reconciler.allocation.placement.device_room import backed_resources, charging_of, share_of_held
from reconciler.allocation.placement.filters import require_objects, tests_of
from reconciler.allocation.placement.order import pod_preferences
from reconciler.allocation.placement.pod_tests import Counters, PodQuestion, Test, nodes_passing
from reconciler.allocation.placement.together import Together, attach_room
from reconciler.allocation.placement.volumes import volume_supply
from reconciler.allocation.policies.names import Weighing
from reconciler.allocation.policies.policy import UNKNOWN_CORES, PodRoom
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan, Reason
from reconciler.api.objects.selectors import NodeSelector
from reconciler.errors import Rejected, Unlisted, shortened
from reconciler.state.caches import derived
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import NodeSubset, Snapshot, Topology
from reconciler.state.nodes.room import CPU, PODS, demand
from reconciler.state.nodes.table import Nodes

NAMED = 3
"""At most so many for whom room is held are named in a reason"""
_OF_ONE_NODE = {
    "": "there is no Node object",
    "NodeAffinity": "outside node selector or affinity of the pod",
    "TaintToleration": "a taint that the pod does not tolerate",
}


class NodeChoice(Struct, frozen=True):
    """The candidate nodes, in the order of `Topology.order`."""

    nodes: NodeSubset | None
    """None for all nodes"""
    crowded: bool = False
    """Whether a node is left out only because of other pods"""
    awaits_pods: bool = False
    """Whether pods that arrive may change that, too: by affinity or spread"""


class Placement:
    """Decides which nodes may be used. Raises Rejected for an affinity or selector that cannot be parsed."""

    def __init__(self, nodes: Nodes, *, supposed: bool) -> None:
        """`supposed` says whether nodes without a Node object, which only slices name, may be used.

        Offline they may: the input may lack Node objects. On a cluster they may not: such a node is deleted
        or not registered yet.
        """
        self._nodes = nodes
        self._supposed = supposed

    def for_claim(self, snapshot: Snapshot) -> NodeChoice:
        """For a claim without a pod: the nodes that are ready and not cordoned.

        Other taints are ignored: the tolerations of the pods that will use the claim are unknown.
        """
        return NodeChoice(self._usable(self._nodes.open(snapshot.topology), snapshot.topology))

    def for_pod(
        self,
        pod: Pod,
        held: Iterable[ResourceClaim],
        snapshot: Snapshot,
        *,
        offered: frozenset[str] = frozenset(),
    ) -> NodeChoice:
        """The nodes on which a pod can run and use its allocated claims; for a bound pod, its node.

        `held` are the allocated claims of the pod. `offered` are resources that a node has although its Node
        object does not list them.
        """
        if pod.spec.node_name:
            return NodeChoice(self.only(pod.spec.node_name, snapshot))
        return self.before_binding(pod, held, snapshot, offered=offered)

    def require_objects(self, pod: Pod, snapshot: Snapshot) -> None:
        """Raise Unlisted if the tests of a pod need objects that are not listed; they are wanted then."""
        require_objects(self._question(pod, (), snapshot, frozenset()))

    def before_binding(
        self,
        pod: Pod,
        held: Iterable[ResourceClaim],
        snapshot: Snapshot,
        *,
        offered: frozenset[str] = frozenset(),
        partners: Collection[ObjectKey] = (),
    ) -> NodeChoice:
        """Like `for_pod`, as if the pod were not bound. Raises Unlisted if objects must be listed first.

        `partners` are pods that are placed together with it.
        """
        question = self._question(pod, held, snapshot, offered, partners)
        require_objects(question)
        nodes, order = self._nodes, snapshot.topology.order
        suiting = fitting = nodes.every()
        arrivals = False
        for test in tests_of(question):
            found = nodes_passing(test, question.counters)
            fitting = fitting & found
            if not test.by_pods:
                suiting = suiting & found
            elif isinstance(test.passed, Near | Even):
                arrivals = True
        if reserved := self._nominated(question):
            fitting = fitting & ~other_pods.beside_nominated(question, reserved)
        suiting, fitting = nodes.in_order(suiting, order), nodes.in_order(fitting, order)
        crowded = bool((suiting != fitting).any())
        return NodeChoice(
            None if fitting.all() else NodeSubset(order, fitting), crowded, crowded and arrivals
        )

    def likeness(self, pod: Pod) -> other_pods.Likeness:
        """Tells which pods may run on the same nodes as this one, all without allocated claims."""
        return other_pods.Likeness(pod, self._nodes.residents)

    def copies(self, pod: Pod, snapshot: Snapshot) -> Amounts | None:
        """(nodes,) how many more copies of a placed pod each node takes at most, in the order of the
        topology; None if copies must be placed one by one. Says nothing of nodes that do not suit the pod.
        """
        question = self._question(pod, (), snapshot, frozenset())
        found = None if self._nominated(question) else other_pods.room_for_copies(question)
        return None if found is None else self._nodes.in_order(found, snapshot.topology.order)

    def room(self, pod: Pod, snapshot: Snapshot, policies: Policies) -> PodRoom | None:
        """What policies may know of a pod: the CPU that it needs and that nodes have without it, and what it
        prefers, if that counts. None if neither matters.
        """
        preferred = None
        if policies.weighing is not Weighing.OFF:
            preferred = pod_preferences(pod, self._nodes, snapshot.topology.order)
        if preferred is None and not policies.looks_at_pods:
            return None
        if preferred is not None:
            preferred = replace(
                preferred,
                first=policies.weighing is Weighing.FIRST,
                with_first_fit=policies.preferences is not None,
            )
        _, free_of = self._nodes.room.by_name((CPU,), but=(pod.key,))
        free = np.clip(free_of[CPU], 0, UNKNOWN_CORES)
        free = self._nodes.in_order(free, snapshot.topology.order)
        return PodRoom(demand(pod).get(CPU, 0), free, preferred)

    def charging(self, pod: Pod, held: Iterable[ResourceClaim], snapshot: Snapshot) -> Charging | None:
        """The room of nodes for a pod beside what devices take of it; see `charging_of`."""
        return charging_of(pod, held, snapshot, self._nodes)

    def release(self, pod: Pod, held: Iterable[ResourceClaim], snapshot: Snapshot) -> other_pods.Release:
        """What a gated pod with all its claims needs before its gate can be removed. Raises as
        `before_binding`.
        """
        question = self._question(pod, held, snapshot, frozenset())
        require_objects(question)
        reserved = self._nominated(question)
        kept = other_pods.beside_nominated(question, reserved) if reserved else None
        return other_pods.release_of(question, kept, snapshot.topology.order)

    def together(
        self,
        pods: Sequence[tuple[Pod, Iterable[ResourceClaim], tuple[int, ...]]],
        snapshot: Snapshot,
    ) -> Together | None:
        """The test whether pods fit together; each with its allocated claims, and the positions of those to
        be decided. Raises as `before_binding` does.

        A pod other than the first that suits no node, whatever other pods do, does not count: no device
        could serve it. None if the first is the only one that counts.
        """
        order = snapshot.topology.order
        own = (key for pod, _, _ in pods for key in self._nodes.nominated.charges_of_pod(pod))
        counters = Counters(self._nodes, (*(pod.key for pod, _, _ in pods), *own))
        room, waived = self._nodes.room, frozenset[str]()
        found: list[tuple[Kind, tuple[int, ...], Pod]] = []
        for pod, held, claims in pods:
            fellows = tuple(other for other, _, _ in pods if other is not pod)
            question = replace(
                self._question(pod, held, snapshot, frozenset()), counters=counters, fellows=fellows
            )
            require_objects(question)
            waived |= question.waived
            allowed, suiting, rules = self._nodes.every(), self._nodes.every(), []
            for test in tests_of(question):
                if isinstance(test.passed, np.ndarray):
                    allowed = allowed & test.passed
                    suiting = suiting if test.by_pods else suiting & test.passed
                else:
                    rules.append(test.passed)
            if found and not self._nodes.in_order(suiting, order).any():
                continue
            if reserved := self._nominated(question):
                allowed = allowed & ~other_pods.beside_nominated(question, reserved)
            allowed = self._nodes.in_order(allowed, order)
            found.append((Kind(1, allowed, room.vector(question.wanted), tuple(rules)), claims, pod))
        if len(found) == 1:
            return None
        rows = self._nodes.rows(order)
        ordered = [
            Counter(one.codes[rows], one.counts, None if one.counted is None else one.counted[rows])
            for one in counters.made
        ]
        attaching = attach_room(self._nodes, [pod for _, _, pod in found])
        first = len(ordered)
        ordered += attaching.counters(rows)
        volumes = volume_supply(self._nodes, [pod for _, _, pod in found], order)
        whole = []
        for kind, claims, pod in found:
            complete = dataclasses.replace(
                kind,
                wanted=np.concatenate([kind.wanted, attaching.wanted(pod)]),
                rules=(*kind.rules, *attaching.rules(pod, first)),
                adds=(*counters.adds(pod), *attaching.adds(pod, first)),
                needs=volumes.needs.get(pod.key, ()),
            )
            whole.append((complete, claims))
        free = np.concatenate([room.free(waived, but=counters.but), attaching.free])[:, rows]
        return Together([pod.key for _, _, pod in found], whole, ordered, free, order, volumes.supply)

    def reduced(self, nodes: NodeSubset | None, together: Together, snapshot: Snapshot) -> NodeSubset | None:
        """The nodes on which all pods may fit, if no device reaches several nodes; else all of `nodes`."""
        if not _local(snapshot.fleet):
            return nodes
        found = together.on_one_node()
        return NodeSubset(snapshot.topology.order, found if nodes is None else nodes.mask & found)

    def reach(self, plan: Plan, snapshot: Snapshot) -> Mask:
        """(nodes,) the nodes that a plan's allocation allows."""
        selector = plan.allocation.node_selector
        return self._nodes.in_order(
            self._nodes.matching([] if selector is None else [selector]), snapshot.topology.order
        )

    def if_others_come(self, pod: Pod, held: Iterable[ResourceClaim], snapshot: Snapshot) -> NodeSubset:
        """The nodes that `before_binding` may allow once more pods are placed: by affinity, or by spread."""
        return self._passing(
            pod, held, snapshot, lambda test: isinstance(test.passed, np.ndarray) or test.passed.tightens
        )

    def whatever_runs(self, pod: Pod, held: Iterable[ResourceClaim], snapshot: Snapshot) -> NodeSubset:
        """The nodes that suit a pod whatever other pods do. Raises as `before_binding` does."""
        return self._passing(pod, held, snapshot, lambda test: not test.by_pods)

    def _passing(
        self,
        pod: Pod,
        held: Iterable[ResourceClaim],
        snapshot: Snapshot,
        counts: Callable[[Test], bool],
    ) -> NodeSubset:
        """The nodes that pass the tests that count."""
        question = self._question(pod, held, snapshot, frozenset())
        require_objects(question)
        found = self._nodes.every()
        for test in filter(counts, tests_of(question)):
            found = found & nodes_passing(test, question.counters)
        return NodeSubset(snapshot.topology.order, self._nodes.in_order(found, snapshot.topology.order))

    def only(self, name: str, snapshot: Snapshot) -> NodeSubset:
        """One node, or an empty subset if there is no such node."""
        found = self._usable(self._nodes.only(name, snapshot.topology), snapshot.topology)
        assert found is not None
        return found

    def barred(self, snapshot: Snapshot) -> str:
        """Why a claim without a pod has no node; empty if it has one, or there is none at all."""
        topology = snapshot.topology
        usable = self._nodes.open(topology)
        if usable is None or len(usable) or not topology.order:
            return ""
        return f"0 of {len(topology.order)} nodes are ready and not cordoned"

    def left_out(
        self,
        pod: Pod,
        held: Iterable[ResourceClaim],
        snapshot: Snapshot,
        *,
        offered: frozenset[str] = frozenset(),
    ) -> str:
        """Why nodes are left out for a pod. Each node counts once, under its first reason.

        Similar to kube-scheduler: `2 of 5 nodes suit the pod: 1 Insufficient cpu, 2 with untolerated taint`.
        If no node is left, also what helps. Empty if no node is left out.
        """
        if (bound := pod.spec.node_name) != "":
            exists = len(self.only(bound, snapshot))
            return f"the pod is bound to node {bound}{'' if exists else ', which does not exist'}"
        order = snapshot.topology.order
        left = np.ones(len(order), dtype=np.bool_)
        reasons: dict[str, int] = {}
        remedies: dict[str, None] = {}
        question = self._question(pod, held, snapshot, offered)
        for test, failed in self._failures(question):
            out = left & self._nodes.in_order(failed, order)
            if out.any():
                reason = test.reason
                if test.resource:
                    reason += self._held_room(test.resource, out, question, order)
                reasons[reason] = reasons.get(reason, 0) + int(np.count_nonzero(out))
                left[out] = False
                if test.remedy:
                    remedies[test.remedy] = None
        if not reasons:
            return ""
        listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        text = f"{int(np.count_nonzero(left))} of {len(left)} nodes suit the pod: {listed}"
        return text if left.any() or not remedies else f"{text}. To help: {'; or '.join(remedies)}"

    def _held_room(self, resource: str, out: Mask, question: PodQuestion, order: tuple[str, ...]) -> str:
        """How many of the nodes that are short of a resource are short because room is held, and for whom."""
        nodes, own = self._nodes, question.counters.but
        if not nodes.nominated:
            return ""
        everything = (*own, *nodes.nominated.charges())
        short = nodes.room.short_of(question.wanted, question.waived, but=everything)
        if resource in short:
            out = out & ~nodes.in_order(short[resource], order)
        places = {order[at] for at in np.flatnonzero(out).tolist()}
        holders = nodes.nominated.holders(resource, places, but=own)
        if not holders:
            return ""
        return f" ({np.count_nonzero(out)} by room held for {shortened(holders, NAMED)})"

    def against(self, pod: Pod, node: str, snapshot: Snapshot) -> list[str]:
        """Why one node does not suit a pod now, with amounts."""
        topology, nodes = snapshot.topology, self._nodes
        if node not in topology.nodes:
            return ["the node is gone"]
        row = topology.order.index(node)
        found, wanted = [], demand(pod)
        said: set[str] = set()
        for test, failed in self._failures(self._question(pod, (), snapshot, frozenset())):
            if test.plugin in said or not nodes.in_order(failed, topology.order)[row]:
                continue  # as kube-scheduler, one reason for each filter; room names every resource
            if not test.resource:
                said.add(test.plugin)
            resource = test.resource
            if resource and resource != PODS:
                own = nodes.room.charged(pod.key)
                left = nodes.room.left(node, resource)
                left += own.amounts.get(resource, 0) if own is not None and own.node == node else 0
                unit = "m" if resource == "cpu" else ""
                found.append(f"{test.reason}: the pod needs {wanted[resource]}{unit}; {left}{unit} is free")
            else:
                found.append(_OF_ONE_NODE.get(test.plugin, test.reason))
        return found

    def _question(
        self,
        pod: Pod,
        held: Iterable[ResourceClaim],
        snapshot: Snapshot,
        offered: frozenset[str],
        partners: Collection[ObjectKey] = (),
    ) -> PodQuestion:
        held = tuple(held)
        share, taken = share_of_held(pod, held, snapshot)
        return PodQuestion(
            pod,
            self._nodes,
            Counters(self._nodes, (pod.key, *self._nodes.nominated.charges_of_pod(pod))),
            held=tuple(selectors_of(held)),
            share=share,
            taken=taken,
            waived=(backed := backed_resources(snapshot, pod)) | offered,
            claimed=tuple(sorted(backed - offered)) if pod.gated else (),
            supposed=self._supposed,
            partners=partners,
        )

    def _failures(self, question: PodQuestion) -> Iterator[tuple[Test, Mask]]:
        """(test, (N,) nodes that fail it), in the order of their reasons."""
        question = replace(question, by_resource=True)
        require_objects(question)
        for test in tests_of(question):
            yield test, ~nodes_passing(test, question.counters)
        if reserved := self._nominated(question):
            yield other_pods.RESERVED, other_pods.beside_nominated(question, reserved)

    def _nominated(self, question: PodQuestion) -> dict[str, list[Pod]]:
        found = self._nodes.residents.nominated(question.pod)
        if not self._nodes.nominated:
            return found
        # Room that we hold counts already, for the same pods.
        return {
            node: apart
            for node, pods in found.items()
            if (apart := [pod for pod in pods if not self._nodes.nominated.charges_of_pod(pod)])
        }

    @property
    def _hidden(self) -> bool:
        """Whether there are nodes that may not be used because they have no Node object."""
        return not self._supposed and bool(self._nodes.supposed)

    def _usable(self, subset: NodeSubset | None, topology: Topology) -> NodeSubset | None:
        if not self._hidden:
            return subset
        described = self._nodes.in_order(self._nodes.described(), topology.order)
        return NodeSubset(topology.order, described if subset is None else subset.mask & described)


@derived
def _local(fleet: Fleet) -> bool:
    """Whether every device belongs to one node."""
    return bool(((fleet.codes["node"] >= 0) | fleet.binds).all())


def refusal_reason(exc: Rejected) -> str:
    """The reason of a pod for which `Placement` raised an error."""
    return exc.reason if isinstance(exc, Unlisted) else Reason.NODE_SELECTOR


def selectors_of(claims: Iterable[ResourceClaim]) -> list[NodeSelector]:
    """The node selectors of allocated claims."""
    found = (claim.allocation.node_selector for claim in claims if claim.allocation is not None)
    return [selector for selector in found if selector is not None]


def among(names: Iterable[str], topology: Topology) -> NodeSubset:
    """Nodes by name, as a subset; unknown names are ignored."""
    return NodeSubset(topology.order, np.isin(np.array(topology.order), list(names)))
