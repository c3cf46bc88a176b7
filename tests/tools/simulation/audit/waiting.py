"""What is left undone once all is quiet: claims that could be met, pods that could go, claims in the way."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.tools.simulation.audit.auditor import Auditor
from tests.tools.simulation.audit.claims import (
    allocation,
    claims_of,
    has_finalizer,
    holds,
    is_deleting,
    is_managed,
    selected,
)
from tests.tools.simulation.audit.fitting import Fitting
from tests.tools.simulation.gangs import Gangs

GATE = "dra-reconciler.io/allocation"


class Undone:
    """The server as it is now, with everything that somebody may still be waiting for."""

    def __init__(
        self,
        auditor: Auditor,
        pods: list[Any],
        nodes: list[Any],
        classes: frozenset[str],
        owned: frozenset[str],
        gangs: Gangs | None = None,
    ) -> None:
        self._auditor = auditor
        self._gangs = gangs
        self._claims = auditor.claims
        self._pods = pods
        self._owned = owned
        self._zones: Mapping[str, str] = auditor.history.zones
        self._open = frozenset(
            node["metadata"]["name"] for node in nodes if not node.get("spec", {}).get("unschedulable")
        )
        there = {name: found for name, found in auditor.classes.items() if name in classes}
        self._there = there
        self._fitting = Fitting(auditor.history, auditor.held(), there, owned)

    def all(self) -> Iterator[str]:
        """Everything that is undone, in words."""
        for key, claim in self._claims.items():
            yield from self._claim(key, claim)
        for pod in self._pods:
            if self._gangs is None or not (_is_gated(pod) and self._gangs.is_member(pod)):
                yield from self._pod(pod)
        if self._gangs is not None:
            yield from self._gangs.undone(self._fitting, self._open)

    def _claim(self, key: str, claim: Any) -> Iterator[str]:
        if is_deleting(claim):
            ours = is_managed(claim) or (
                holds(claim) and all(hold.pool[0] in self._owned for hold in holds(claim))
            )
            if ours and has_finalizer(claim) and not claim.get("status", {}).get("reservedFor"):
                yield f"claim {key} is being deleted, nobody uses it, and it is not let go"
            return
        if allocation(claim) or not is_managed(claim):
            return
        if any(_is_live(pod) and key in claims_of(pod) for pod in self._pods):
            return
        if (node := self._fitting.fits([claim], self._open)) is not None:
            yield f"claim {key} waits, and would fit on {node}"

    def _pod(self, pod: Any) -> Iterator[str]:
        """A gated pod, or one whose claims lost their devices while it waits for a node."""
        name = pod["metadata"]["name"]
        gated = _is_gated(pod)
        keys = claims_of(pod)
        if not _is_live(pod) or None in keys or not all(key in self._claims for key in keys):
            return
        claims = [self._claims[key] for key in keys if key is not None]
        if any(is_deleting(claim) or self._is_left(claim) for claim in claims):
            return
        todo = [c for c in claims if not allocation(c) and (gated or is_managed(c))]
        if not todo:
            if gated and not self._waits_for_another(pod, claims):
                yield f"pod {name} is gated, and all its claims are allocated"
            return
        nodes = self._nodes(pod)
        held = [claim for claim in claims if allocation(claim)]
        for claim in held:
            nodes &= selected(claim, self._zones)
        if not pod["spec"].get("nodeName"):
            nodes &= self._open
        if gated:
            nodes &= self._nodes_of_companions(pod, todo)
        if (node := self._fitting.fits(todo, nodes)) is not None:
            yield f"pod {name} waits for {[c['metadata']['name'] for c in todo]}, which would fit on {node}"
        elif gated and (stuck := [claim for claim in held if self._is_its_own(claim, pod)]):
            yield from self._afresh(pod, todo, held, stuck)

    def _waits_for_another(self, pod: Any, claims: list[Any]) -> bool:
        """Whether no node of its devices suits a pod, and they cannot be given back: another pod, which
        shares a claim, has lost its gate.
        """
        nodes = self._nodes(pod) & self._open
        for claim in claims:
            nodes &= selected(claim, self._zones)
        keys = {*claims_of(pod)}
        return not nodes and any(
            not _is_gated(other) and _is_live(other) and keys.intersection(claims_of(other))
            for other in self._pods
            if other is not pod
        )

    def _nodes_of_companions(self, pod: Any, todo: list[Any]) -> frozenset[str]:
        """Nodes of all gated pods that share a claim: one for which no node suits them all may wait."""
        keys = {f"default/{claim['metadata']['name']}" for claim in todo}
        found = frozenset(self._zones)
        for other in self._pods:
            shared = keys.intersection(key for key in claims_of(other) if key is not None)
            if other is pod or not shared or not _is_gated(other) or not _is_live(other):
                continue
            nodes = self._nodes(other) & self._open
            for key in claims_of(other):
                if key in self._claims and allocation(self._claims[key]):
                    nodes &= selected(self._claims[key], self._zones)
            found &= nodes or found  # one that no node suits does not count
        return found

    def _afresh(self, pod: Any, todo: list[Any], held: list[Any], stuck: list[Any]) -> Iterator[str]:
        """Half of a joint decision is no reason to wait if all of it would fit elsewhere."""
        keys = {f"default/{claim['metadata']['name']}" for claim in stuck}
        rest = [one for one in self._auditor.held() if one.claim not in keys]
        fitting = Fitting(self._auditor.history, rest, self._there, self._owned)
        nodes = self._nodes(pod) & self._open & self._nodes_of_companions(pod, [*todo, *stuck])
        for claim in held:
            if claim not in stuck:
                nodes &= selected(claim, self._zones)
        if (node := fitting.fits([*todo, *stuck], nodes)) is not None:
            yield f"pod {pod['metadata']['name']} would fit on {node} if {sorted(keys)} were decided afresh"

    def _is_left(self, claim: Any) -> bool:
        """Whether somebody took our allocation back from a pod that was out of our hands, and still is.

        kube-scheduler does so where a pod fits nowhere, and decides itself. A pod that named the claim then,
        and is not gated now, had lost its gate before we could know.
        """
        named = self._auditor.cleared.get(claim["metadata"]["uid"], frozenset())
        key = f"default/{claim['metadata']['name']}"
        return not allocation(claim) and any(
            pod["metadata"]["uid"] in named and key in claims_of(pod)
            for pod in self._pods
            if _is_live(pod) and not _is_gated(pod)
        )

    def _nodes(self, pod: Any) -> frozenset[str]:
        zone = pod["spec"].get("nodeSelector", {}).get("zone")
        bound = pod["spec"].get("nodeName")
        there = frozenset(self._zones) & (frozenset([bound]) if bound else self._open)
        return frozenset(node for node in there if zone in (None, self._zones[node]))

    def _is_its_own(self, claim: Any, pod: Any) -> bool:
        owners = {owner["uid"] for owner in claim["metadata"].get("ownerReferences", ())}
        return pod["metadata"]["uid"] in owners and not claim.get("status", {}).get("reservedFor")


def _is_gated(pod: Any) -> bool:
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ()))


def _is_live(pod: Any) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and "deletionTimestamp" not in pod["metadata"]
