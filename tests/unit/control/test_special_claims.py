"""Gated pods that ask for extended resources of classes."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from click.testing import CliRunner

from reconciler.api.manifests.bundle import Bundle, bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.core import GATE, Pod
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import ALL_GATES, EXTENDED_RESOURCES, Semantics
from reconciler.cli import main
from reconciler.control.offline import Report, decide
from reconciler.control.special_claims import HANDED_OVER, HandOverTerms, SpecialClaims
from tests.tools.builders import DRIVER, Object, device_class, gpu_slice, held, hold, node, selectors, store
from tests.tools.checkout import ROOT

GPU = "example.com/gpu"


def gpu_class(resource: str = GPU) -> Object:
    made = device_class("gpu")
    made["spec"]["extendedResourceName"] = resource
    return made


def gated(name: str, resource: str = GPU, count: int = 2, **metadata: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: str(count)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"schedulingGates": [{"name": GATE}], "containers": [container]},
    }


def with_plugin(name: str, amount: str) -> Object:
    return {**node(name), "status": {"allocatable": {"pods": "9", GPU: amount}}}


def read(*objects: Object) -> Bundle:
    return bundle(Document(Origin("test", number), raw) for number, raw in enumerate(objects))


def decided(*objects: Object, rules: Semantics | None = None) -> Report:
    return decide(read(*objects), rules or Semantics())


NVIDIA = "nvidia.com/gpu"
"""Also a name of Koordinator's devices, of which there are none here"""


@pytest.mark.parametrize("resource", [GPU, NVIDIA, "deviceclass.resource.kubernetes.io/gpu"])
def test_a_gated_pod_gets_node_and_devices_for_the_claim_that_will_be_made(resource: str):
    serves = gpu_class(NVIDIA if resource == NVIDIA else GPU)
    report = decided(serves, gpu_slice("n1", 3), node("n1"), gated("p", resource), gated("q", resource))
    first, second = report.answers
    assert isinstance(first.outcome, Granted)
    assert first.outcome.node == "n1"
    assert [str(plan.claim) for plan in first.outcome.plans] == ["default/p-extended-resources"]
    found = [result.request for result in first.outcome.plans[0].allocation.devices.results]
    assert found == ["container-0-request-0"] * 2
    assert second.reason == "DevicesInUse"


def test_of_pools_only_those_with_a_new_allocation_are_remembered():
    """Pools come and go with their nodes: what is remembered of them must not grow for ever."""
    unused: Any = None
    time = 0.0
    terms = HandOverTerms(lambda: time, unused, seconds=60.0, calm=5.0)
    special = SpecialClaims(unused, unused, unused, terms)
    for number in range(100):
        time = float(number)
        special._note_write(PoolID("gpu.example.com", f"n{number % 50}"), time)
    assert [pool.pool for pool in special._written] == [f"n{number}" for number in range(44, 50)]


def test_a_claim_that_was_made_before_the_pod_is_seen_is_reported_once():
    """A new process may list claims before pods; a pod that was handed over long ago is not told about."""
    reported: list[str] = []

    class Told:
        def report_special_claim(self, pod: Pod, _: object) -> None:
            reported.append(pod.key.name)

    now = datetime(2026, 1, 1, tzinfo=UTC)
    terms = HandOverTerms(lambda: 0.0, lambda: now, seconds=60.0, calm=5.0)
    known: Any = store(device_class("gpu"), gpu_slice("n1"), held("made", hold("gpu-0", pool="n1")))
    unused: Any = None
    special = SpecialClaims(known, unused, cast("Any", Told()), terms)
    for name, stamp in (("new", "2026-01-01T00:00:30Z"), ("old", "2025-12-31T23:00:00Z")):
        raw = gated(name, uid=name, annotations={HANDED_OVER: f"{stamp} gpu.example.com"})
        raw["spec"]["nodeName"] = "n1"
        raw["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "made", "requestMappings": []}}
        for _ in range(2):
            special._hold_again(Pod.model_validate(raw))
    assert reported == ["new"]


def test_a_node_with_a_device_plugin_is_left_out():
    """EXT-2. One that lists none of the resource has none."""
    some = gpu_class(), gpu_slice("n1"), gpu_slice("n2")
    report = decided(*some, with_plugin("n1", "8"), with_plugin("n2", "0"), gated("p"))
    assert [granted.node for granted in report.granted] == ["n2"]
    report = decided(*some, with_plugin("n1", "8"), with_plugin("n2", "8"), gated("p"))
    assert f"0 of 2 nodes suit the pod: 2 where a device plugin serves {GPU}" in report.answers[0].message
    assert "dra-reconciler migrate" in report.answers[0].message


def test_without_the_gate_nobody_makes_the_claim():
    rules = Semantics(gates=ALL_GATES - {EXTENDED_RESOURCES})
    report = decided(gpu_class(), gpu_slice("n1"), node("n1"), gated("p"), rules=rules)
    assert report.answers[0].reason == "ExtendedResourcesOff"
    assert EXTENDED_RESOURCES in report.answers[0].message


def test_pods_of_gangs_are_refused():
    of_gang = {"dra-reconciler.io/gang": "g", "dra-reconciler.io/gang-size": "1"}
    report = decided(gpu_class(), gpu_slice("n1"), node("n1"), gated("p", annotations=of_gang))
    assert report.answers[0].reason == "ExtendedResourcesUnsafe"
    assert "dra-reconciler migrate" in report.answers[0].message


def test_a_class_of_several_drivers_is_named_with_the_remedy():
    """EXT-5. Whose the devices are is known to `run` alone."""
    narrow = gpu_class()
    narrow["spec"]["selectors"] = selectors(f'device.driver == "{DRIVER}"')
    some = gpu_slice("n1", 3), gpu_slice("n1", 1, driver="e"), node("n1"), gated("p")
    assert ["several drivers" in note for note in decided(narrow, *some).special] == [False]
    (_, note) = decided(gpu_class(), *some).special
    assert f"class gpu selects devices of several drivers: {DRIVER}, e; unless all are its own" in note
    assert note.endswith("(ExtendedResourcesUnsafe): rewrite the pod with dra-reconciler migrate")


def test_the_example_of_the_docs_goes_to_the_node_without_a_device_plugin():
    example = ROOT / "docs" / "examples" / "extended-resources.yaml"
    result = CliRunner().invoke(main, ["allocate", "-f", str(example)])
    assert result.exit_code == 0
    assert "gpu.example.com/node-2/gpu-1" in result.output
    assert "kube-scheduler makes it for the extended resources of the pod" in result.output
