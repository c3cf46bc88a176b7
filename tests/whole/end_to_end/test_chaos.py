"""Whatever happens, in whatever order: no device is given twice, and what fits is given in the end."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from reconciler.api.validation.served_kinds import POD
from reconciler.control import background_search
from reconciler.control.decisions.allocating import HeldTwice
from tests.tools.faulty_transport import Faulty, answer, lost_answer, lost_request
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node, pod, template

PER_NODE = 4
NODES = ("a", "b", "c")
FAULTS = (answer(500), answer(503), answer(429), answer(409), lost_request, lost_answer)


class Chaos:
    """A server to which everything happens."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster([device_class(), template("one"), template("two", 2)])
        for name in NODES:
            self.cluster.load(node(name), devices(name, *(f"d{n}" for n in range(PER_NODE))))
        self.made = 0

    def act(self, faulty: Faulty) -> None:
        """Something happens."""
        act = self.random.choice(
            (
                self.claim,
                self.claim,
                self.pod,
                self.pod,
                self.drop_claim,
                self.drop_pod,
                self.edit,
                self.clear,
            )
        )
        act()
        if self.random.random() < 0.3:
            path = self.random.choice(("", "/status"))
            for found in self.cluster.claims():
                name = found["metadata"]["name"]
                if self.random.random() < 0.3:
                    faulty.on("PATCH", f"/{name}{path}", self.random.choice(FAULTS))
        if self.random.random() < 0.05:
            self.cluster.api.compact()

    def claim(self) -> None:
        self.made += 1
        self.cluster.load(claim(f"c{self.made}", self.random.randint(1, 3)))

    def pod(self) -> None:
        self.made += 1
        templates = tuple(self.random.choices(("one", "two"), k=self.random.randint(0, 2)))
        shared = self.random.sample(self.loose(), min(len(self.loose()), self.random.randint(0, 1)))
        self.cluster.load(
            pod(f"p{self.made}", *shared, templates=templates, priority=self.random.randint(0, 2))
        )

    def drop_claim(self) -> None:
        for name in self.random.sample(self.loose(), min(len(self.loose()), 1)):
            self.cluster.delete(name)

    def drop_pod(self) -> None:
        names = [record.object["metadata"]["name"] for record in self.cluster.api.store[POD].scan("")]
        for name in self.random.sample(names, min(len(names), 1)):
            self.cluster.api.delete(POD, "default", name)

    def edit(self) -> None:
        for name in self.random.sample(self.loose(), min(len(self.loose()), 1)):
            self.cluster.edit(name, annotations={"touched": str(self.made)})

    def clear(self) -> None:
        """As kube-scheduler may do with an allocation that is not reserved."""
        for name in self.random.sample(self.loose(), min(len(self.loose()), 1)):
            status = self.cluster.claim(name).get("status", {})
            if "allocation" in status and not status.get("reservedFor"):
                self.cluster.edit(name, status=True, allocation=None)

    def loose(self) -> list[str]:
        """Claims made on their own, not being deleted."""
        return [
            found["metadata"]["name"]
            for found in self.cluster.claims()
            if "ownerReferences" not in found["metadata"] and "deletionTimestamp" not in found["metadata"]
        ]

    # -- what must hold

    def held(self) -> Counter[str]:
        return Counter(
            f"{result['pool']}/{result['device']}"
            for found in self.cluster.claims()
            for result in found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        )

    def never_twice(self) -> bool:
        return all(count == 1 for count in self.held().values())

    def settled(self) -> bool:
        """Nobody waits for what would fit on any node, and nobody being deleted is left unless in use."""
        room = max(map(self.room, NODES))
        for found in self.cluster.claims():
            if "deletionTimestamp" in found["metadata"]:
                if not found.get("status", {}).get("reservedFor"):
                    return False
            elif self.unnamed(found) and not allocated(found) and wanted(found) <= room:
                return False
        return all(map(self.pod_settled, (record.object for record in self.cluster.api.store[POD].scan(""))))

    def unnamed(self, found: dict[str, Any]) -> bool:
        name = found["metadata"]["name"]
        return not any(name in self.names(record.object) for record in self.cluster.api.store[POD].scan(""))

    def names(self, found: dict[str, Any]) -> set[str]:
        made = found.get("status", {}).get("resourceClaimStatuses", ())
        return {entry.get("resourceClaimName") for entry in (*found["spec"].get("resourceClaims", ()), *made)}

    def pod_settled(self, found: dict[str, Any]) -> bool:
        """It runs, or waits for a claim that is going, or for more devices than any node has left."""
        if found.get("status", {}).get("phase") == "Running":
            return True
        claims = [self.cluster.claim(name) for name in self.names(found) if name]
        if any(one is None or "deletionTimestamp" in one["metadata"] for one in claims):
            return True
        missing = [one for one in claims if not allocated(one)]
        nodes = {node_of(one) for one in claims if allocated(one)}
        if not missing or len(nodes) > 1:
            return len(nodes) > 1
        room = max(map(self.room, nodes or NODES))
        return sum(map(wanted, missing)) > room

    def room(self, name: str) -> int:
        return PER_NODE - sum(count for device, count in self.held().items() if device[0] == name)


def allocated(found: dict[str, Any]) -> bool:
    return "allocation" in found.get("status", {})


def wanted(found: dict[str, Any]) -> int:
    count = found["spec"]["devices"]["requests"][0]["exactly"].get("count", 1)
    assert isinstance(count, int)
    return count


def node_of(found: dict[str, Any]) -> str:
    pool = found["status"]["allocation"]["devices"]["results"][0]["pool"]
    assert isinstance(pool, str)
    return pool


async def breathe(random: Random) -> None:
    """Let the others run, for a while that only the seed decides."""
    for _ in range(random.randrange(60)):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(12))
async def test_chaos_ends_in_order(seed: int):
    await play(Chaos(seed))


@pytest.mark.loopback
@pytest.mark.parametrize("seed", range(6))
async def test_chaos_ends_in_order_where_every_search_is_long(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Each goes to a thread, and the world goes on meanwhile."""
    monkeypatch.setattr(background_search, "QUICK_STEPS", 0)
    await play(Chaos(100 + seed))


async def play(chaos: Chaos) -> None:
    running: Running
    async with reconciling(chaos.cluster, controllers=True, backoff_base_seconds=0.01) as running:
        for _ in range(60):
            chaos.act(running.faulty)
            await breathe(chaos.random)
            assert chaos.never_twice()
        running.faulty.faults.clear()
        try:
            await chaos.cluster.until(chaos.settled)
        except TimeoutError:
            raise AssertionError(state(chaos)) from None
        assert chaos.never_twice()
    assert running.of(HeldTwice) == []


def state(chaos: Chaos) -> str:
    """What is left, for the reader of a failure."""
    pods = [record.object for record in chaos.cluster.api.store[POD].scan("")]
    lines = [f"{one['metadata']} {one.get('status')} wants {wanted(one)}" for one in chaos.cluster.claims()]
    lines += [f"{one['metadata']} names {chaos.names(one)} settled {chaos.pod_settled(one)}" for one in pods]
    return "\n".join(lines)
