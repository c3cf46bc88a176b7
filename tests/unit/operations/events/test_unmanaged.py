"""Claims that nobody allocates on the embedded server get one Event each."""

from random import random
from typing import Any

import pytest

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.units import Unit
from reconciler.operations.events.events import Notice
from reconciler.operations.events.unmanaged import UnmanagedClaims
from reconciler.state.store import Store
from tests.tools.builders import Object, claim, request

LABEL = {"dra-reconciler.io/managed": "true"}
GATE = {"schedulingGates": [{"name": "dra-reconciler.io/allocation"}]}


def plain(name: str = "c", **metadata: Any) -> Object:
    made = claim(name, request())
    made["metadata"] = {"name": name, "namespace": "default", "uid": name, **metadata}
    return made


def pod(**spec: Any) -> Object:
    entry = {"name": "r", "resourceClaimName": "c"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": [], "resourceClaims": [entry], **spec},
    }


class World:
    def __init__(self, *objects: Object, all_claims: bool = False) -> None:
        queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=random)
        self.intake = Intake(Store(Semantics()), queue, ("ResourceClaim", "Pod"), lambda _: None)
        self.notices: list[Notice] = []
        ours = Ownership(all_claims=all_claims, alone=True)
        self.checked = UnmanagedClaims(
            self.intake, ours, record=self.notices.extend, version="resource.k8s.io/v1"
        )
        self.load(*objects)

    def load(self, *objects: Object) -> None:
        for raw in objects:
            self.intake.take(Changed(raw["kind"], read(raw)))

    def reported(self, checks: int) -> list[str]:
        for _ in range(checks):
            self.checked.check()
        return [str(notice.regarding.key) for notice in self.notices]


async def test_a_claim_without_label_and_gated_pod_is_reported_once_with_the_remedy():
    world = World(plain())
    assert world.reported(checks=1) == []
    assert world.reported(checks=3) == ["default/c"]
    (notice,) = world.notices
    assert notice.reason == "NotManaged"
    for part in ("dra-reconciler.io/managed=true", "dra-reconciler.io/allocation", "--all-claims"):
        assert part in notice.note
    assert len(notice.note) < 1024


@pytest.mark.parametrize(
    ("objects", "all_claims", "count"),
    [
        pytest.param([plain(labels=LABEL)], False, 0, id="with the label"),
        pytest.param(
            [plain(labels={**LABEL, "dra-reconciler.io/managed": "yes"})], False, 1, id="a wrong label"
        ),
        pytest.param([plain()], True, 0, id="all claims are ours"),
        pytest.param([plain(), pod(**GATE)], False, 0, id="a gated pod"),
        pytest.param([plain(), pod()], False, 1, id="a pod without the gate"),
        pytest.param(
            [plain(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])], False, 0, id="being deleted"
        ),
        pytest.param(
            [{**plain(), "status": {"allocation": {"devices": {"results": []}}}}], False, 0, id="allocated"
        ),
    ],
)
async def test_only_claims_that_stay_pending_are_reported(
    objects: list[Object], all_claims: bool, count: int
):
    assert len(World(*objects, all_claims=all_claims).reported(checks=3)) == count


async def test_a_claim_whose_gated_pod_follows_is_not_reported():
    world = World(plain())
    world.reported(checks=1)
    world.load(pod(**GATE))
    assert world.reported(checks=2) == []


async def test_a_claim_that_is_created_again_is_reported_again():
    world = World(plain())
    world.reported(checks=2)
    world.intake.take(Removed("ResourceClaim", ObjectKey("default", "c")))
    world.load(plain(uid="another"))
    assert world.reported(checks=3) == ["default/c", "default/c"]
