"""Places units one after another in a trial, as the reconciler would; the answers, and those as JSON."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangQuestion, GangUnsatisfied, Member, Seat
from reconciler.allocation.placement.placing import Placement
from reconciler.allocation.pod_devices import PodDevices, PodRefusal
from reconciler.allocation.policies.selection import Policies
from reconciler.analysis.whatif.question import Gang, Unit
from reconciler.analysis.world import NoFit, Place, Sharing, WantedPod, attempt
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan, Reason
from reconciler.errors import Rejected
from reconciler.state.pods.device_shares import demand_of
from reconciler.state.pods.groups import INCOMPLETE, NoRules
from reconciler.state.trial import Trial

DeviceChoice = tuple[ObjectKey, str, DeviceID]
"""Claim, request and allocated device; of a plugin's devices the pod and the type"""


class Limit(StrEnum):
    """Why no more copies were tried."""

    ASKED = "asked"
    """The requested number of copies is placed"""
    FULL = "full"
    """The next copy does not fit"""
    GAVE_UP = "gave-up"
    """The search for the next copy gave up: it is unknown whether it fits"""
    BOUND = "bound"
    """The maximum number of copies is placed; more may fit"""
    NOTHING = "nothing"
    """The scenario has no units"""


class Placed(Struct, frozen=True):
    """A unit that fits, or a pod of a gang that fits."""

    unit: str
    copy: int
    """From 1"""
    node: str
    """Empty if no node is needed"""
    devices: tuple[DeviceChoice, ...]


class PlacedGang(Struct, frozen=True):
    """A gang of which enough pods fit together."""

    unit: str
    copy: int
    """From 1"""
    seats: tuple[Placed, ...]
    """Its pods with a place"""
    left_out: tuple[str, ...]
    """Its pods without one, as units"""
    domain: tuple[tuple[str, str], ...]
    """Topology key -> value that all places share"""


class Refused(Struct, frozen=True):
    """A unit that does not fit."""

    unit: str
    copy: int
    reason: str
    """A value of `Reason`"""
    message: str


class Lost(Struct, frozen=True):
    """Claims that lose their devices on a drained node, and where they fit instead."""

    claims: tuple[ObjectKey, ...]
    """The claims of one pod are allocated together; empty for a pod with devices of a plugin"""
    pod: ObjectKey | None
    devices: tuple[DeviceID, ...]
    """The devices that they hold now"""
    elsewhere: Placed | Refused


class Answer(Struct, frozen=True):
    """The answer to a scenario."""

    freed: tuple[ObjectKey, ...]
    """Claims and pods that hold no devices in the scenario"""
    lost: tuple[Lost, ...]
    copies: int
    """Copies with all units placed"""
    asked: int | None
    limit: Limit
    placed: tuple[Placed, ...]
    refused: Refused | None
    """The unit that stopped the next copy"""
    gangs: tuple[PlacedGang, ...] = ()
    """The gangs among `placed`, which has their pods"""

    @property
    def fits(self) -> bool:
        """Whether all requested copies fit, and all lost claims fit elsewhere."""
        enough = self.limit is Limit.NOTHING or self.copies >= (self.asked or 1)
        return enough and not any(isinstance(lost.elsewhere, Refused) for lost in self.lost)


def as_json(result: Answer) -> dict[str, Any]:
    """The whole answer."""
    return {
        "fits": result.fits,
        "copies": result.copies,
        "copiesAsked": result.asked,
        "limit": str(result.limit),
        "placed": [_placed_as_json(one) for one in result.placed],
        "gangs": [_gang_as_json(one) for one in result.gangs],
        "refused": _refused_as_json(result.refused) if result.refused is not None else None,
        "freed": [str(key) for key in result.freed],
        "lost": [_lost_as_json(one) for one in result.lost],
    }


def _placed_as_json(placed: Placed) -> dict[str, Any]:
    devices = [
        {"claim": str(claim), "request": request, **device._asdict()}
        for claim, request, device in placed.devices
    ]
    return {"unit": placed.unit, "copy": placed.copy, "node": placed.node or None, "devices": devices}


