"""Budgets in the world, and the judge of evictions: needed, in budgets, of ours; room kept for its owner."""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from reconciler.api.objects.claims import ALLOCATED_AT
from reconciler.api.objects.core import GATE
from reconciler.api.objects.gangs import GANG, SIZE
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.validation.served_kinds import BUDGET, CLAIM, POD, POD_GROUP
from reconciler.control.decisions.allocating import Allocated
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import (
    MovesAborted,
    Nominated,
    NominationDropped,
    NominationExpired,
    NominationUsed,
    PodMoved,
)
from reconciler.embedded import ApiServer
from reconciler.state.nominations import Nominee, NomineeKind
from tests.tools.gangs import pod_group
from tests.tools.simulation.audit.claims import claims_of
from tests.tools.simulation.audit.history import STALE
from tests.tools.simulation.fleet import Object
from tests.tools.simulation.replicas import owns, problems_of_move
from tests.tools.small_fleet import budget

URGENT = "urgent"
"""The PriorityClass whose pods may preempt"""
OF_GROUP = ("priority", "priorityClassName", "preemptionPolicy")
"""What a PodGroup says for its pods"""
TEAMS = ("x", "y")
"""Each has a budget, or none"""


class Evictions:
    """Judges by what the server has when it grants an eviction, and by what a replica decided."""

    def __init__(
        self,
        api: ApiServer,
        random: Random,
        true_time: Callable[[], float],
        count: Counter[str],
        find: Callable[[str], None],
    ) -> None:
        self._api = api
        self._now = true_time
        self._count = count
        self._find = find
        self._least = {team: random.choice((0, 1, 1, 2)) for team in TEAMS if random.random() < 0.6}
        """Team with a budget -> how many of its running pods are to stay"""
        self._held: dict[Nominee, frozenset[DeviceID]] = {}
        self._moving: set[str] = set()
        """Uids of pods that were evicted to move them, while their plan goes on"""
        self._pods: dict[str, Any] = {}
        """As they were before the latest write"""
        self._waited: dict[str, tuple[float, int]] = {}
        """Uid of a pod that may preempt -> when it last waited for devices, and its priority"""
        self._api.load(map(_budget, self._least))
        record = {"name": "held-room", "namespace": "default"}
        self._api.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": record}])

    def look(self) -> None:
        """Note who waits, and count as the disruption controller does who may be evicted."""
        pods = [record.object for record in self._api.store[POD].scan("")]
        self._pods = {pod["metadata"]["name"]: pod for pod in pods}
        for pod in pods:
            if _may_preempt(spec := self._ranked(pod)) and self._waits(pod):
                self._waited[pod["metadata"]["uid"]] = self._now(), _priority(spec)
        for team in self._least:
            running = [pod for pod in pods if _team(pod) == team and _runs(pod)]
            allowed = max(len(running) - self._least[team], 0)
            record = self._api.store[BUDGET].get(f"default/{team}")
            status = record.object.get("status", {}) if record is not None else {}
            if record is not None and status.get("disruptionsAllowed") != allowed:
                self._api.update(BUDGET, "default", team, _allowing(allowed), subresource="status")

    # -- judging

    def answered(self, write: str, status: int) -> None:
        """An eviction was granted or not. Called before anybody else acts."""
        name = write.partition(" ")[2].removesuffix("/eviction").rpartition("/")[2]
        if status == 429:
            self._count["evictions that a budget did not allow"] += 1
        if status not in (200, 201):
            return
        self._count["evictions"] += 1
        victim = self._pods.get(name)
        if victim is None:
            self._find(f"{write} evicted a pod that nobody knows")
            return
        for problem in self._problems(victim):
            self._find(f"{write}: {problem}")

    def _problems(self, victim: Any) -> Iterator[str]:
        pods = [record.object for record in self._api.store[POD].scan("")]
        recently = self._now() - STALE  # it may not know yet that nobody waits any more
        if any(owns(nominee, victim) for nominee in self._held) or not any(
            at >= recently and wants > _priority(self._ranked(victim)) for at, wants in self._waited.values()
        ):
            moves = list(problems_of_move(victim, frozenset(self._held), frozenset(self._moving)))
            if moves:
                yield "no pod of higher priority that may preempt waits for devices"
            yield from moves
            self._count["moves"] += not moves
            self._moving.add(victim["metadata"]["uid"])
        claims = [self._claim(key) for key in claims_of(victim)]
        if not claims or not all(
            claim is None or ALLOCATED_AT in claim["metadata"].get("annotations", {}) for claim in claims
        ):
            yield "its devices were not allocated by us"
        if (gang := _annotation(victim, GANG)) is not None:
            left = [pod for pod in pods if _annotation(pod, GANG) == gang and _runs(pod)]
            left = [pod for pod in left if pod["metadata"]["uid"] != victim["metadata"]["uid"]]
            if len(left) < int(_annotation(victim, SIZE) or 0):
                yield f"its gang {gang} has only {len(left)} pods left"
        yield from self._over_budget(victim)

    def _over_budget(self, victim: Any) -> Iterator[str]:
        """A budget counts who ran when the server was last looked at: who ended since is no fault of ours."""
        team, uid = _team(victim), victim["metadata"]["uid"]
        if team not in self._least or not _runs(victim):
            return
        self._count["evictions that a budget allowed"] += 1
        others = [pod for pod in self._pods.values() if _team(pod) == team and _runs(pod)]
        left = sum(pod["metadata"]["uid"] != uid for pod in others)
        if left < self._least[team]:
            yield f"{left} running pods are left of team {team}, and its budget wants {self._least[team]}"

    def _ranked(self, pod: Any) -> Any:
        """The spec of a pod, with what its PodGroup says of preempting."""
        name = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        record = self._api.store[POD_GROUP].get(f"default/{name}") if name else None
        said = record.object["spec"] if record is not None else {}
        return pod["spec"] | {key: said[key] for key in OF_GROUP if key in said}

    def _waits(self, pod: Any) -> bool:
        """Whether a gated pod has a claim without devices."""
        claims = [self._claim(key) for key in claims_of(pod)]
        return any(claim is None or "allocation" not in claim.get("status", {}) for claim in claims)

    def _claim(self, key: str | None) -> Any:
        record = self._api.store[CLAIM].get(key) if key is not None else None
        return None if record is None else record.object

    def started(self) -> None:
        """A process begins with the room of the record, and says so."""
        self._held.clear()
        self._moving.clear()

    def on_decision(self, decision: Decision) -> None:
        """Room that is held goes to nobody else, as long as its end is not said."""
        match decision:
            case Nominated(nominee=nominee, devices=devices):
                self._count["rooms held"] += 1
                self._held[nominee] = frozenset(devices)
            case NominationUsed(nominee=nominee) | NominationExpired(nominee=nominee):
                self._held.pop(nominee, None)
            case NominationDropped(nominee=nominee):
                self._held.pop(nominee, None)
            case PodMoved():
                self._count["pods moved"] += 1
                self._moving.clear()
            case MovesAborted():
                self._count["moves aborted"] += 1
                self._moving.clear()
            case Allocated(claim=claim, pod=pod, devices=devices):
                for nominee, held in self._held.items():
                    taken = held.intersection(devices)
                    if taken and not self._is_own(nominee, str(claim), pod):
                        self._find(f"claim {claim} got {sorted(taken)}, which is held for {nominee}")

    def _is_own(self, nominee: Nominee, claim: str, pod: ObjectKey | None) -> bool:
        """Whether a claim belongs to whom room is held for."""
        if nominee.kind is NomineeKind.GANG:
            found = self._pods.get(pod.name) if pod is not None else None
            return found is None or _annotation(found, GANG) in (nominee.key.name, None)
        if nominee.kind is NomineeKind.REPLACEMENT:
            found = self._pods.get(pod.name) if pod is not None else None
            return found is None or owns(nominee, found)
        found = self._pods.get(nominee.key.name)
        return pod == nominee.key or found is None or claim in claims_of(found)


