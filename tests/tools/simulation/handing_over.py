"""Schedules in which kube-scheduler makes claims for extended resources, from caches that are seconds behind.

Two allocators meet on a node, and nothing on the server guards a device: only what is held, and for how long.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from reconciler.api.objects.claims import FINALIZER, SPECIAL_CLAIM
from reconciler.api.objects.core import Pod
from reconciler.api.objects.pinning import pinned
from reconciler.api.validation.bodies import Refusal
from reconciler.api.validation.served_kinds import CLAIM, POD
from reconciler.embedded import ApiServer, run_controllers
from tests.tools.simulation import demand, fleet
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.simulation.configured import SETTINGS
from tests.tools.simulation.faults import Faulty, Weather
from tests.tools.simulation.fleet import Object
from tests.tools.simulation.ground import EPOCH
from tests.tools.simulation.memory import InMemory
from tests.tools.simulation.process import quiet, tidy
from tests.tools.simulation.replica import Replica, drawn_clock, outside
from tests.tools.simulation.schedule import Outcome

GPU = "example.com/gpu"
LAG = 4.5
"""Seconds by which the claims in kube-scheduler's cache are behind, at most: less than gates wait"""
ACTS = 40
CALM = 400.0
"""Seconds after which all that can be given is given: writes that arrive late, back-offs, deadlines"""
Device = tuple[str, str]
"""Pool, which is named after its node, and name"""


def devices(claim: Object) -> list[Device]:
    found = (claim.get("status") or {}).get("allocation") or {"devices": {}}
    return [(one["pool"], one["device"]) for one in found["devices"].get("results", ())]


class SlowScheduler:
    """Sees pods at once, and claims of others late. Chooses devices in an order of its own."""

    def __init__(self, api: ApiServer, random: Random, now: Callable[[], float], nodes: Counter[str]) -> None:
        self._api, self._random, self._now, self._nodes = api, random, now, nodes
        self._lag = random.choice((0.0, 1.0, LAG, LAG))
        self._seen: deque[tuple[float, set[Device]]] = deque([(0.0, set())])
        """What claims held at which time; the first is what it knows"""
        self._binding: dict[str, list[Device]] = {}
        """Uids of pods, and what is assumed for them"""
        self._looked_at = -1
        """The version of the server at which the following were read: most looks find nothing new"""
        self._held: set[Device] = set()
        self._unscheduled: list[Object] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._random.uniform(0.02, 0.3))
                self._look()
                for pod in self._unscheduled:
                    if (found := self._choice(pod)) is not None:
                        self._binding[pod["metadata"]["uid"]] = found
                        group.create_task(self._bind(pod, found))

    def binds(self, uid: str) -> bool:
        """Whether it makes the claim of a pod now."""
        return uid in self._binding

    def _claims(self) -> Iterator[Object]:
        return (record.object for record in self._api.store[CLAIM].scan(""))

    def _look(self) -> None:
        if self._looked_at != self._api.store.version:
            self._looked_at = self._api.store.version
            self._held = {one for claim in self._claims() for one in devices(claim)}
            pods = (record.object for record in self._api.store[POD].scan(""))
            self._unscheduled = [pod for pod in pods if _is_unscheduled(pod)]
        self._seen.append((self._now(), self._held))
        while len(self._seen) > 1 and self._seen[1][0] <= self._now() - self._lag:
            self._seen.popleft()

    def _choice(self, pod: Object) -> list[Device] | None:
        """The devices for an unscheduled pod; None if there are none."""
        if pod["metadata"]["uid"] in self._binding:
            return None
        count = wanted(pod)
        node = pinned(Pod.model_validate(pod)) or self._random.choice(list(self._nodes))
        own = [claim for claim in self._claims() if SPECIAL_CLAIM in claim["metadata"].get("annotations", {})]
        taken = {one for claim in own for one in devices(claim)} | self._seen[0][1]
        taken |= {one for found in self._binding.values() for one in found}
        free = [one for n in range(self._nodes[node]) if (one := (node, f"d{n}")) not in taken]
        return self._random.sample(free, count) if len(free) >= count else None

    async def _bind(self, pod: Object, found: list[Device]) -> None:
        """Make the claim, allocate it, and tell the pod; or give up on the way, and delete it."""
        metadata, name = pod["metadata"], ""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        request = {"name": "container-0-request-0"}
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": len(found)}
        try:
            await self._pause()
            made = {
                "metadata": {
                    "generateName": f"{metadata['name']}-extended-resources-",
                    "annotations": {SPECIAL_CLAIM: "true"},
                    "ownerReferences": [{**owner, "controller": True}],
                },
                "spec": {"devices": {"requests": [{**request, "exactly": exactly}]}},
            }
            name = self._api.create(CLAIM, "default", made)["metadata"]["name"]
            await self._pause()
            gives_up = self._random.random() < 0.2 or not self._lives(pod)
            self._api.update(CLAIM, "default", "" if gives_up else name, _finalized)
            results = [
                {"request": request["name"], "driver": fleet.GPU, "pool": node, "device": device}
                for node, device in found
            ]
            here = {"key": "metadata.name", "operator": "In", "values": [found[0][0]]}
            allocation = {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
                "allocationTimestamp": "2026-01-01T00:00:00Z",
            }
            user = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
            status = {"allocation": allocation, "reservedFor": [user]}
            self._api.update(CLAIM, "default", name, lambda c: {**c, "status": status}, subresource="status")
            await self._pause()
            told = {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": []}}
            self._api.update(
                POD,
                "default",
                metadata["name"],
                lambda p: {**p, "status": {**p.get("status", {}), **told}},
                subresource="status",
            )
        except Refusal:
            if name and self._api.store[CLAIM].get(f"default/{name}") is not None:
                self._api.update(CLAIM, "default", name, partial(_finalized, held=False))
                self._api.delete(CLAIM, "default", name)
        finally:
            del self._binding[metadata["uid"]]

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.choice((0.0, 0.01, self._random.uniform(0, 1.5))))

    def _lives(self, pod: Object) -> bool:
        record = self._api.store[POD].get(f"default/{pod['metadata']['name']}")
        return record is not None and record.object["metadata"]["uid"] == pod["metadata"]["uid"]