def _gang_as_json(gang: PlacedGang) -> dict[str, Any]:
    return {
        "unit": gang.unit,
        "copy": gang.copy,
        "pods": [{"unit": seat.unit, "node": seat.node} for seat in gang.seats],
        "leftOut": list(gang.left_out),
        "domain": dict(gang.domain),
    }


def _refused_as_json(refused: Refused) -> dict[str, Any]:
    return {
        "unit": refused.unit,
        "copy": refused.copy,
        "reason": str(refused.reason),
        "message": refused.message,
    }


def _lost_as_json(lost: Lost) -> dict[str, Any]:
    return {
        "claims": [str(key) for key in lost.claims],
        "pod": str(lost.pod) if lost.pod is not None else None,
        "devices": [device._asdict() for device in lost.devices],
        "elsewhere": _placed_as_json(lost.elsewhere) if isinstance(lost.elsewhere, Placed) else None,
        "refused": _refused_as_json(lost.elsewhere) if isinstance(lost.elsewhere, Refused) else None,
    }


class Simulation:
    """What is placed holds its devices and its room from then on."""

    def __init__(
        self,
        trial: Trial,
        devices: Sequence[tuple[Any, PodDevices]],
        steps: int,
        budget: Budget,
        policies: Policies,
    ) -> None:
        """`devices` are those of plugins, beside their plugin."""
        self._trial, self._devices = trial, devices
        self._placement = Placement(trial.nodes, supposed=trial.supposed)
        self._expected: dict[ObjectKey, str] = {}
        """The node of each pod that was placed with another that shares its claims"""
        self._steps, self._budget, self._policies = steps, budget, policies

    def place(self, unit: Unit, copy: int, others: Sequence[Unit] = ()) -> Placed | Refused:
        """Place a unit. `others` have no place yet; those that share its claims must fit, too."""
        return self._place(unit, copy, (), others)

    def move(self, unit: Unit) -> Placed | Refused:
        """Place a unit that leaves its node."""
        return self._place(unit, 1, unit.held, (), leaves=True)

    def place_gang(self, gang: Gang, copy: int) -> PlacedGang | Refused:
        """Place a gang: at least its minimum together."""
        if isinstance(gang.rules, NoRules):
            return Refused(gang.name, copy, gang.rules.reason, gang.rules.message)
        pods = [(unit, unit.pod) for unit in gang.members if unit.pod is not None]
        members = tuple(Member(pod, unit.claims, unit.held) for unit, pod in pods)
        question = GangQuestion.of(gang.key, members, gang.rules, gang.placed, self._policies)
        if len(members) < question.least:
            return Refused(gang.name, copy, INCOMPLETE, f"{len(members)} of {question.least} pods exist")
        outcome = decide_gang(question, self._trial, steps=self._steps, budget=self._budget)
        if isinstance(outcome, GangUnsatisfied):
            return Refused(gang.name, copy, outcome.reason, outcome.message)
        names = {pod.key: unit.name for unit, pod in pods}
        return PlacedGang(
            gang.name,
            copy,
            tuple(_seat(names[seat.pod], copy, seat) for seat in outcome.seats),
            tuple(names[pod] for pod in outcome.left_out),
            tuple((tier.key, value) for tier, value in outcome.domain),
        )

    def _place(
        self,
        unit: Unit,
        copy: int,
        held: Sequence[ResourceClaim],
        others: Sequence[Unit],
        *,
        leaves: bool = False,
    ) -> Placed | Refused:
        for plugin, part in self._devices:
            if unit.pod is not None and plugin.requests(unit.pod):
                return self._place_device_pod(unit, unit.pod, part, copy, leaves=leaves)
        todo = tuple(claim for claim in unit.claims if self._plan(claim) is None)
        if unit.pod is not None and not todo:
            self._budget.spend()
        found = attempt(
            WantedPod(todo, unit.pod, (*held, *self._allocated(unit.claims)), self._sharing(todo, others)),
            self._trial,
            steps=self._steps,
            budget=self._budget,
            policies=self._policies,
            leaves=leaves,
            # A pod that shares all its claims goes where it was placed with the first pod that uses them.
            preferred=None if unit.pod is None else self._expected.get(unit.pod.key),
        )
        if isinstance(found, NoFit):
            return Refused(unit.name, copy, found.reason, found.message)
        node = self._hold(found, unit, others)
        return Placed(unit.name, copy, node, _devices(found.plans))

    def _sharing(self, todo: Sequence[ResourceClaim], others: Sequence[Unit]) -> tuple[Sharing, ...]:
        """The other pods that share the claims."""
        uids = [claim.metadata.uid for claim in todo]
        found: list[Sharing] = []
        for unit in others:
            theirs = {claim.metadata.uid for claim in unit.claims}
            shared = tuple(at for at, uid in enumerate(uids) if uid in theirs)
            if shared and unit.pod is not None:
                found.append((unit.pod, self._allocated(unit.claims), shared))
        return tuple(found)

    def _hold(self, found: Place, unit: Unit, others: Sequence[Unit]) -> str:
        """Count a pod on its node, and those that share its claims on theirs. Returns its node."""
        places: Mapping[ObjectKey, str] = {}
        pod = unit.pod
        if found.together is not None:
            reach = [self._placement.reach(plan, self._trial.snapshot) for plan in found.plans]
            places = found.together.places(reach, self._budget.spend) or {}
        node = places.get(pod.key, found.node) if pod is not None else found.node
        self._trial.place(found.plans)
        if pod is not None and node:
            self._host(unit, pod, node)
        for other in others:
            if other.pod is not None and other.pod.key in places:
                self._host(other, other.pod, places[other.pod.key])
                self._expected[other.pod.key] = places[other.pod.key]
        return node

    def _host(self, unit: Unit, pod: Pod, node: str) -> None:
        """Count the pod of a unit on a node, with what its devices take."""
        plans = [plan for claim in unit.claims if (plan := self._plan(claim)) is not None]
        self._trial.host(pod, node, demand_of(pod, self._trial.store, plans))

    def _allocated(self, claims: Sequence[ResourceClaim]) -> tuple[ResourceClaim, ...]:
        """The claims that units before have allocated, as if that were written."""
        found = ((claim, self._plan(claim)) for claim in claims)
        return tuple(
            claim.replacing("status", allocation=plan.allocation) for claim, plan in found if plan is not None
        )

    def _plan(self, claim: ResourceClaim) -> Plan | None:
        """What a unit before has allocated for a claim that it shares."""
        return self._trial.store.assumed(claim.metadata.uid)

    def _place_device_pod(
        self, unit: Unit, pod: Pod, part: PodDevices, copy: int, *, leaves: bool
    ) -> Placed | Refused:
        """Place a pod that requests devices of a plugin."""
        self._budget.spend()
        snapshot = self._trial.snapshot
        try:
            choose = self._placement.before_binding if leaves else self._placement.for_pod
            choice = choose(pod, (), snapshot, offered=part.offered)
        except Rejected as exc:
            return Refused(unit.name, copy, Reason.NODE_SELECTOR, str(exc))
        names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
        found = part.place(
            pod,
            names.__contains__,
            lambda: self._placement.left_out(pod, (), snapshot, offered=part.offered),
        )
        if isinstance(found, PodRefusal):
            return Refused(unit.name, copy, found.reason, found.message)
        self._trial.nodes.host(pod.key, pod, found.node, demand_of(pod, self._trial.store))
        devices = tuple((pod.key, kind, device) for kind, device in found.held.devices)
        return Placed(unit.name, copy, found.node, devices)


def _seat(unit: str, copy: int, seat: Seat) -> Placed:
    return Placed(unit, copy, seat.node, _devices(seat.plans))


def _devices(plans: Sequence[Plan]) -> tuple[tuple[ObjectKey, str, DeviceID], ...]:
    return tuple(
        (plan.claim, result.request, result.id)
        for plan in plans
        for result in plan.allocation.devices.results
    )