def teamed(pod: Object, random: Random) -> Object:
    """A pod of a team. Many of high priority are of the class that may preempt."""
    labels = {"team": random.choice(TEAMS)} if random.random() < 0.7 else {}
    may = _priority(pod["spec"]) > 0 and random.random() < 0.7
    spec = {**pod["spec"], "priorityClassName": URGENT} if may else pod["spec"]
    if random.random() < 0.1:
        spec = {**spec, "preemptionPolicy": "Never"}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec}


def of_group(pod: Object) -> list[Object]:
    """A pod; or one whose PodGroup, which is no gang, says its priority and class: that it may preempt."""
    name, spec = pod["metadata"]["name"], dict(pod["spec"])
    if spec.get("priorityClassName") != URGENT or Random(f"group of {name}").random() < 0.6:
        return [pod]
    group = pod_group(name, None)
    group["spec"] |= {key: spec.pop(key) for key in OF_GROUP if key in spec}
    return [group, {**pod, "spec": {**spec, "schedulingGroup": {"podGroupName": name}}}]


def _may_preempt(spec: Any) -> bool:
    return (
        spec.get("priorityClassName") == URGENT
        and spec.get("preemptionPolicy") != "Never"
        and any(gate["name"] == GATE for gate in spec.get("schedulingGates", ()))
    )


def _priority(spec: Any) -> int:
    return int(spec.get("priority") or 0)


def _team(pod: Any) -> str | None:
    found: str | None = pod["metadata"].get("labels", {}).get("team")
    return found


def _annotation(pod: Any, key: str) -> str | None:
    found: str | None = pod["metadata"].get("annotations", {}).get(key)
    return found


def _runs(pod: Any) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _budget(team: str) -> Object:
    return budget(team, selector={"matchLabels": {"team": team}}, minAvailable=1)


def _allowing(allowed: int) -> Callable[[Object], Object]:
    counted = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    return lambda shown: {
        **shown,
        "status": {**counted, **shown.get("status", {}), "disruptionsAllowed": allowed},
    }
