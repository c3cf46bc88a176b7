"""What is sent for a decision, in which order, and what is left behind when it is cut short."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from structlog.testing import capture_logs

from reconciler.api.objects.claims import (
    ALLOCATED_AT,
    ANNOUNCED,
    FINALIZER,
    TIERS,
    AllocatedDevice,
    Allocation,
    DeviceAllocation,
    ResourceClaim,
    is_ours,
)
from reconciler.api.objects.core import GATE, Pod
from reconciler.api.objects.gangs import SEAT
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.versions.reading import read
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import POD, Served
from reconciler.cluster.writer import Writer
from reconciler.errors import Conflict, Gone, Inconsistent, Rejected, Retry, Undecided
from tests.tools.cluster_objects import CLAIMS, claim
from tests.tools.scripted_transport import Scripted, Sent, ok, status

SERVED = Served({"ResourceClaim": CLAIMS, "Pod": POD})
NOON = datetime(2026, 3, 1, 14, 0, 5, 999, tzinfo=timezone(timedelta(hours=2)))
PATH = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"

RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d-0"}
STAMP = "2026-03-01T12:00:05Z"
DEVICES = "13e86099314a30e2"
"""Of the devices in `RESULT`"""
ALLOCATED = {"devices": {"results": [RESULT]}, "allocationTimestamp": STAMP}


def make_writer(*answers: Any) -> tuple[Writer, Scripted]:
    transport = Scripted(*answers)
    writer = Writer(Client(transport), SERVED, withdrawals=set(), now=lambda: NOON)
    return writer, transport


def as_claim(raw: dict[str, Any]) -> ResourceClaim:
    found = read(raw)
    assert isinstance(found, ResourceClaim)
    return found


def as_pod(*gates: str) -> Pod:
    raw = {"metadata": {"name": "p", "namespace": "default", "resourceVersion": "5"}, "kind": "Pod"}
    found = read({**raw, "apiVersion": "v1", "spec": {"schedulingGates": [{"name": name} for name in gates]}})
    assert isinstance(found, Pod)
    return found


def plan_for(found: ResourceClaim, **allocation: Any) -> Plan:
    device = AllocatedDevice(request="r", driver="gpu.example.com", pool="p", device="d-0")
    return Plan(
        claim=found.key,
        uid=found.metadata.uid,
        resource_version=found.metadata.resource_version,
        node="n",
        allocation=Allocation(devices=DeviceAllocation(results=(device,), **allocation)),
    )


def sent(transport: Scripted) -> list[tuple[str, str, Any]]:
    return [(asked.method, asked.path.removeprefix(PATH), asked.body) for asked in transport.requests]


def marking(version: str, finalizers: list[str] | None, stamp: str | None) -> dict[str, Any]:
    """The patch that sets finalizers, and the mark by which we know our allocation."""
    ours = {ALLOCATED_AT: f"{stamp} {DEVICES}"}
    annotations = ours if stamp is not None else {ALLOCATED_AT: None, TIERS: None}
    return {"metadata": {"resourceVersion": version, "finalizers": finalizers, "annotations": annotations}}


def before_status() -> dict[str, Any]:
    """The claim as it is between the two requests of a write."""
    return claim(version="11", finalizers=[FINALIZER])


async def test_the_finalizer_is_written_before_the_allocation():
    """A claim deleted between an allocation and its finalizer would never give its devices back."""
    before = as_claim(claim(version="10", finalizers=["other/one"]))
    writer, transport = make_writer(
        ok(claim(version="11", finalizers=["other/one", FINALIZER])),
        ok(claim(version="12", finalizers=["other/one", FINALIZER], status={"allocation": ALLOCATED})),
    )
    written = await writer.write(plan_for(before), before)
    assert sent(transport) == [
        ("PATCH", "", marking("10", ["other/one", FINALIZER], STAMP)),
        (
            "PATCH",
            "/status",
            [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "11"},
                {"op": "add", "path": "/status/allocation", "value": ALLOCATED},
            ],
        ),
    ]
    assert [asked.content_type for asked in transport.requests] == [MERGE, JSON]
    assert written.metadata.resource_version == "12"
    assert written.allocation is not None


async def test_a_claim_that_others_allocated_before_is_marked_as_ours_now():
    """They leave the finalizer behind, and may leave an older mark."""
    before = as_claim(claim(finalizers=[FINALIZER], annotations={ALLOCATED_AT: "2020-01-01T00:00:00Z"}))
    writer, transport = make_writer(
        ok(claim(version="11", finalizers=[FINALIZER])),
        ok(claim(version="12", status={"allocation": ALLOCATED})),
    )
    await writer.write(plan_for(before), before)
    assert sent(transport)[0] == ("PATCH", "", marking("10", [FINALIZER], STAMP))
    assert transport.requests[1].body[0]["value"] == "11"


def announced(**more: Any) -> ResourceClaim:
    """A claim as an admission policy makes it."""
    notes = {ALLOCATED_AT: ANNOUNCED, **more.pop("annotations", {})}
    return as_claim(claim(finalizers=[FINALIZER], annotations=notes, **more))


async def test_an_announced_claim_is_allocated_in_one_request():
    before = announced()
    config = [{"source": "FromClaim", "opaque": {"driver": "gpu", "parameters": {"a": None}}}]
    signature = {"driver": "dra-reconciler.io", "parameters": {"allocatedAt": f"{STAMP} {DEVICES}"}}
    allocated = {
        "devices": {"results": [RESULT], "config": [*config, {"source": "FromClaim", "opaque": signature}]},
        "allocationTimestamp": STAMP,
    }
    after = claim(version="11", annotations={ALLOCATED_AT: ANNOUNCED}, status={"allocation": allocated})
    writer, transport = make_writer(ok(after))
    written = await writer.write(plan_for(before, config=config), before)
    assert sent(transport) == [
        (
            "PATCH",
            "/status",
            [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "10"},
                {"op": "add", "path": "/status/allocation", "value": allocated},
            ],
        )
    ]
    assert transport.requests[0].content_type == JSON
    assert is_ours(written)


async def test_an_announcement_is_taken_back_as_a_mark_is():
    writer, transport = make_writer(ok(claim(version="11")))
    await writer.withdraw(announced())
    assert sent(transport) == [("PATCH", "", marking("10", None, None))]


@pytest.mark.parametrize(
    ("before", "annotations", "configs"),
    [
        pytest.param(
            as_claim(claim(annotations={ALLOCATED_AT: ANNOUNCED})), (), 0, id="somebody removed the finalizer"
        ),
        pytest.param(announced(), ((TIERS, "numaNode"),), 0, id="there is more to be written"),
        pytest.param(announced(annotations={SEAT: "a/g 2 n"}), (), 0, id="there is something to be removed"),
        pytest.param(announced(), (), 64, id="the allocation has no place for the mark"),
    ],
)
async def test_an_announcement_that_does_not_suffice_is_replaced(
    before: ResourceClaim, annotations: tuple[tuple[str, str], ...], configs: int
):
    writer, transport = make_writer(ok(before_status()), ok(claim(status={"allocation": ALLOCATED})))
    plan = replace(plan_for(before, config=[{"source": "FromClass"}] * configs), annotations=annotations)
    await writer.write(plan, before)
    first, second = transport.requests
    assert first.body["metadata"]["finalizers"] == [FINALIZER]
    assert first.body["metadata"]["annotations"][ALLOCATED_AT] == f"{STAMP} {DEVICES}"
    assert len(second.body[1]["value"]["devices"].get("config", [])) == configs


async def test_nulls_in_opaque_parameters_are_written_as_they_are():
    before = as_claim(claim(finalizers=[FINALIZER]))
    config = [{"source": "FromClaim", "opaque": {"driver": "gpu", "parameters": {"a": None, "b": [None]}}}]
    writer, transport = make_writer(ok(before_status()), ok(claim(status={"allocation": ALLOCATED})))
    await writer.write(plan_for(before, config=config), before)
    sent_config = transport.requests[1].body[1]["value"]["devices"]["config"]
    assert sent_config[0]["opaque"]["parameters"] == {"a": None, "b": [None]}


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({"deletionTimestamp": "2026-03-01T11:00:00Z"}, id="being deleted"),
        pytest.param({"status": {"allocation": ALLOCATED}}, id="allocated"),
    ],
)
async def test_a_claim_that_is_allocated_or_deleted_is_left_alone(state):
    before = as_claim(claim(**state))
    writer, transport = make_writer()
    with pytest.raises(Conflict, match="default/c is"):
        await writer.write(plan_for(before), before)
    assert transport.requests == []


async def test_a_plan_without_a_version_is_not_written():
    """It would overwrite whatever is there."""
    before = as_claim(claim(version="", finalizers=[FINALIZER]))
    writer, transport = make_writer()
    with pytest.raises(Inconsistent):
        await writer.write(plan_for(before), before)
    assert transport.requests == []


FAILURES = [
    pytest.param(status(409, reason="Conflict"), Conflict, id="409: somebody was first"),
    pytest.param(status(404), Gone, id="404: deleted meanwhile"),
    pytest.param(status(422), Rejected, id="422: invalid"),
    pytest.param(status(403), Rejected, id="403: no permission on the binding"),
    pytest.param(status(500), Undecided, id="500: may be stored"),
    pytest.param(status(504), Undecided, id="504: may be stored"),
    pytest.param(status(429), Retry, id="429: not begun"),
    pytest.param(Undecided("connection reset"), Undecided, id="no answer"),
    pytest.param(
        ok({"kind": "ResourceClaim", "apiVersion": "v9"}), Undecided, id="an answer nobody can read"
    ),
]


@pytest.mark.parametrize(("failure", "error"), FAILURES)
@pytest.mark.parametrize("step", [0, 1], ids=["finalizer", "allocation"])
async def test_a_failure_is_told_and_nothing_more_is_sent(step, failure, error):
    before = as_claim(claim())
    held = [ok(claim(version="11", finalizers=[FINALIZER]))][:step]
    writer, transport = make_writer(*held, failure)
    with pytest.raises(error) as caught:
        await writer.write(plan_for(before), before)
    assert type(caught.value) is error
    assert len(transport.requests) == step + 1


@pytest.mark.parametrize("step", [0, 1], ids=["finalizer", "allocation"])
async def test_cancelling_at_either_request_sends_nothing_after_it(step):
    before = as_claim(claim())
    writer, transport = make_writer(*[ok(claim(version="11", finalizers=[FINALIZER]))][:step])
    task = asyncio.create_task(writer.write(plan_for(before), before))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(transport.requests) == step + 1


async def test_a_field_that_the_server_dropped_is_reported():
    """Without its shareID a share reads as the whole device."""
    before = as_claim(claim(finalizers=[FINALIZER]))
    device = AllocatedDevice(request="r", driver="gpu.example.com", pool="p", device="d-0", share_id="s")
    plan = Plan(
        before.key, "u-1", "10", "n", allocation=Allocation(devices=DeviceAllocation(results=(device,)))
    )
    writer, _ = make_writer(ok(before_status()), ok(claim(status={"allocation": ALLOCATED})))
    with capture_logs() as logs:
        await writer.write(plan, before)
    assert [entry["log_level"] for entry in logs] == ["warning"]


async def test_what_a_plan_says_is_written_with_the_mark():
    writer, transport = make_writer(ok(claim(version="11", finalizers=[FINALIZER])), ok(claim(version="12")))
    plan = replace(plan_for(as_claim(claim())), annotations=((TIERS, "node"),))
    await writer.write(plan, as_claim(claim()))
    assert sent(transport)[0][2]["metadata"]["annotations"][TIERS] == "node"


async def test_withdrawing_clears_the_allocation_then_the_finalizer():
    before = as_claim(claim(finalizers=[FINALIZER, "other/one"], status={"allocation": ALLOCATED}))
    writer, transport = make_writer(
        ok(claim(version="11", finalizers=[FINALIZER, "other/one"])),
        ok(claim(version="12", finalizers=["other/one"])),
    )
    left = await writer.withdraw(before)
    assert sent(transport) == [
        ("PATCH", "/status", {"metadata": {"resourceVersion": "10"}, "status": {"allocation": None}}),
        ("PATCH", "", marking("11", ["other/one"], None)),
    ]
    assert left.metadata.finalizers == ("other/one",)


async def test_withdrawing_after_only_the_finalizer_was_written_removes_it():
    before = as_claim(claim(finalizers=[FINALIZER]))
    writer, transport = make_writer(ok(claim(version="11")))
    await writer.withdraw(before)
    assert sent(transport) == [("PATCH", "", marking("10", None, None))]


async def test_a_claim_without_allocation_and_finalizer_is_withdrawn_already():
    before = as_claim(claim())
    writer, transport = make_writer()
    assert await writer.withdraw(before) is before
    assert transport.requests == []


RESERVED = {"allocation": ALLOCATED, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u-2"}]}
DELETED: dict[str, Any] = {"deletionTimestamp": "2026-03-01T11:00:00Z", "finalizers": [FINALIZER]}


@pytest.mark.parametrize("how", ["withdraw", "release"])
async def test_a_reserved_claim_keeps_its_allocation(how):
    before = as_claim(claim(status=RESERVED, **DELETED))
    writer, transport = make_writer()
    with pytest.raises(Conflict, match="reserved for p"):
        await getattr(writer, how)(before)
    assert transport.requests == []


async def test_releasing_frees_a_claim_that_is_being_deleted():
    before = as_claim(claim(status={"allocation": ALLOCATED}, **DELETED))
    writer, transport = make_writer(ok(claim(version="11", **DELETED)), ok(claim(version="11")))
    await writer.release(before)
    assert [path for _, path, _ in sent(transport)] == ["/status", ""]


async def test_releasing_a_claim_that_was_never_allocated_removes_the_finalizer():
    before = as_claim(claim(**DELETED))
    writer, transport = make_writer(ok(claim()))
    await writer.release(before)
    assert [path for _, path, _ in sent(transport)] == [""]


async def test_a_claim_that_stays_is_not_released():
    writer, transport = make_writer()
    with pytest.raises(Conflict, match="not being deleted"):
        await writer.release(as_claim(claim(finalizers=[FINALIZER])))
    assert transport.requests == []


@pytest.mark.parametrize(
    ("gates", "left"),
    [
        pytest.param([GATE], None, id="the only gate"),
        pytest.param(["first", GATE, "last"], [{"name": "first"}, {"name": "last"}], id="one of three"),
    ],
)
async def test_only_our_gate_is_removed_and_only_from_the_version_we_saw(gates, left):
    stored = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "default"}}
    writer, transport = make_writer(ok(stored))
    await writer.ungate(as_pod(*gates))
    assert transport.requests == [
        Sent(
            "PATCH",
            "/api/v1/namespaces/default/pods/p",
            query={"fieldValidation": "Ignore"},
            body={"metadata": {"resourceVersion": "5"}, "spec": {"schedulingGates": left}},
            content_type=MERGE,
        )
    ]


async def test_a_pod_without_our_gate_is_left_alone():
    writer, transport = make_writer()
    pod = as_pod("another")
    assert await writer.ungate(pod) is pod
    assert transport.requests == []


async def test_reading_a_claim_that_does_not_exist_gives_none():
    writer, _ = make_writer(status(404), ok(claim(version="77")))
    assert await writer.read_claim(ObjectKey("default", "c")) is None
    found = await writer.read_claim(ObjectKey("default", "c"))
    assert found is not None
    assert found.metadata.resource_version == "77"
