"""Small fleets with pods of several priorities, and something that may not fit, drawn from a seed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

from reconciler.allocation.gangs.kinds import GangQuestion, Member
from reconciler.analysis.relocation.make_room import Advice
from reconciler.analysis.world import NoFit, Sharing, Wanted, WantedGang, WantedPod, World, world_of
from reconciler.api.objects.claims import ConsumerReference, ResourceClaim, ResourceClaimStatus
from reconciler.api.objects.core import Pod, PodSchedulingGroup, claims_of
from reconciler.api.objects.gangs import GANG, SIZE, GangKey, GangSource
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.nominations import HeldPlace, Nomination, of_claim
from tests.tools import builders
from tests.tools.builders import (
    Object,
    counter_slice,
    device,
    device_class,
    first_of,
    node,
    request,
    resource_slice,
    wants,
)
from tests.tools.gangs import child_of, composite_group, pod_group
from tests.tools.small_fleet import DRIVER, budget, claim, held, pod

PARTS = {"whole": range(4), "half-0": range(2), "half-1": range(2, 4), **{f"q-{n}": [n] for n in range(4)}}
"""A device that can be cut in two or four, by the slices that each part draws"""


@dataclass
class RoomWorld:
    """A fleet with pods that hold devices, and what is wanted."""

    objects: list[ApiObject]
    wanted: Wanted
    held: tuple[Nomination, ...] = ()
    """Room that is held for others"""

    def world(self, without: Iterable[ApiObject] = ()) -> World:
        """The state, without some objects."""
        left_out = {(type(one).__name__, one.key) for one in without}
        kept = [one for one in self.objects if (type(one).__name__, one.key) not in left_out]
        found = world_of(kept, Semantics())
        for one in self.held:
            found.store.nominate(one)
            found.nodes.nominated.hold(one)
        return found


def room_world(seed: int) -> RoomWorld:
    """The world of a seed. In every fourth, a PodGroup has some of the pods, or the groups of a tree have."""
    world = _Draw(Random(seed)).world()
    return world if seed % 4 != 3 else _grouped(world, Random(~seed), in_tree=seed % 8 == 7)


def _grouped(world: RoomWorld, random: Random, *, in_tree: bool) -> RoomWorld:
    names = "xyz"[: random.randint(2, 3)] if in_tree else "x"
    groups = [_disrupted(pod_group(name, random.choice([None, 1, 2, 3])), random) for name in names]
    if in_tree:
        groups = [child_of("t", group) for group in groups]
        groups.append(_disrupted(composite_group("t", random.randint(1, 2)), random))
    objects = [
        _inside(one, random.choice(names))
        if isinstance(one, Pod) and not one.metadata.annotations and random.random() < 0.6
        else one
        for one in world.objects
    ]
    return RoomWorld([*objects, *map(read, groups)], world.wanted, world.held)


def _disrupted(group: Object, random: Random) -> Object:
    mode: Object = random.choice([{}, {"disruptionMode": {"all": {}}}, {"disruptionMode": {"single": {}}}])
    group["spec"] |= mode | random.choice([{}, {"priority": random.choice([-1, 4, 9])}])
    return group


def _inside(pod: Pod, group: str) -> Pod:
    inside = {"scheduling_group": PodSchedulingGroup(pod_group_name=group)}
    return pod.model_copy(update={"spec": pod.spec.model_copy(update=inside)})


class _Draw:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.cut = random.random() < 0.5
        self.nodes = [f"n{at}" for at in range(random.randint(1, 3))]
        self.objects: list[ApiObject] = []

    def world(self) -> RoomWorld:
        for raw in self._fleet():
            self.objects.append(read(raw))
        for number in range(self.random.randint(3, 8)):
            self._run(number)
        for apps in ("a", "b", "ab"):
            if self.random.random() < 0.4:
                self.objects.append(read(_budget(apps, self.random.randint(0, 1))))
        return RoomWorld(self.objects, self._wanted(), tuple(self._held()))

    def _fleet(self) -> Iterable[Object]:
        yield device_class("any")
        for name in ("whole", "half", "q"):
            yield device_class(name, f'device.attributes["d"].size == "{name}"')
        for name in self.nodes:
            cpu = str(self.random.choice([2, 4, 8]))
            offered = {"cpu": cpu, "pods": "20"}
            yield node(name) | {"status": {"allocatable": offered}}
            yield from self._devices(name)

    def _devices(self, node: str) -> Iterable[Object]:
        gpus = range(self.random.randint(1, 2 if self.cut else 4))
        if not self.cut:
            made = [device(f"g{n}", {"size": "whole", "side": n // 2}) for n in gpus]
            if self.random.random() < 0.2:
                made.append({**device("m0", {"size": "whole", "side": 0}), "allowMultipleAllocations": True})
            yield resource_slice(f"s-{node}", made, pool=node, nodeName=node)
            return
        sets = {f"g{n}": {f"slice-{at}": 1 for at in range(4)} for n in gpus}
        made = [
            device(
                f"g{n}-{part}",
                {"size": part.partition("-")[0], "side": n},
                draws={f"g{n}": {f"slice-{at}": 1 for at in slices}},
            )
            for n in gpus
            for part, slices in PARTS.items()
        ]
        yield counter_slice(f"c-{node}", sets, pool=node, slices=2, nodeName=node)
        yield resource_slice(f"s-{node}", made, pool=node, slices=2, nodeName=node)

    def _claim(self, name: str, most: int) -> ResourceClaim:
        kind = self.random.choice(["whole", "half", "q"]) if self.cut else "any"
        requests = [request("r", self.random.randint(1, most), device_class=kind)]
        constraints = []
        if self.random.random() < 0.2:
            requests.append(request("s", 1, device_class=kind))
            constraints = [{"matchAttribute": "d/side"}]
        elif self.cut and self.random.random() < 0.2:
            requests = [first_of("r", a=wants(1, device_class="whole"), b=wants(2, device_class="half"))]
        found = read(builders.claim(name, *requests, constraints=constraints))
        assert isinstance(found, ResourceClaim)
        return found

    def _pod(self, name: str, claims: Iterable[str], *, node: str = "", **fields: Any) -> Pod:
        random = self.random
        metadata: Object = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": random.choice("abc")},
            "annotations": fields.pop("annotations", {}),
        }
        if random.random() < 0.6:
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
        spec: Object = {
            "nodeName": node,
            "resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims],
            "containers": [
                {"name": "m", "resources": {"requests": {"cpu": str(random.choice([0, 0, 1, 2]))}}}
            ],
            **fields,
        }
        status: Object = {}
        if random.random() < 0.7:
            status["startTime"] = f"2026-01-0{random.randint(1, 3)}T00:00:00Z"
        found = read(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
        )
        assert isinstance(found, Pod)
        return found

    def _run(self, number: int) -> None:
        """A pod with what it gets now, if it fits on a drawn node. Sometimes it shares its claim."""
        random = self.random
        claims = [self._claim(f"c{number}-{at}", 2) for at in range(random.choice([0, 1, 1, 1, 2]))]
        annotations = {}
        if random.random() < 0.3:
            annotations = {GANG: random.choice("gh"), SIZE: "2"}
        elif random.random() < 0.05:
            annotations = {"kubernetes.io/config.mirror": "x"}
        fields: Object = {"annotations": annotations, "priority": random.choice([-1, 0, 0, 3, 8])}
        pod = self._pod(f"p{number}", [one.key.name for one in claims], **fields)
        world, node = world_of(self.objects, Semantics()), random.choice(self.nodes)
        with world.trial() as trial:
            found = WantedPod(tuple(claims), pod).place(trial, on=node)
        if isinstance(found, NoFit):
            return
        users = [pod.key.name]
        if claims and random.random() < 0.2:
            users.append(f"p{number}x")
        if claims and random.random() < 0.1:
            users = []
        by_claim = {plan.claim: plan for plan in found[0].plans}
        for wanted in claims:
            status = ResourceClaimStatus(
                allocation=by_claim[wanted.key].allocation,
                reserved_for=tuple(
                    ConsumerReference(resource="pods", name=one, uid=f"uid-{one}") for one in users
                ),
            )
            self.objects.append(wanted.model_copy(update={"status": status}))
        for one in users:
            copied = self._pod(one, [wanted.key.name for wanted in claims], node=node, **fields)
            self.objects.append(copied)

    def _held(self) -> Iterator[Nomination]:
        """Sometimes a device, which may be in use, and a CPU are held for somebody else."""
        for name in self.nodes:
            if self.random.random() < 0.15:
                device = DeviceID("d", name, self.random.choice(("g0", "g0-half-0", "g0-q-3", "g1")))
                place = HeldPlace(name, (device,), (("cpu", 1000),) if self.random.random() < 0.5 else ())
                yield Nomination(of_claim(ObjectKey("default", f"other-{name}")), (place,), 0, inf, "")

    def _wanted(self) -> Wanted:
        random, priority = self.random, self.random.choice([3, 5, 9, 9])
        if random.random() < 0.25:
            kind = self._claim("w", 2)
            members = []
            for at in range(random.randint(2, 3)):
                metadata = kind.metadata.model_copy(update={"name": f"w{at}", "uid": f"uid-w{at}"})
                claim, shared = kind.model_copy(update={"metadata": metadata}), self._shared(0.2)
                names = [claim.key.name, *(one.key.name for one in shared)]
                members.append(Member(self._pod(f"w{at}", names, priority=priority), (claim,), shared))
            key = GangKey("default", GangSource.ANNOTATION, "wanted")
            return WantedGang(GangQuestion(key, tuple(members), random.randint(1, len(members))))
        claims = tuple(
            self._claim(f"w{at}", random.choice([1, 2, 2, 3])) for at in range(random.choice([1, 1, 2]))
        )
        held = self._shared(0.4)
        names = [one.key.name for one in (*claims, *held)]
        pod = self._pod("w", random.sample(names, len(names)), priority=priority)
        claims = tuple(sorted(claims, key=lambda claim: claims_of(pod).index(claim.key)))
        return WantedPod(claims, pod, held, tuple(self._beside(claims, held)))

    def _shared(self, chance: float) -> tuple[ResourceClaim, ...]:
        """Sometimes claims that running pods use, and what is wanted, too."""
        random = self.random
        used = [one for one in self.objects if isinstance(one, ResourceClaim) and one.status.reserved_for]
        if random.random() >= chance or not used:
            return ()
        return tuple(random.sample(used, min(len(used), random.choice([1, 1, 1, 2]))))

    def _beside(self, claims: Sequence[ResourceClaim], held: Sequence[ResourceClaim]) -> Iterator[Sharing]:
        """Sometimes another gated pod that shares some of the claims."""
        random, every = self.random, [*claims, *held]
        if random.random() < 0.2:
            at = sorted(random.sample(range(len(every)), random.randint(1, len(every))))
            fields = {"preemptionPolicy": "Never"} if random.random() < 0.1 else {}
            shared = [every[one] for one in at]
            more = [one for one in self._shared(0.3) if one not in every]
            names, priority = [one.key.name for one in (*shared, *more)], random.choice([-1, 3, 9])
            pod = self._pod("v", names, priority=priority, **fields)
            yield pod, (*(one for one in shared if one in held), *more), tuple(at)


def _budget(apps: str, allowed: int) -> Object:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [*apps]}]}
    return budget(f"budget-{apps}", allowed, selector=selector)


# -- Pods that run with their claims, for tests of who has to leave.


def running(name: str, *devices: str, on: str = "n", **fields: Any) -> list[Object]:
    """A pod and its claim with devices of its node."""
    made, one = claim(name), pod(name, name, gates=(), nodeName=on)
    made["metadata"]["uid"] = f"claim-{name}"
    reserved = [{"resource": "pods", "name": name, "uid": name}]
    status = {**held(DRIVER, on, *devices, on=on), "reservedFor": reserved}
    metadata = {"uid": name, "labels": {"app": name}, **fields.pop("metadata", {})}
    one["metadata"] |= metadata
    one["spec"] |= fields
    return [{**made, "status": status}, one]


def names(found: Advice) -> list[str]:
    """The pods that leave."""
    return [key.name for key in found.victims]
