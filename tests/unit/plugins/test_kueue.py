"""The admission check goes on whatever happens to one Workload, and large ones do not stop the loop."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.api.objects.changes import Replaced
from reconciler.api.objects.core import WORKLOAD
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.validating import validated
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Nominated, NominationDropped, WorkloadChecked
from reconciler.control.loop import Failures
from reconciler.control.ownership import Ownership
from reconciler.ha.shard import Shard
from reconciler.plugins.kueue.checker import SOONER, AdmissionChecker, KueueWakeUps, Terms
from reconciler.plugins.kueue.objects import CONTROLLER, AdmissionCheck, ResourceFlavor, Workload
from reconciler.plugins.kueue.questions import QUICK_PODS
from reconciler.plugins.kueue.served import KueueWriter
from reconciler.plugins.provisioning.provisioner import groups_of
from reconciler.state.nominations import of_workload
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, node, pod, template
from tests.tools.unit_pictures import intake, put, typed

KUEUE = "kueue.x-k8s.io/v1beta2"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Writes(KueueWriter):
    """Writes nothing, and fails for one Workload as no server does."""

    def __init__(self) -> None:
        """Without a client."""
        self.tried: list[tuple[str, float]] = []

    async def activate(self, check: AdmissionCheck, condition: Object) -> None:
        """It is always served."""

    async def write_state(self, workload: Workload, at: int, state: Any) -> None:  # noqa: ARG002
        self.tried.append((workload.key.name, asyncio.get_running_loop().time()))
        if workload.key.name == "bad":
            raise ZeroDivisionError


def workload(
    name: str, count: int, *, state: str = "Pending", reserved: str = "2026-01-01T00:00:00Z"
) -> Workload:
    pods = {
        "name": "main",
        "count": count,
        "template": {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}},
    }
    quota = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": reserved}
    found = validated(Workload, {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"podSets": [pods]},
        "status": {
            "conditions": [quota],
            "admissionChecks": [{"name": "room", "state": state}],
        },
    })  # fmt: skip
    assert isinstance(found, Workload)
    return found


class Checking:
    """A checker over a node with some devices."""

    def __init__(self, count: int, *workloads: Workload) -> None:
        self.told: list[Decision] = []
        self.failures, self.writes = Failures(), Writes()
        self.intake = intake(
            device_class(), node("n"), devices("n", *map(str, range(count))), report=self.told.append
        )
        self.intake.listed.set()
        leads = asyncio.Event()
        leads.set()
        self.checker = AdmissionChecker(
            self.intake,
            self.writes,
            Ownership(alone=True),
            Terms("room", 600.0, 60, 600.0),
            KueueWakeUps(self.intake),
            steps=100_000,
            leads=leads,
            clock=asyncio.get_running_loop().time,
            now=lambda: NOW,
            report=self.told.append,
            failures=self.failures,
        )
        check = {"metadata": {"name": "room"}, "spec": {"controllerName": CONTROLLER}}
        self.take("AdmissionCheck", validated(AdmissionCheck, {"kind": "AdmissionCheck", **check}))
        self.take("ResourceFlavor", validated(ResourceFlavor, {"metadata": {"name": "unused"}}))
        self.take("ResourceClaimTemplate", typed(template("t")))
        self.take("Workload", *workloads)

    def take(self, kind: str, *objects: ApiObject) -> None:
        self.checker.objects.take(Replaced(kind, objects, ()))

    async def run(self, seconds: float) -> None:
        """Check for so long."""
        task = asyncio.create_task(self.checker.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.wait([task])


async def test_an_internal_error_about_one_workload_is_counted_and_tried_again_later():
    checking = Checking(2, workload("bad", 1), workload("good", 1))
    await checking.run(SOONER + 10)
    tried = [when for name, when in checking.writes.tried if name == "bad"]
    assert len(tried) == checking.failures.count == 2
    assert tried[1] - tried[0] >= SOONER
    assert {one.workload.name for one in checking.told if isinstance(one, WorkloadChecked)} == {"good"}


async def test_a_large_workload_is_built_in_a_thread_and_its_room_is_held_node_by_node():
    count = QUICK_PODS + 1
    checking = Checking(count, workload("large", count))
    await checking.run(1)
    (nominated,) = [one for one in checking.told if isinstance(one, Nominated)]
    assert len(nominated.devices) == count
    (held,) = checking.intake.store.nominations
    assert [(place.node, dict(place.room)) for place in held.places] == [("n", {"pods": count})]


async def with_its_pod_bound() -> Checking:
    """A Workload of one pod that got room, and that pod on its node; Kueue has not shown `Admitted`."""
    checking = Checking(2, workload("job", 1))
    await checking.run(1)
    checking.take("Workload", workload("job", 1, state="Ready"))
    bound = pod("new", gates=(), nodeName="n")
    bound["metadata"]["annotations"] = {WORKLOAD: "job"}
    put(checking.intake, bound)
    return checking


async def test_a_workload_whose_pods_are_seen_before_its_admission_is_not_asked_about_again():
    checking = await with_its_pod_bound()
    await checking.run(SOONER + 10)
    assert [one.why for one in checking.told if isinstance(one, NominationDropped)] == ["its pods are bound"]
    assert len(checking.writes.tried) == 1
    # Another leader answered when it was admitted again, and the room expired: none of its new pods came.
    checking.take("Workload", workload("job", 1, state="Ready", reserved="2026-01-02T00:00:00Z"))
    await checking.run(1)
    assert len(checking.writes.tried) == 2


async def test_room_that_was_used_once_and_then_held_again_is_asked_about_when_it_expires():
    checking = await with_its_pod_bound()
    await checking.run(1)
    checking.take("Workload", workload("job", 1, state="Pending"))  # under the same quota
    await checking.run(1)
    checking.take("Workload", workload("job", 1, state="Ready"))
    checking.intake.nominating.drop(of_workload(ObjectKey("default", "job")), "it expired")
    await checking.run(SOONER + 10)
    assert len([one for one in checking.told if isinstance(one, Nominated)]) == 3


# -- For which pods nodes may be requested.


@pytest.mark.parametrize(
    ("ours", "count"),
    [
        (Ownership(drivers=frozenset({DRIVER})), 1),
        (Ownership(classes=frozenset({"gpu"})), 1),
        (Ownership(classes=frozenset({"other"})), 0),
        (Ownership(alone=True, shard=Shard(drivers=frozenset({DRIVER}))), 1),
        (Ownership(alone=True, shard=Shard(drivers=frozenset({"other.example.com"}))), 0),
    ],
)
async def test_nodes_are_requested_only_for_pods_that_we_would_serve(ours: Ownership, count: int):
    found = intake(device_class(), claim("c"), pod("p", "c"))
    assert len(groups_of(found.store, ours)) == count
