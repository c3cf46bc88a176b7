"""Whatever happens, in whatever order: no device is given twice, and what fits is given in the end."""

import asyncio
import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.control.decisions.allocating import Overdrawn
from reconciler.plugins.koordinator import vocabulary
from reconciler.plugins.koordinator.decision import allocate
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand
from reconciler.plugins.koordinator.holdings import Holdings, holder
from reconciler.plugins.koordinator.machine import machine_of
from reconciler.plugins.koordinator.vocabulary import Rules
from tests.tools.faulty_transport import Faulty, answer, lost_answer, lost_request
from tests.tools.koordinator_builders import device, gpu, nic
from tests.tools.koordinator_cluster import DEVICE, POD, KoordinatorCluster, machine, running, wants
from tests.tools.small_fleet import node

NODES = ("a", "b")
FAULTS = (answer(500), answer(503), answer(429), answer(409), lost_request, lost_answer)
REQUESTS: tuple[dict[str, int | str], ...] = (
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu": 2},
    {"gpu-core": 50, "gpu-memory-ratio": 50},
    {"rdma": 1},
    {"nvidia.com/gpu": 1, "rdma": 1},
)
SAME = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
ALONE = {"gpu": {"exclusivePolicy": "PCIeLevel"}, "rdma": {"exclusivePolicy": "DeviceLevel"}}
SAID: tuple[dict[str, Any], ...] = (
    {},
    {vocabulary.JOINT_ALLOCATE: SAME},
    {vocabulary.ALLOCATE_HINT: {"rdma": {"vfSelector": {}}}},
    {vocabulary.ALLOCATE_HINT: ALONE},
)


