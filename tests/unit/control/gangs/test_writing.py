"""Writes to pods of gangs that get no answer."""

from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import SEAT, GangKey, GangSource, SeatMark
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.pod_writer import PodWriter
from reconciler.control.gangs.handler import GangWriter
from reconciler.control.gangs.planner import Place, UngateAll
from reconciler.errors import Undecided
from tests.tools.gangs import annotated
from tests.tools.scripted_loop import NoWriter
from tests.tools.unit_pictures import as_pod, intake

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
