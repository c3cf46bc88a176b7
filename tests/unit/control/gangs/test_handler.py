"""Which changes put a gang into the queue; writes to its pods that get no answer."""

from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.aio.queue import Queue
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import SEAT, GangKey, GangSource, SeatMark
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.cluster.pod_writer import PodWriter
from reconciler.control.gangs.handler import GangHandler, GangWriter
from reconciler.control.gangs.planner import GangPlanner, Place, Solve, UngateAll
from reconciler.control.gangs.search import Answer, GangSearch
from reconciler.control.handler import Ask, Decided, Given
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.settler import Settler
from reconciler.control.units import Unit, gang_unit
from reconciler.errors import Gone, Undecided
from reconciler.state.store import Store
from tests.tools.gangs import annotated, grouped, pod_group
from tests.tools.scripted_loop import NoWriter
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.unit_pictures import as_pod, intake, key, put, remove

GANG_UNIT = gang_unit(GangKey("default", GangSource.ANNOTATION, "g"))


class Recorded(Queue[Unit]):
    """Keeps what was put since the last look."""

    def __init__(self) -> None:
        super().__init__(base=1.0, cap=1.0, random=lambda: 1.0)
        self.seen: list[Unit] = []

    def put(self, item: Unit, *, priority: object = (), after: float = 0.0) -> None:  # noqa: ARG002
        self.seen.append(item)

    def since(self) -> list[Unit]:
        found, self.seen = self.seen, []
        return found


def recorded_intake() -> tuple[Intake, Recorded]:
    queue = Recorded()
    return Intake(Store(Semantics()), queue, [], lambda _: None), queue


async def test_a_claim_of_a_member_queues_its_gang():
    found, queue = recorded_intake()
    put(found, annotated("p0", "a", size=2))
    assert GANG_UNIT in queue.since()
    put(found, claim("a", managed=False))
    assert GANG_UNIT in queue.since()


async def test_a_member_that_goes_queues_its_gang_also_if_it_was_the_last():
    found, queue = recorded_intake()
    put(found, annotated("p0", size=2))
    queue.since()
    remove(found, "Pod", "p0")
    assert GANG_UNIT in queue.since()


async def test_a_group_queues_its_gang_and_its_pods():
    """It may have become a gang, or none."""
    found, queue = recorded_intake()
    put(found, grouped("p0"))
    queue.since()
    put(found, pod_group())
    assert [str(unit) for unit in queue.since()] == ["pod default/p0", "gang default/podgroup/g"]


async def test_a_gang_without_gated_pods_is_not_queued():
    found, queue = recorded_intake()
    running = annotated("p0", "a", size=2)
    running["spec"]["schedulingGates"] = []
    put(found, running, claim("a", managed=False))
    assert GANG_UNIT not in queue.since()


G = GangKey("default", GangSource.ANNOTATION, "g")


class Pods(PodWriter):
    """A server with one pod, which leaves the first patch unanswered and does not apply it."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.lost: list[Any] = []
        self.applied: list[Any] = []

    async def read(self, key: ObjectKey) -> Pod | None:  # noqa: ARG002
        return self.pod

    async def patch(self, pod: Pod, steps: Sequence[Any]) -> Pod:
        return await self.merge(pod, {"steps": steps})

    async def merge(self, pod: Pod, patch: Any) -> Pod:  # noqa: ARG002
        if not self.lost:
            self.lost.append(patch)
            raise Undecided("no answer")
        self.applied.append(patch)
        version = str(int(self.pod.metadata.resource_version) + 1)
        metadata = self.pod.metadata.model_copy(update={"resource_version": version})
        self.pod = self.pod.model_copy(update={"metadata": metadata})
        return self.pod


async def test_an_unanswered_removal_of_a_gate_is_made_impossible_before_anything_else_is_done():
    """Else it might arrive after the devices of the pod were given back."""
    pod = as_pod(annotated("p0", size=2))
    found, pods = intake(), Pods(pod)
    found.take(Changed("Pod", pod))
    writer = GangWriter(found, NoWriter(), pods, lambda _: None)
    with pytest.raises(Undecided):
        await writer.ungate(UngateAll(G, (Place(pod, "n", pinned=True),)))
    assert writer.is_unanswered(pod.key)
    await writer.resolve(G)
    assert pods.pod.metadata.resource_version != pod.metadata.resource_version
    assert not writer.is_unanswered(pod.key)
    assert pods.applied[-1] == {"metadata": {"annotations": {SEAT: None}}}


async def test_the_node_of_a_pod_is_recorded_for_a_successor():
    pod = as_pod(annotated("p0", size=2))
    found, pods = intake(), Pods(pod)
    pods.lost.append("nothing is lost")
    found.take(Changed("Pod", pod))
    await GangWriter(found, NoWriter(), pods, lambda _: None).record(G, SeatMark(G, 2, "n1"), pod)
    assert pods.applied == [{"metadata": {"annotations": {SEAT: "annotation/g 2 n1"}}}]


class AtOnce(GangSearch):
    """Answers in the turn that asks, however long that takes."""

    def answer(self, solve: Solve) -> Answer:
        return self.on_loop(solve, UNLIMITED)


class Deleted(NoWriter):
    """The server has no claim any more."""

    async def write(self, plan: Plan, claim: ResourceClaim) -> ResourceClaim:  # noqa: ARG002
        raise Gone("deleted")


async def test_a_claim_that_goes_before_its_write_began_leaves_nothing_of_the_gang_assumed():
    gang = [annotated("p0", "a", size=2), annotated("p1", "b", size=2)]
    fleet = [device_class(), node("n0"), devices("n0", "d0", "d1"), claim("a", managed=False)]
    found, owned = intake(*fleet, claim("b", managed=False), *gang), Ownership(alone=True)
    claims = Planner(found.store, found.roster, found.placement, owned, found.reclaimed)
    pods = Pods(as_pod(gang[0]))
    serving = GangHandler(
        found,
        GangPlanner(found.units, claims, found.nodes.on_demand),
        AtOnce(found, owned, steps=1000),
        Settler(found, Deleted(), lambda _: None),
        GangWriter(found, NoWriter(), pods, lambda _: None),
        clock=lambda: 0.0,
        report=lambda _: None,
    )
    asked = serving.next(GANG_UNIT)
    assert isinstance(asked, Ask)
    (given,) = asked.decide(())
    assert isinstance(given, Given)
    uids = [found.store.claims[key(name)].metadata.uid for name in ("a", "b")]
    given.assume()
    assert all(found.store.assumed(uid) for uid in uids)
    remove(found, "ResourceClaim", "a")
    with pytest.raises(Gone):
        await given.write(Decided("d1", 0.0))
    assert not any(found.store.assumed(uid) for uid in uids)
