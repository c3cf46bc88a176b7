"""Deciding without a cluster: order, pods, templates, nodes. Tests the flow, not the allocator."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.api.manifests.bundle import Bundle, bundle, read_bundle
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.plan import Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.control.handler import Blocked
from reconciler.control.offline import Report, decide
from tests.tools.checkout import SHARED, needs
from tests.tools.short_manifests import CLASS, claim, gpus, node, pod, template, together

SAMPLES = SHARED / "samples"
NOW = datetime(2025, 6, 1, 12, 0, 0, tzinfo=UTC)


def read(*documents: str) -> Bundle:
    found = bundle(of_text("f.yaml", together(*documents)))
    assert not found.refused
    return found


def decided(*documents: str) -> Report:
    return decide(read(CLASS, *documents), Semantics())


def devices(report: Report) -> dict[str, list[str]]:
    """Claim -> `pool/device` of what it got."""
    return {
        plan.claim.name: [f"{device.pool}/{device.device}" for device in plan.allocation.devices.results]
        for granted in report.granted
        for plan in granted.plans
    }


def reasons(report: Report) -> list[str]:
    return [answer.message for answer in report.waiting]


def held(name: str, device: str, uid: str = "") -> str:
    result = f"{{request: gpu, driver: gpu.example.com, pool: n1, device: {device}}}"
    return (
        claim(name, metadata=f"uid: '{uid}'")
        + f"status: {{allocation: {{devices: {{results: [{result}]}}}}}}\n"
    )


def test_claims_get_devices_in_the_order_of_their_names():
    report = decided(gpus("n1"), claim("b"), claim("a"), claim("c"))
    assert devices(report) == {"a": ["n1/gpu-0"], "b": ["n1/gpu-1"]}
    assert [answer.claims[0].name for answer in report.waiting] == ["c"]


def test_older_claims_come_first_and_those_without_a_time_last():
    young, old = "creationTimestamp: '2025-01-02T00:00:00Z'", "creationTimestamp: '2025-01-01T00:00:00Z'"
    report = decided(gpus("n1", 3), claim("new"), claim("young", metadata=young), claim("old", metadata=old))
    assert devices(report) == {"old": ["n1/gpu-0"], "young": ["n1/gpu-1"], "new": ["n1/gpu-2"]}


def test_claims_of_pods_with_higher_priority_come_first():
    report = decided(
        gpus("n1", 3),
        claim("alone"),
        pod("low", "gpu:t", spec="priority: -5"),
        pod("high", "gpu:t", spec="priority: 100"),
        template("t"),
    )
    assert devices(report) == {"high-gpu": ["n1/gpu-0"], "alone": ["n1/gpu-1"], "low-gpu": ["n1/gpu-2"]}


def test_the_claims_of_a_pod_are_allocated_together_on_one_node():
    report = decided(gpus("n1", 1), gpus("n2", 2), claim("a"), claim("b"), pod("p", "one=a", "two=b"))
    assert devices(report) == {"a": ["n2/gpu-0"], "b": ["n2/gpu-1"]}


def test_the_claims_of_a_pod_are_allocated_all_or_none():
    report = decided(gpus("n1", 1), gpus("n2", 1), claim("a"), claim("b"), pod("p", "one=a", "two=b"))
    assert devices(report) == {}
    assert [key.name for key in report.waiting[0].claims] == ["a", "b"]


def test_a_template_gives_each_pod_a_claim_of_its_own():
    report = decided(gpus("n1"), template("t"), pod("p", "gpu:t", metadata="uid: abc"), pod("q", "gpu:t"))
    assert devices(report) == {"p-gpu": ["n1/gpu-0"], "q-gpu": ["n1/gpu-1"]}
    first, second = (written["metadata"] for written in report.allocated(NOW))
    assert first["labels"] == {"from": "t"}
    assert first["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert first["ownerReferences"][0]["uid"] == "abc"
    assert "ownerReferences" not in second


def test_a_claim_that_was_made_from_a_template_before_is_used():
    made = claim("p-gpu", metadata="annotations: {resource.kubernetes.io/pod-claim-name: gpu}")
    report = decided(gpus("n1"), template("t", 2), made, pod("p", "gpu:t"))
    assert devices(report) == {"p-gpu": ["n1/gpu-0"]}


def test_the_name_in_the_pods_status_wins_over_the_template():
    status = "{resourceClaimStatuses: [{name: gpu, resourceClaimName: p-gpu-x7}]}"
    report = decided(gpus("n1"), claim("p-gpu-x7"), pod("p", "gpu:t", status=status))
    assert devices(report) == {"p-gpu-x7": ["n1/gpu-0"]}


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ((pod("p", "gpu=gone"),), "claim default/gone is not among the objects read"),
        ((pod("p", "gpu:gone"),), "template default/gone is not among the objects read"),
        ((pod("p", "gpu:t"), template("t"), claim("p-gpu")), "which is another claim's name"),
        (
            ("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {resourceClaims: [{name: gpu}]}}\n",),
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        ),
        (
            (pod("p", "gpu=a").replace("a}", "a, resourceClaimTemplateName: t}"), claim("a"), template("t")),
            "one of",
        ),
        (
            (
                pod("p", "gpu=a", spec="containers: [{name: c, resources: {claims: [{name: gup}]}}]"),
                claim("a"),
            ),
            'spec.containers[0].resources.claims[0].name: Not found: "gup"',
        ),
    ],
)
def test_a_pod_that_lacks_something_waits_for_it(documents: tuple[str, ...], reason: str):
    report = decided(gpus("n1"), *documents)
    assert isinstance(report.waiting[0].outcome, Blocked)
    assert reason in reasons(report)[0]


def test_the_other_claims_of_a_pod_that_lacks_one_wait_with_it():
    """A cluster does not schedule the pod either, so nothing is allocated for it."""
    report = decided(gpus("n1"), claim("a"), pod("p", "one=a", "two=gone"))
    assert devices(report) == {}
    assert [key.name for key in report.waiting[0].claims] == ["a"]


def test_a_claim_of_two_pods_is_allocated_once_and_ties_the_second_pod():
    report = decided(
        gpus("n1", 1),
        gpus("n2", 2),
        claim("shared"),
        claim("own"),
        pod("first", "x=shared", spec="nodeName: n2"),
        pod("second", "x=shared", "y=own"),
    )
    assert devices(report) == {"shared": ["n2/gpu-0"], "own": ["n2/gpu-1"]}


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ("nodeName: n2", ["n2/gpu-0"]),
        ("nodeSelector: {zone: b}", ["n2/gpu-0"]),
        (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "{nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}}",
            ["n2/gpu-0"],
        ),
        ("", ["n1/gpu-0"]),
    ],
)
def test_a_pod_gets_devices_only_where_it_can_run(spec: str, nodes: list[str]):
    nodes_given = (node("n1", zone="a"), node("n2", zone="b"))
    report = decided(*nodes_given, gpus("n1"), gpus("n2"), template("t"), pod("p", "gpu:t", spec=spec))
    assert devices(report) == {"p-gpu": nodes}


def test_a_pod_that_no_node_suits_is_told_what_bounds_it():
    bound = pod("p", "gpu:t", spec="nodeSelector: {zone: c}")
    report = decided(node("n1", zone="a"), gpus("n1"), template("t"), bound)
    left_out = "0 of 1 nodes suit the pod: 1 outside node selector or affinity"
    assert reasons(report) == [f"there is no node to allocate on; {left_out}"]
    assert [answer.reason for answer in report.waiting] == ["NoNode"]


@pytest.mark.parametrize(
    ("cordoned", "said"),
    [
        (("n1", "n2"), ["there is no node to allocate on; 0 of 2 nodes are ready and not cordoned"]),
        (("n1",), []),
    ],
)
def test_a_claim_without_a_pod_hears_that_no_node_can_be_used(cordoned: tuple[str, ...], said: list[str]):
    nodes = [
        f"{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, "
        f"spec: {{unschedulable: {str(name in cordoned).lower()}}}}}\n"
        for name in ("n1", "n2")
    ]
    assert reasons(decided(*nodes, gpus("n1"), gpus("n2"), claim("c"))) == said


def test_a_pod_that_asks_for_labels_hears_which_nodes_have_none_in_the_input():
    bound = pod("p", "gpu:t", spec="nodeSelector: {zone: c}")
    (reason,) = reasons(decided(gpus("n1"), template("t"), bound))
    assert reason.endswith("affinity; the labels of 1 node are unknown; add the Node objects to the input")


def test_a_pod_whose_affinity_cannot_be_read_is_told_so():
    term = "{matchExpressions: [{key: zone, operator: Is, values: [b]}]}"
    required = f"requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}"
    affine = pod("p", "gpu:t", spec=f"affinity: {{nodeAffinity: {{{required}}}}}")
    assert "unknown operator" in reasons(decided(gpus("n1"), template("t"), affine))[0]


@pytest.mark.parametrize(
    "over", ["status='{phase: Succeeded}'", "metadata=\"deletionTimestamp: '2025-01-01T00:00:00Z'\""]
)
def test_a_pod_that_is_over_asks_for_nothing(over: str):
    key, _, value = over.partition("=")
    ended = pod("p", "gpu=gone", **{key: value[1:-1]})
    report = decided(gpus("n1"), ended)
    assert report.answers == ()


def test_what_claims_hold_in_the_input_is_not_given_again():
    report = decided(gpus("n1"), held("before", "gpu-0"), claim("a-now"), claim("b-later"))
    assert devices(report) == {"a-now": ["n1/gpu-1"]}
    assert [key.name for key in report.held] == ["before"]
    assert isinstance(report.waiting[0].outcome, Unsatisfied)


def test_claims_that_share_a_uid_are_still_different_claims():
    """Manifests are copied with everything in them."""
    report = decided(
        gpus("n1", 3), held("a", "gpu-0", "same"), held("b", "gpu-1", "same"), claim("c"), claim("d")
    )
    assert devices(report) == {"c": ["n1/gpu-2"]}


def test_a_claim_that_is_being_deleted_gets_nothing():
    leaving = claim("a", metadata="deletionTimestamp: '2025-01-01T00:00:00Z'")
    assert reasons(decided(gpus("n1"), leaving)) == ["claim default/a is being deleted"]


def test_devices_reached_by_a_selector_are_given_on_the_assumed_node():
    selector = "{nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [z]}]}]}"
    report = decided(gpus("n1").replace("nodeName: n1", f"nodeSelector: {selector}"), claim("a"))
    assert [granted.node for granted in report.granted] == ["(assumed)"]
    assert report.nodes.assumed is not None
    assert report.nodes.assumed.metadata.labels["zone"] == "z"


def test_a_pool_with_slices_missing_is_named_with_what_is_missing():
    report = decided(gpus("n1", slices=2), claim("a"))
    found = {str(pool): problem for pool, problem in report.unusable.items()}
    assert found == {"gpu.example.com/n1": "1 of 2 slices of generation 1 are published"}


def test_a_slice_that_says_nothing_about_nodes_is_named():
    """The allocator passes over it without a word, as upstream does (POOL-3)."""
    report = decided(gpus("n1").replace("  nodeName: n1\n", ""), gpus("n2"), claim("a", 1))
    assert report.nowhere == ("n1-gpus",)
    assert devices(report) == {"a": ["n2/gpu-0"]}


def test_slices_of_an_older_generation_do_not_count():
    old, new = gpus("n1", 4, generation=1, name="old"), gpus("n1", 1, generation=2, name="new")
    report = decided(old, new, claim("a"), claim("b"))
    assert devices(report) == {"a": ["n1/gpu-0"]}
    assert len(report.waiting) == 1


def test_an_allocated_claim_is_written_as_a_live_run_leaves_it():
    text = claim("a", metadata="labels: {x: y}, finalizers: [mine], unknown: kept")
    (written,) = decided(gpus("n1"), text).allocated(NOW)
    assert written["metadata"] == {
        "name": "a",
        "namespace": "default",
        "labels": {"x": "y"},
        "finalizers": ["mine", "resource.kubernetes.io/delete-protection"],
        "unknown": "kept",
    }
    allocation = written["status"]["allocation"]
    assert allocation["allocationTimestamp"] == "2025-06-01T12:00:00Z"
    found = allocation["devices"]["results"]
    assert found == [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]
    (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def test_what_was_allocated_can_be_read_back_and_is_held_then():
    source = (CLASS, gpus("n1"), template("t"), pod("p", "gpu:t"), claim("a"))
    written = [json.dumps(claim) for claim in decide(read(*source), Semantics()).allocated(NOW)]
    again = decide(
        read(CLASS, gpus("n1"), template("t"), pod("p", "gpu:t"), *(f"{w}\n" for w in written)), Semantics()
    )
    assert again.answers == ()
    assert [key.name for key in again.held] == ["a", "p-gpu"]


def test_the_bundle_is_left_as_it_was():
    found = read(CLASS, gpus("n1"), template("t"), pod("p", "gpu:t"), claim("a"))
    before = json.dumps([entry.raw for kind in found.entries.values() for entry in kind.values()])
    decide(found, Semantics()).allocated(NOW)
    assert json.dumps([entry.raw for kind in found.entries.values() for entry in kind.values()]) == before
    assert found.size == 5


def test_an_empty_input_has_no_answers():
    report = decide(bundle([]), Semantics())
    assert (report.answers, report.held, report.allocated(NOW)) == ((), (), [])


@needs(SAMPLES)
@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_every_published_folder_is_decided_without_a_crash(release: Any):
    for folder in sorted(SAMPLES.iterdir()):
        if folder.is_dir():
            report = decide(read_bundle([str(folder)], io.BytesIO()), Semantics(release))
            assert all(reasons(report))