def hardware(*, sick: int = -1) -> list[dict[str, Any]]:
    gpus = [gpu(n, (0, str(n // 2)), health=n != sick) for n in range(4)]
    return [*gpus, *(nic(n, (0, str(n)), vfs=2) for n in range(2))]


class Chaos:
    """A server to which everything happens."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = KoordinatorCluster([node(name) for name in NODES])
        self.cluster.load(*(machine(name, *hardware()) for name in NODES))
        self.made = 0

    def act(self, faulty: Faulty) -> None:
        """Something happens."""
        self.random.choice(
            (self.make, self.make, self.make, self.end, self.remove, self.touch, self.sicken)
        )()
        if self.random.random() < 0.4:
            for found in self.waiting():
                if self.random.random() < 0.4:
                    faulty.on("PATCH", f"/{found['metadata']['name']}", self.random.choice(FAULTS))
        if self.random.random() < 0.05:
            self.cluster.api.store.compact()

    def make(self) -> None:
        self.made += 1
        request, said = self.random.choice(REQUESTS), self.random.choice(SAID)
        priority = self.random.randint(0, 2)
        self.cluster.load(wants(f"p{self.made}", request, annotations=said, priority=priority))

    def end(self) -> None:
        for found in self.some():
            self.cluster.end(found["metadata"]["name"], self.random.choice(("Succeeded", "Failed")))

    def remove(self) -> None:
        for found in self.some():
            self.cluster.remove(found["metadata"]["name"])

    def touch(self) -> None:
        for found in self.some():
            self.cluster.api.update(POD, "default", found["metadata"]["name"], self._touched)

    def _touched(self, shown: dict[str, Any]) -> dict[str, Any]:
        return {**shown, "metadata": {**shown["metadata"], "labels": {"touched": str(self.made)}}}

    def sicken(self) -> None:
        """A GPU fails, or all are well again."""
        spec = {"devices": hardware(sick=self.random.randint(-1, 3))}
        self.cluster.change(DEVICE, self.random.choice(NODES), spec=spec)

    def some(self) -> list[dict[str, Any]]:
        return self.random.sample(self.cluster.pods(), min(len(self.cluster.pods()), 1))

    def waiting(self) -> list[dict[str, Any]]:
        return [found for found in self.cluster.pods() if found["spec"].get("schedulingGates")]

    # -- what must hold, by what is on the server alone

    def live(self) -> list[Pod]:
        return [pod for pod in map(Pod.model_validate, self.cluster.pods()) if not pod.finished]

    def never_twice(self) -> None:
        """No share of a device, and no virtual function, is promised to more pods than there is of it."""
        shares: Counter[tuple[str, str, int]] = Counter()
        functions: Counter[tuple[str, str, str]] = Counter()
        for pod in self.live():
            text = pod.metadata.annotations.get(vocabulary.ALLOCATED)
            assert (text is None) == pod.gated, pod.key
            for kind, entries in json.loads(text or "{}").items():
                on = self.cluster.on(pod.key.name)
                assert on in NODES
                for entry in entries:
                    charged = "koordinator.sh/gpu-memory-ratio" if kind == "gpu" else "koordinator.sh/rdma"
                    shares[kind, on, entry["minor"]] += int(entry["resources"][charged])
                    for function in entry.get("extension", {}).get("vfs", ()):
                        functions[kind, on, function["busID"]] += 1
        assert all(share <= 100 for share in shares.values()), shares
        assert all(count == 1 for count in functions.values()), functions

    def alone(self) -> None:
        """Who asked to be alone on a NIC, or on the switch of a GPU, is."""
        for pod in self.live():
            if not self.is_exclusive(pod):
                continue
            mine = self.cluster.given(pod.key.name)
            for other in self.live():
                if other.key == pod.key or self.cluster.on(other.key.name) != self.cluster.on(pod.key.name):
                    continue
                theirs = self.cluster.given(other.key.name)
                assert not set(mine.get("rdma", ())) & set(theirs.get("rdma", ()))
                switches = [{minor // 2 for minor in given.get("gpu", ())} for given in (mine, theirs)]
                assert not switches[0] & switches[1]

    def is_exclusive(self, pod: Pod) -> bool:
        said = pod.metadata.annotations
        return said.get(vocabulary.ALLOCATE_HINT) == json.dumps(ALONE) and vocabulary.ALLOCATED in said

    def settled(self) -> bool:
        """Nobody waits for what a node has left."""
        rules = Rules()
        machines = {
            name: machine_of(device(*self.hardware_of(name), name=name), {}, rules.semantics)
            for name in NODES
        }
        holdings = {name: Holdings() for name in NODES}
        for pod in self.live():
            if (held := holder(pod)) is not None:
                holdings[held.node].hold(pod.key, held.allocation, held.hints)
        for pod in self.live():
            demand = read_demand(pod, rules) if pod.gated else None
            if isinstance(demand, Demand):
                answers = [allocate(demand, machines[name], holdings[name], rules) for name in NODES]
                if not all(isinstance(found, Failure) for found in answers):
                    return False
        return True

    def hardware_of(self, name: str) -> list[dict[str, Any]]:
        record = self.cluster.api.store[DEVICE].get(name)
        assert record is not None
        devices = record.object["spec"]["devices"]
        assert isinstance(devices, list)
        return devices


async def breathe(random: Random) -> None:
    """Let the others run, for a while that only the seed decides."""
    for _ in range(random.randrange(60)):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(12))
async def test_chaos_ends_in_order(seed: int):
    chaos = Chaos(seed)
    async with running(chaos.cluster) as run:
        for _ in range(60):
            chaos.act(run.faulty)
            await breathe(chaos.random)
            chaos.never_twice()
            chaos.alone()
        run.faulty.faults.clear()
        await chaos.cluster.until(chaos.settled)
        chaos.never_twice()
    assert run.of(Overdrawn) == []


async def test_a_restart_in_the_midst_goes_on_from_what_is_written():
    chaos = Chaos(99)
    for _ in range(4):
        async with running(chaos.cluster) as run:
            for _ in range(15):
                chaos.act(run.faulty)
                await breathe(chaos.random)
                chaos.never_twice()
    async with running(chaos.cluster):
        await chaos.cluster.until(chaos.settled)
    chaos.never_twice()
