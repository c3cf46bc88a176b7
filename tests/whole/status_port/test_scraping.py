"""What a scrape says of a reconciler at work, over HTTP, before and after things happened."""

import re
from datetime import datetime

import pytest
from structlog.testing import capture_logs

from reconciler.control.decisions.allocating import Allocated, Freed, Ungated, Waits
from reconciler.control.decisions.declaration import PREFIX
from reconciler.operations.metrics.catalogue import CATALOGUE
from reconciler.operations.metrics.devices import Capacity
from reconciler.operations.metrics.meters import Meters, Readings, metrics_routes
from reconciler.operations.serving.access import local_only
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.server import serving
from reconciler.settings import Settings
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.faulty_transport import Held, answer
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.watched_reconciler import ask, utc_now, watched

pytestmark = pytest.mark.loopback


def fleet(*names: str) -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", *names)])


async def test_values_follow_an_allocation_and_its_end():
    cluster = fleet("d0", "d1")
    async with watched(cluster) as seen:

        async def devices_in(state: str) -> float | None:
            return await seen.value("dra_reconciler_devices", driver=DRIVER, state=state)

        async def is_ready() -> bool:
            return (await seen.get("/readyz")).status == 200

        await seen.until(is_ready)
        assert [await devices_in(state) for state in ("allocatable", "held")] == [2, 0]
        assert await seen.value("dra_reconciler_decision_duration_seconds_count", result="granted") == 0
        cluster.load(claim("a"))
        await seen.heard(Allocated)
        assert [await devices_in(state) for state in ("allocatable", "held")] == [1, 1]
        assert await seen.value("dra_reconciler_decision_duration_seconds_count", result="granted") == 1
        assert await seen.value("dra_reconciler_allocation_duration_seconds_count") == 1
        for resource in ("resourceclaims", "resourceclaims/status"):
            labels = {"verb": "patch", "resource": resource, "result": "ok"}
            assert await seen.value("dra_reconciler_api_requests_total", **labels) == 1
        cluster.delete("a")
        await seen.heard(Freed)
        await cluster.until(lambda: cluster.claim("a") is None)
        assert await seen.value("dra_reconciler_claims_freed_total") == 1

        async def is_free() -> bool:
            return await devices_in("allocatable") == 2

        await seen.until(is_free)


async def test_the_time_since_the_creation_of_a_claim_and_the_oldest_that_is_pending():
    cluster = fleet("d0")
    cluster.load(claim("a"))
    async with watched(cluster) as seen:
        (allocated,) = await seen.heard(Allocated)
        assert (allocated.pending or 0.0) >= 0
        assert await seen.value("dra_reconciler_claim_pending_duration_seconds_count") == 1
        assert await seen.value("dra_reconciler_claims", state="allocated") == 1
        assert await seen.value("dra_reconciler_oldest_pending_claim_timestamp_seconds") is None
        cluster.load(claim("big", 2))
        await seen.heard(Waits)
        created = datetime.fromisoformat(cluster.claim("big")["metadata"]["creationTimestamp"])
        oldest = await seen.value("dra_reconciler_oldest_pending_claim_timestamp_seconds")
        assert oldest == created.timestamp()
        assert await seen.value("dra_reconciler_claims", state="unallocated") == 1
        assert await seen.value("dra_reconciler_slices", node_selection="node_name") == 1


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
async def test_no_series_tells_when_another_was_created(accept: str):
    """They would double the number of series."""
    async with watched(fleet("d0")) as seen:
        text = (await seen.get("/metrics", Accept=accept)).text
    assert "dra_reconciler_claims_freed_total" in text
    assert "_created" not in text


async def test_pending_claims_are_counted_by_reason():
    cluster = fleet("d0")
    cluster.load(claim("big", 2), pod("p", "missing"))
    async with watched(cluster) as seen:
        await seen.told(Waits, reason="ClaimNotFound")
        reason = (await seen.told(Waits, pod=None)).reason
        assert await seen.value("dra_reconciler_pending_claims", reason=reason) == 1
        assert await seen.value("dra_reconciler_pending_claims", reason="ClaimNotFound") == 1
        assert await seen.value("dra_reconciler_pending_claims_by_namespace", claim_namespace="default") == 2
        assert (await seen.value("dra_reconciler_refusals_total", reason=reason) or 0) >= 1
        assert (await seen.value("dra_reconciler_queue_retries_total") or 0) >= 1
        cluster.load(claim("missing", managed=False))
        await seen.heard(Ungated)
        assert await seen.value("dra_reconciler_pending_claims", reason="ClaimNotFound") == 0
        assert await seen.value("dra_reconciler_pods_ungated_total") == 1


async def test_log_line_exemplar_and_decision_have_the_same_id():
    cluster = fleet("d0")
    cluster.load(claim("a"))
    with capture_logs() as lines:
        async with watched(cluster) as seen:
            (told,) = await seen.heard(Allocated)
            families = await seen.families()
    (line,) = [line for line in lines if line["event"] == "claim allocated"]
    assert line["decision_id"] == told.decision_id
    for name in ("decision_duration_seconds", "allocation_duration_seconds"):
        exemplars = [sample.exemplar for sample in families[f"{PREFIX}{name}"].samples if sample.exemplar]
        assert [exemplar.labels for exemplar in exemplars] == [{"decision_id": told.decision_id}]