def _finalized(claim: Object, *, held: bool = True) -> Object:
    return {**claim, "metadata": {**claim["metadata"], "finalizers": [FINALIZER] if held else []}}


def named_class() -> Object:
    """A class that serves the extended resource."""
    made = fleet.device_class("gpu")
    made["spec"]["extendedResourceName"] = GPU
    return made


def asking(name: str, count: int) -> Object:
    """A gated pod that asks for it."""
    made = demand.pod(name, [], [], zone=None, priority=0)
    amounts = {GPU: str(count)}
    made["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    return made


def wanted(pod: Object) -> int:
    (container,) = pod["spec"]["containers"]
    return int(((container.get("resources") or {}).get("requests") or {}).get(GPU, 0))


def _is_unscheduled(pod: Object) -> bool:
    """Whether a pod asks for devices, and is to be scheduled."""
    spec, metadata = pod["spec"], pod["metadata"]
    made = "extendedResourceClaimStatus" in (pod.get("status") or {})
    later = spec.get("schedulingGates") or spec.get("nodeName") or made or "deletionTimestamp" in metadata
    return not later and wanted(pod) > 0


class HandingOver:
    """One schedule: pods and claims come and go, one process dies now and then, kube-scheduler is slow."""

    def __init__(self, seed: int, loop: SimulationLoop) -> None:
        self.findings: list[str] = []
        self.count: Counter[str] = Counter()
        self._loop = loop
        self._random = random = Random(f"handing over {seed}")
        self._also = Random(f"deleting {seed}")
        self._api = ApiServer(now=lambda: EPOCH, random=Random(seed))
        self._nodes = Counter({name: random.randint(2, 6) for name in ("n1", "n2")})
        self._scheduler = SlowScheduler(self._api, random, lambda: loop.true_time, self._nodes)
        self._weather = Weather.drawn(seed, random, self.count)
        self._made = 0
        self._replica = Replica(
            SETTINGS, drawn_clock(random), self._connect, self.find, lambda: None, lambda _: None
        )
        self._outside = outside()
        self._on_its_way: set[asyncio.Task[None]] = set()
        self._mortal = True
        self._api.load([named_class()])
        for name, count in self._nodes.items():
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            some = [{"name": f"d{number}"} for number in range(count)]
            spec = {"driver": fleet.GPU, "nodeName": name, "pool": pool, "devices": some}
            made = {"apiVersion": fleet.DRA, "kind": "ResourceSlice", "metadata": {"name": name}}
            self._api.load([fleet.node(name), {**made, "spec": spec}])

    async def play(self) -> None:
        async with run_controllers(self._api, lambda *_: None):
            scheduler = asyncio.create_task(self._scheduler.run())
            self._replica.start()
            for _ in range(ACTS):
                self._act()
                await asyncio.sleep(self._random.expovariate(1 / self._random.choice((0.05, 1.0, 3.0))))
                if self._replica.dies:
                    await self._replica.killed()
                    self._replica.start()
            self._mortal = False
            self._weather.clear_up(writes=0.0)
            await asyncio.sleep(CALM)
            self._judge()
            scheduler.cancel()
            for task in self._on_its_way:
                task.cancel()
            await self._replica.stopped()

    def find(self, what: str) -> None:
        self.findings.append(f"t={self._loop.true_time:.3f}: {what}")

    def _act(self) -> None:
        random = self._random
        if random.random() < 0.1:
            self._loop.kill_at(random.randint(1, 300), self._kill)
        make_claim, make_pod = self._make_claim, self._make_pod
        drop_claim, drop_pod = partial(self._drop, CLAIM), partial(self._drop, POD)
        if self._also.random() < 0.2:
            self._drop_while_bound()
        acts: tuple[Callable[[], None], ...] = random.choice(
            (
                (make_pod,),
                (make_claim,),
                (make_claim, make_pod),
                (drop_pod,),
                (drop_claim,),
                (drop_claim, drop_pod),
            )
        )
        for act in acts:
            try:
                act()
            except Refusal:
                self.count["act refused by the server"] += 1
        self._look()

    def _make_pod(self) -> None:
        self._api.load([asking(self._name(), self._random.choice((1, 1, 2)))])

    def _make_claim(self) -> None:
        wish = {"deviceClassName": "gpu", "count": self._random.choice((1, 1, 2))}
        spec = {"devices": {"requests": [{"name": "r", "exactly": wish}]}}
        self._api.load([demand.claim(self._name(), spec)])

    def _name(self) -> str:
        self._made += 1
        return f"x{self._made}"

    def _drop(self, kind: Any) -> None:
        things = [record.object["metadata"] for record in self._api.store[kind].scan("")]
        loose = [one["name"] for one in things if "ownerReferences" not in one]
        if loose:
            self._api.delete(kind, "default", self._random.choice(loose))

    def _drop_while_bound(self) -> None:
        """Delete a pod for which kube-scheduler makes its claim."""
        pods = [record.object["metadata"] for record in self._api.store[POD].scan("")]
        if names := [one["name"] for one in pods if self._scheduler.binds(one["uid"])]:
            self.count["pods deleted while they were bound"] += 1
            self._api.delete(POD, "default", self._also.choice(names))

    def _kill(self) -> None:
        if self._mortal:
            self.count["killed"] += 1
            self._replica.kill()

    def _look(self, *_: Any) -> None:
        """No device is held twice."""
        holders: dict[Device, str] = {}
        for record in self._api.store[CLAIM].scan(""):
            for one in devices(record.object):
                if (other := holders.setdefault(one, record.key)) != record.key:
                    self.find(f"device {one} is held twice: {other}, {record.key}")

    def _judge(self) -> None:
        """Nothing waits for what is free; no gate stays for ever."""
        self._look()
        claims = [record.object for record in self._api.store[CLAIM].scan("")]
        free = Counter(self._nodes)
        free.subtract(pool for claim in claims for pool, _ in devices(claim))
        most = max(free.values())
        for record in self._api.store[POD].scan(""):
            pod, phase = record.object, (record.object.get("status") or {}).get("phase")
            self.count[f"pods {phase}"] += 1
            if pod["spec"].get("schedulingGates") and wanted(pod) <= most:
                self.find(f"pod {record.key} is gated, and {dict(free)} are free")
            node = pinned(Pod.model_validate(pod))
            if phase != "Running" and node and wanted(pod) <= free[node]:
                self.find(f"pod {record.key} does not run, and {dict(free)} are free")

    def _connect(self) -> Faulty:
        nothing: Callable[[str], None] = lambda _: None  # noqa: E731
        return Faulty(
            behind=InMemory(self._api),
            weather=self._weather,
            meddle=nothing,
            supplant=nothing,
            die=self._kill,
            applied=self._look,
            world=self._outside,
            on_its_way=self._on_its_way,
        )


@tidy()
def run(seed: int) -> Outcome:
    """Play a schedule."""
    loop = SimulationLoop()
    count: Counter[str] = Counter()
    with quiet(seed, count, None) as errors, asyncio.Runner(loop_factory=lambda: loop) as runner:
        played = HandingOver(seed, loop)
        runner.run(played.play())
    return Outcome(seed, (*played.findings, *errors), played.count, loop.true_time, Counter())
