"""What a choice of devices asks of the node for its pods: their room, and nodes for all pods that use the
claims together. Source: NAR-1 to NAR-6, FIT-11.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.dra.state import Choice
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.quantity import NANO, Format, Quantity
from reconciler.state.devices.encoding.vocabulary import NodeUse
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, View
from reconciler.state.nodes.room import CPU, MOST, DeviceShare, beyond_budget, demand
from reconciler.state.pods.device_shares import ClaimUse, UsesOf, share_of

_UNIT = {CPU: NANO // 1000}
"""Billionths in the unit of a resource, where that is not a whole"""


def uses_in(fleet: Fleet) -> UsesOf:
    """How the devices of a fleet use resources of their nodes."""

    def uses_of(device: DeviceID) -> tuple[NodeUse, ...]:
        codes = [int(fleet.codes["mapped"][row]) for row in fleet.rows_of(device)[-1:]]
        return fleet.vocabulary.mapped.values[codes[0]] if codes and codes[0] >= 0 else ()

    return uses_of


class Charging(Struct, frozen=True, eq=False):
    """A pod, and what it can have of nodes. Nothing of it changes: a search in a thread may use it."""

    pod: Pod
    held: Mapping[ObjectKey, ClaimUse]
    """What its allocated claims take"""
    offered: Mapping[str, Amounts]
    """Resource that devices use -> (nodes,) what nodes offer, in the order of the topology"""
    free: Mapping[str, Amounts]
    """Resource -> (nodes,) what is left for the pod"""
    shared: frozenset[int] = frozenset()
    """Positions of the claims of the decision that other pods use, too"""


class NodeCharging:
    """The test of choices on one node."""

    def __init__(self, charging: Charging, parsed: ParsedClaims, view: View, snapshot: Snapshot) -> None:
        self._of, self._claims = charging, parsed.claims
        self._vocabulary = view.fleet.vocabulary
        self._at = snapshot.topology.order.index(view.node.name)
        self.codes: Codes = view.of(view.fleet.codes["mapped"])
        """(n,) how each device uses resources of the node; -1 if it does not"""
        self._rows, self._fleet = view.rows, view.fleet
        self.refusal = ""
        """Why the last choice was refused; empty if none was"""

    def accepts(self, chosen: Sequence[Choice]) -> bool:
        """Whether the pod fits with the chosen devices."""
        uses = [ClaimUse.empty() for _ in self._claims]
        for _, candidates, at in chosen:
            if not self._add(uses[candidates.option.claim], candidates, at):
                return False
        for at in self._of.shared:
            if uses[at].is_mapped:
                self.refusal = (
                    f"devices for claim {self._claims[at].key} stand for resources of the node, "
                    "so only one pod may use the claim"
                )
                return False
        named = {claim.key: use for claim, use in zip(self._claims, uses, strict=True) if use}
        share = share_of(self._of.pod, {**self._of.held, **named}) if named else None
        return share is None or self._fits(share)

    def is_impossible(self, by_slot: Sequence[Sequence[Candidates]]) -> bool:
        """Whether the pod fits with no choice, because even the devices that take least are too much."""
        if any(candidates.static.fails for of_slot in by_slot for candidates in of_slot):
            return False  # an error would come first
        fixed = dict[str, int]()
        for of_slot in by_slot:
            least = [self._least(candidates) for candidates in of_slot]
            for resource in self._of.free:
                fixed[resource] = fixed.get(resource, 0) + min(one.get(resource, 0) for one in least)
        held = share_of(self._of.pod, self._of.held) or DeviceShare({}, {})
        for resource, nanos in held.fixed.items():
            fixed[resource] = fixed.get(resource, 0) + nanos
        return not self._fits(DeviceShare(fixed, held.per_container))

    def _least(self, candidates: Candidates) -> dict[str, int]:
        """The least that the devices for a request take, whatever containers refer to it."""
        mask = candidates.available
        if candidates.listed is not None:
            mask = np.zeros_like(mask)
            mask[candidates.listed] = True
        places = np.flatnonzero(mask)
        kinds = self.codes[places].astype(np.int64) << 32 | (candidates.static.shape[places] + 1)
        amounts = {resource: np.zeros(len(places), dtype=np.int64) for resource in self._of.free}
        for kind in distinct(kinds).tolist():
            alike, use = kinds == kind, ClaimUse.empty()
            self._add(use, candidates, int(places[alike][0]))
            for resource, taken in amounts.items():
                nanos = use.once.get(resource, 0) + use.per_pod.get(resource, 0)
                taken[alike] = min(nanos // _UNIT.get(resource, NANO), MOST)
        return {
            resource: int(np.sort(taken)[: candidates.count].sum(dtype=object)) * _UNIT.get(resource, NANO)
            for resource, taken in amounts.items()
        }

    def _add(self, use: ClaimUse, candidates: Candidates, at: int) -> bool:
        """Add a device; False for one with which kube-scheduler refuses every pod."""
        code = int(self.codes[at])
        if code < 0:
            return True
        uses, device = self._vocabulary.mapped.values[code], self._fleet.id_of(int(self._rows[at]))
        taken = candidates.takes(at) if self._fleet.shared[self._rows[at]] else None
        if taken is None and any(one.capacity is not None for one in uses):
            self.refusal = (
                f"device {device} maps a capacity to a resource of the node, but does not allow multiple "
                "allocations; kube-scheduler refuses pods with it"
            )
            return False
        use.add(uses, device.driver, {} if taken is None else taken.taken)
        return True

    def _fits(self, share: DeviceShare) -> bool:
        pod = self._of.pod
        wanted = demand(pod, share)
        for resource, free in self._of.free.items():
            needed = wanted.get(resource, 0)
            if needed > max(int(free[self._at]), 0):
                own = demand(pod).get(resource, 0)
                self.refusal = "".join(self._described(resource, needed, own))
                return False
        if (resource := beyond_budget(pod, share)) != "":
            self.refusal = f"the pod as a whole requests less {resource} than its containers and devices need"
            return False
        return True

    def _described(self, resource: str, wanted: int, own: int) -> Iterator[str]:
        """`8 CPUs, 4 requested, 6 by devices`."""
        offered, free = int(self._of.offered[resource][self._at]), int(self._of.free[resource][self._at])
        yield f"{_spelled(resource, offered)}{' CPUs' if resource == CPU else f' of {resource}'}, "
        yield f"{_spelled(resource, offered - free)} requested, "
        yield f"{_spelled(resource, wanted - own)} by devices"
        if own:
            yield f", {_spelled(resource, own)} by the pod itself"


def _spelled(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount / 1000:g}"
    return str(Quantity(amount * NANO, Format.BINARY))


_HERE, _EVERYWHERE = -2, -1
"""Reach of a device: only its node, all nodes; otherwise the code of its selector"""


class Companions(Protocol):
    """The pods."""

    def fit(self, reach: Sequence[Mask], spend: Callable[[], object] = ...) -> bool:
        """Whether all pods fit on nodes that reach their claims. `spend` is called at every step.

        reach (nodes,) for each claim of the decision, in the order of `Topology.order`
        """

    def refusal(self) -> str:
        """Why a decision is refused that does not serve all of them."""


class Reach:
    """The nodes that reach the devices of one node's view. The answers are those of `companions`."""

    def __init__(
        self, companions: Companions, claims: int, view: View, snapshot: Snapshot, budget: Budget
    ) -> None:
        """`claims` is the number of claims of the decision. Methods raise what `budget` raises."""
        self._companions = companions
        self._budget = budget
        self._snapshot = snapshot
        self._rows: Rows = view.rows
        fleet = snapshot.fleet
        here = (fleet.codes["node"][view.rows] >= 0) | fleet.binds[view.rows]
        self.codes: Codes = np.where(here, _HERE, fleet.codes["selector"][view.rows]).astype(np.int32)
        """(n,) the reach of each device"""
        self._everywhere = np.ones(len(snapshot.topology.order), dtype=np.bool_)
        self._claims = claims
        self._masks: dict[int, Mask] = {_EVERYWHERE: self._everywhere, _HERE: self._only(view.node.name)}
        self._verdicts: dict[tuple[int, int], bool] = {}

    def usable(self, candidates: Candidates) -> Mask:
        """(n,) devices that may be chosen: with any of them alone, all pods fit."""
        claim, found = candidates.option.claim, np.zeros(len(self._rows), dtype=np.bool_)
        for code in distinct(self.codes[candidates.available]).tolist():
            if (claim, code) not in self._verdicts:
                reach = [self._everywhere] * self._claims
                reach[claim] = self._mask(code)
                self._verdicts[claim, code] = self._companions.fit(reach, self._budget.spend)
            if self._verdicts[claim, code]:
                found |= self.codes == code
        return found

    def accepts(self, chosen: Sequence[Choice]) -> bool:
        """Whether all pods fit with the chosen devices together."""
        reach = [self._everywhere] * self._claims
        for choice in chosen:
            claim = choice.candidates.option.claim
            reach[claim] = reach[claim] & self._mask(int(self.codes[choice.at]))
        return self._companions.fit(reach, self._budget.spend)

    def _mask(self, code: int) -> Mask:
        if code not in self._masks:
            topology = self._snapshot.topology
            places, selectors = topology.selected.pairs
            found = np.zeros(len(topology.order), dtype=np.bool_)
            found[places[selectors == code]] = True
            self._masks[code] = found
        return self._masks[code]

    def _only(self, name: str) -> Mask:
        found = np.zeros(len(self._everywhere), dtype=np.bool_)
        found[self._snapshot.topology.order.index(name)] = True
        return found