async def test_claims_of_one_decision_share_its_id():
    cluster = fleet("d0", "d1", "d2")
    cluster.load(claim("a", managed=False), claim("b", managed=False), pod("p", "a", "b"))
    async with watched(cluster) as seen:
        first, second = await seen.heard(Allocated, 2)
        (ungated,) = await seen.heard(Ungated)
        cluster.load(claim("c"))
        third = (await seen.heard(Allocated, 3))[2]
    assert first.decision_id == second.decision_id
    assert len({first.decision_id, ungated.decision_id, third.decision_id}) == 3


async def test_a_conflict_is_counted_as_one():
    cluster = fleet("d0")
    cluster.load(claim("a"))
    async with watched(cluster, prepare=lambda f: f.on("PATCH", "/a/status", answer(409))) as seen:
        await seen.heard(Allocated)
        labels = {"verb": "patch", "resource": "resourceclaims/status"}
        assert await seen.value("dra_reconciler_api_requests_total", **labels, result="conflict") == 1
        assert await seen.value("dra_reconciler_api_requests_total", **labels, result="ok") == 1


async def test_a_device_held_twice_is_a_finding():
    cluster = fleet("d0")
    for name in "ab":
        cluster.load({**claim(name, managed=False), "status": held(DRIVER, "n", "d0")})
    async with watched(cluster) as seen:

        async def is_found() -> bool:
            return await seen.value("dra_reconciler_audit_findings_total", finding="held_twice") == 1

        await seen.until(is_found)


async def test_no_device_metrics_before_all_objects_are_listed():
    """A fleet put together at every scrape of a listing that takes minutes would hold the loop."""
    cluster = fleet("d0")
    slow = Held()
    async with watched(cluster, prepare=lambda f: f.on("GET", "/resourceclaims", slow)) as seen:
        await slow.arrived.wait()

        async def slices_are_listed() -> bool:
            return (await seen.get("/readyz/listed-resourceslices")).status == 200

        await seen.until(slices_are_listed)
        assert (await seen.families())["dra_reconciler_devices"].samples == []
        slow.go.set()


async def test_names_and_labels_are_those_of_the_catalogue():
    cluster = fleet("secret-device")
    cluster.load(claim("secret-claim"), claim("secret-big", 9), pod("secret-pod", "secret-claim"))
    async with watched(cluster, policy=("least-loss",), preemption="advise") as seen:
        await seen.heard(Allocated)
        await seen.heard(Waits)
        text = (await seen.get("/metrics")).text
        families = await seen.families()
    assert "secret" not in text
    ours = {name: family for name, family in families.items() if name.startswith(PREFIX)}
    assert set(ours) == {spec.full_name.removesuffix("_total") for spec in CATALOGUE}
    for spec in CATALOGUE:
        for sample in ours[spec.full_name.removesuffix("_total")].samples:
            assert set(sample.labels) - {"le"} == set(spec.label_names)
    assert {"process_resident_memory_bytes", "python_gc_collections"} <= set(families)


def test_names_follow_prometheus_rules():
    assert len({spec.name for spec in CATALOGUE}) == len(CATALOGUE)
    for spec in CATALOGUE:
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", spec.name)
        assert not {"counter", "gauge", "histogram", "summary"} & {*spec.name.split("_")}, "promtool finds it"
        assert spec.name.endswith("_total") == (spec.kind == "counter"), spec.name
        assert spec.kind != "histogram" or (spec.name.endswith("_seconds") and spec.buckets)
        assert not {"claim", "pod", "device", "node", "namespace"} & set(spec.label_names)
        assert spec.help.rstrip().endswith(".")


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4"),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text",
        ),
        ("text/html", "text/plain; version=0.0.4"),
    ],
)
async def test_the_scraper_chooses_the_format(accept: str, content_type: str):
    async with watched(fleet("d0")) as seen:
        found = await seen.get("/metrics", Accept=accept)
    assert found.headers["Content-Type"].startswith(content_type)


async def test_other_metrics_are_served_if_device_metrics_fail():
    def broken() -> Snapshot:
        raise ValueError("odd")

    meters, readings = Meters(process=False), Readings()
    port = StatusPort(local_only)
    port.add(*metrics_routes(meters, readings))
    readings.add([], refresh=[Capacity(broken).refresh])
    with capture_logs() as lines:
        async with serving(port, Settings(), now=utc_now) as url:
            found = await ask(f"{url}/metrics")
    assert found.status == 200
    assert "dra_reconciler_claims_freed_total 0.0" in found.text
    assert [line["event"] for line in lines] == ["device metrics failed"]


@pytest.mark.parametrize(
    ("reason", "result"), [("", "granted"), ("DevicesInUse", "refused"), ("SearchGaveUp", "gave_up")]
)
def test_every_answer_counts_once_by_its_result(reason: str, result: str):
    meters = Meters(process=False)
    meters.answered(reason, 0.25, "x-1")
    value = meters.registry.get_sample_value
    for name in ("granted", "refused", "gave_up"):
        labels = {"result": name}
        assert value("dra_reconciler_decision_duration_seconds_count", labels) == (name == result)
        assert value("dra_reconciler_decision_duration_seconds_sum", labels) == (
            0.25 if name == result else 0
        )
    assert value("dra_reconciler_refusals_total", {"reason": reason}) == (1 if reason else None)
