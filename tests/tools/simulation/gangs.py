"""Gangs in the simulation: who makes them, and what must hold of them.

The name of every pod and claim of a gang starts with the name of the gang and a dash.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from random import Random
from typing import Any

from reconciler.api.objects.gangs import GANG, SEAT, SIZE, TOPOLOGY
from reconciler.api.validation.served_kinds import CLAIM, COMPOSITE_GROUP, POD, POD_GROUP
from reconciler.embedded import ApiServer
from tests.tools.gangs import child_of, composite_group, pod_group
from tests.tools.simulation import demand
from tests.tools.simulation.audit.claims import allocation, claims_of, is_deleting, selected
from tests.tools.simulation.audit.fitting import Fitting
from tests.tools.simulation.audit.history import STALE
from tests.tools.simulation.fleet import NODES, Object

GATE = "dra-reconciler.io/allocation"


@dataclass(frozen=True)
class Gang:
    """What somebody wants to run together."""

    name: str
    least: int
    pods: int
    source: str
    """`annotation`, `group`, `shared` for a group with a claim of its own, or `tree` for two groups in one"""
    templates: tuple[str, ...]
    zone: bool
    """Whether all of it must be in one zone"""

    def needed(self, pods: list[Any]) -> list[Any] | None:
        """So many of some pods as must run together; None if these are too few."""
        if self.source != "tree":
            return pods[: self.least] if len(pods) >= self.least else None
        halves = [[pod for pod in pods if _group_of(pod) == name] for name in _names(self)]
        half = self.least // 2
        return None if min(map(len, halves)) < half else [pod for one in halves for pod in one[:half]]


class Gangs:
    """All gangs of a schedule."""

    def __init__(
        self,
        api: ApiServer,
        random: Random,
        now: Callable[[], float],
        count: Counter[str],
        given_away: Set[str],
    ) -> None:
        """`given_away` are uids of claims that somebody else allocated, also after our first request."""
        self._api = api
        self._given_away = given_away
        self._random = random
        self._now = now
        self._count = count
        self._gangs: dict[str, Gang] = {}
        self._made: Counter[str] = Counter()
        self._disturbed: dict[str, float] = {}

    # -- what people do

    def new(self, templates: list[str]) -> None:
        """A gang, whole or not yet."""
        self._count["gangs"] += 1
        random = self._random
        name, size = f"g{len(self._gangs)}", random.choice((2, 2, 3, 4))
        source = random.choice(("annotation", "annotation", "group", "shared", "tree"))
        size = 4 if source == "tree" else size
        self._count["trees"] += source == "tree"
        wanted = tuple(
            random.choices(templates, k=random.choice((0, 1, 1, 1, 2)) if source != "shared" else 1)
        )
        extra = random.choice((0, 0, 1))
        gang = Gang(name, size, size + extra, source, wanted, random.random() < 0.4)
        self._gangs[name] = gang
        if source != "annotation":
            self._api.load(_groups(gang))
        self._add(gang, gang.pods if random.random() < 0.7 else random.randint(1, gang.pods))

    def complete(self) -> None:
        """The pods that a gang still lacks are made."""
        for gang in self._gangs.values():
            there = len(self._pods(gang.name))
            if there < gang.pods:
                self._add(gang, gang.pods - there)
                return

    def drop(self) -> None:
        """A pod of a gang goes."""
        pods = [pod for name in self._gangs for pod in self._pods(name)]
        if pods:
            name = self._random.choice(pods)["metadata"]["name"]
            self.disturbed(name)
            self._api.delete(POD, "default", name)

    def let_go(self) -> None:
        """All PodGroups go, after the pods."""
        for kind in (POD_GROUP, COMPOSITE_GROUP):
            for record in list(self._api.store[kind].scan("")):
                self._api.delete(kind, "default", record.object["metadata"]["name"])

    def disturbed(self, name: str) -> None:
        """Something was done to a pod or a claim by this name, which the reconciler cannot know yet."""
        self._disturbed[name.partition("-")[0]] = self._now()

    def _add(self, gang: Gang, count: int) -> None:
        for _ in range(count):
            self._made[gang.name] += 1
            pod = demand.pod(
                f"{gang.name}-{self._made[gang.name]}", [], list(gang.templates), zone=None, priority=0
            )
            if gang.source == "annotation":
                notes = {GANG: gang.name, SIZE: str(gang.least)} | ({TOPOLOGY: "zone"} if gang.zone else {})
                pod["metadata"]["annotations"] = notes
            else:
                names = _names(gang)
                name = names[self._made[gang.name] % len(names)]
                pod["spec"]["schedulingGroup"] = {"podGroupName": name}
            self._api.load([pod])

    def _pods(self, gang: str) -> list[Any]:
        found = [record.object for record in self._api.store[POD].scan(f"default/{gang}-")]
        return [pod for pod in found if not is_deleting(pod)]

    # -- what must hold

    def ungated(self, path: str) -> str | None:
        """The gate of the pod at a path was removed, perhaps as the first of its gang; what is wrong."""
        name = path.rpartition("/")[2]
        gang = self._gangs.get(name.partition("-")[0])
        record = self._api.store[POD].get(f"default/{name}")
        if gang is None or record is None or _is_gated(record.object):
            return None
        pods = self._pods(gang.name)
        if any(not _is_gated(pod) for pod in pods if pod["metadata"]["name"] != name):
            return None
        self._count["gangs begun"] += 1
        have = [pod for pod in pods if not _is_gated(pod) or self._is_seated(pod)]
        if gang.needed(have) or self._now() - self._disturbed.get(gang.name, -STALE) < STALE:
            return None
        return f"{name} was ungated, and {len(have)} of {gang.least} pods of its gang have devices and a node"

    def is_member(self, pod: Any) -> bool:
        return pod["metadata"]["name"].partition("-")[0] in self._gangs

    def undone(self, fitting: Fitting, open_: frozenset[str]) -> Iterator[str]:
        """What is left undone of gangs once all is quiet."""
        for gang in self._gangs.values():
            pods = self._pods(gang.name)
            gated = [pod for pod in pods if _is_gated(pod)]
            seated = [pod for pod in gated if self._is_seated(pod)]
            free = [pod for pod in pods if not _is_gated(pod)]
            others = len(free)
            zones = {NODES[node] for pod in pods if (node := pod["spec"].get("nodeName")) in NODES}
            if gang.zone and len(zones) > 1:
                yield f"gang {gang.name} runs in zones {sorted(zones)}, and must be in one"
            if gang.zone and zones:  # somebody else may have allocated a claim of a member in another one
                seated = [pod for pod in seated if self._zones_of(pod) & zones]
            if seated and gang.needed([*free, *seated]):
                yield f"gang {gang.name}: {len(seated)} pods have all they need, and are gated"
            elif not gang.needed(free):
                held = [key for pod in gated for key in claims_of(pod) if key and self._is_ours(key)]
                marked = [pod for pod in gated if SEAT in pod["metadata"].get("annotations", {})]
                if others == 0 and (held or marked):
                    yield f"gang {gang.name} waits, and holds {sorted({*held})} {len(marked)} pods"
            if not others and not seated and gang.needed(gated) and gang.source != "shared":
                yield from self._fits(gang, gated, fitting, open_)

    def _fits(self, gang: Gang, gated: list[Any], fitting: Fitting, open_: frozenset[str]) -> Iterator[str]:
        keys = [claims_of(pod) for pod in (*(gang.needed(gated) or ()), *gated)]
        claims = [[self._claim(key) if key else None for key in of_pod] for of_pod in keys]
        if any(c is None or is_deleting(c) or allocation(c) for of_pod in claims for c in of_pod):
            return
        for zone in sorted(set(NODES.values())) if gang.zone else (None,):
            nodes = frozenset(node for node in open_ if zone in (None, NODES[node]))
            if fitting.together(claims[: gang.least], nodes):
                yield f"gang {gang.name} of {gang.least} pods waits, and would fit in zone {zone}"
                return

    def _claim(self, key: str) -> Any:
        record = self._api.store[CLAIM].get(key)
        return record.object if record is not None else None

    def _is_ours(self, key: str) -> bool:
        """Whether a claim holds devices that were given for the gang, and nobody uses them."""
        claim = self._claim(key)
        return (
            claim is not None
            and bool(allocation(claim))
            and claim["metadata"]["uid"] not in self._given_away
            and SEAT in claim["metadata"].get("annotations", {})
            and not claim["status"].get("reservedFor")
            and not is_deleting(claim)
        )

    def _zones_of(self, pod: Any) -> set[str]:
        """The zones of the nodes on which all claims of a pod can be used."""
        nodes = set(NODES)
        for key in claims_of(pod):
            if key and (claim := self._claim(key)) is not None:
                nodes &= selected(claim, NODES)
        return {NODES[node] for node in nodes}

    def _is_seated(self, pod: Any) -> bool:
        keys = claims_of(pod)
        claims = [claim for key in keys if key and (claim := self._claim(key)) is not None]
        if len(claims) < len(keys):
            return False
        if any(is_deleting(claim) or not allocation(claim) for claim in claims):
            return False
        if any(claim["metadata"]["name"].partition("-")[0] not in self._gangs for claim in claims):
            return False
        pinned = any(len(selected(claim, NODES)) == 1 and _names_node(claim) for claim in claims)
        return pinned or SEAT in pod["metadata"].get("annotations", {})


def _names_node(claim: Any) -> bool:
    """Whether an allocation names its node, rather than a label of it."""
    (term, *_) = allocation(claim)["nodeSelector"]["nodeSelectorTerms"]
    return bool(term.get("matchFields"))


def _is_gated(pod: Any) -> bool:
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ()))


def _group_of(pod: Any) -> str:
    return pod["spec"].get("schedulingGroup", {}).get("podGroupName", "")


def _names(gang: Gang) -> tuple[str, ...]:
    """The PodGroups of a gang."""
    return (f"{gang.name}a", f"{gang.name}b") if gang.source == "tree" else (gang.name,)


def _groups(gang: Gang) -> list[Object]:
    topology = "zone" if gang.zone else ""
    if gang.source == "tree":
        inside = [child_of(gang.name, pod_group(name, gang.least // 2)) for name in _names(gang)]
        return [composite_group(gang.name, 2, topology=topology), *inside]
    claim = gang.templates[0] if gang.source == "shared" else ""
    return [pod_group(gang.name, gang.least, topology=topology, claim=claim)]
