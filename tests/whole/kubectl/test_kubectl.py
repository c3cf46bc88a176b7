"""The real kubectl, if installed, works with the embedded server."""

import json

import pytest

from tests.tools.driving import CLAIMS, MERGE, allocation, ok
from tests.tools.examples import in_soak
from tests.tools.kubectls import MISSING, kubectls, session

KNOWN = sorted(kubectls())
BETWEEN = [pytest.param(minor, marks=in_soak) for minor in KNOWN[1:-1]]
pytestmark = [pytest.mark.loopback, pytest.mark.skipif(not KNOWN, reason=MISSING)]

MANIFESTS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  schedulingGates: [{name: dra-reconciler.io/allocation}]
  resourceClaims: [{name: gpu, resourceClaimName: c}]
  containers: [{name: main, image: IMAGE, resources: {claims: [{name: gpu}]}}]
"""


@pytest.fixture
async def newest(tmp_path):
    """The newest kubectl with a server of its own."""
    async with session(kubectls()[KNOWN[-1]], tmp_path) as found:
        yield found


@pytest.fixture
def kubectl(newest):
    """A function that runs it, and the logic of its server."""
    return newest.run, newest.api


async def test_apply_creates_configures_and_leaves_alone(kubectl):
    run, _ = kubectl
    first = MANIFESTS.replace("IMAGE", "one")
    found = await run("apply", "-f", "-", stdin=first)
    assert found == "resourceclaim.resource.k8s.io/c created\npod/p created\n"
    assert "pod/p unchanged" in await run("apply", "-f", "-", stdin=first)
    assert "pod/p configured" in await run("apply", "-f", "-", stdin=MANIFESTS.replace("IMAGE", "two"))
    assert await run("get", "pod", "p", "-o", "jsonpath={.spec.containers[0].image}") == "two"
    assert "serverside-applied" in await run("apply", "--server-side", "-f", "-", stdin=first)
    await run("delete", "-f", "-", stdin=first)
    assert await run("get", "pods,resourceclaims", "-o", "name") == ""


async def test_koordinator_devices(kubectl):
    run, _ = kubectl
    version = "scheduling.koordinator.sh/v1alpha1"
    device = {"apiVersion": version, "kind": "Device", "metadata": {"name": "n"}, "spec": {"devices": []}}
    found = await run("apply", "-f", "-", stdin=json.dumps(device))
    assert found == "device.scheduling.koordinator.sh/n created\n"
    assert (await run("get", "devices")).split()[:3] == ["NAME", "AGE", "n"]
    await run("label", "device", "n", "x=y")
    await run("delete", "devices.scheduling.koordinator.sh", "n")


LIST = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a: b}}
- {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpus}, spec: {}}
"""


@pytest.mark.parametrize("minor", [*KNOWN[:1], *BETWEEN, *KNOWN[1:][-1:]])
async def test_what_every_release_asks_for(tmp_path, minor):
    """Bodies in protobuf where it sends no others, and the schemas of OpenAPI v2 where it reads no others."""
    async with session(kubectls()[minor], tmp_path) as found:
        run = found.run
        await run("create", "namespace", "team")
        await run("create", "configmap", "c", "--from-literal=a=b")
        await run("create", "service", "clusterip", "s", "--tcp=80:8080")
        await run("create", "pdb", "half", "--selector=app=x,tier in (a,b)", "--min-available=50%")
        await run("create", "pdb", "one", "--selector=app=x", "--max-unavailable=1")
        spec = json.loads(await run("get", "pdb", "half", "-o", "json"))["spec"]
        expression = {"key": "tier", "operator": "In", "values": ["a", "b"]}
        selector = {"matchLabels": {"app": "x"}, "matchExpressions": [expression]}
        assert (spec["minAvailable"], spec["selector"]) == ("50%", selector)
        assert await run("get", "pdb", "one", "-o", "jsonpath={.spec.maxUnavailable}") == "1"
        await run("run", "p", "--image=i", "--labels=app=x")
        assert "created" in await run("apply", "-f", "-", stdin=LIST)
        wrong = LIST.replace("spec: {}", "spec: {selector: []}")
        code, _, said = await found.end("apply", "-f", "-", stdin=wrong)
        assert code == 1
        assert "selector" in said
        assert "data" in await run("explain", "configmap")
        assert "data" in await run("explain", "configmap", "--output=plaintext-openapiv2")
        assert "yes" in await run("auth", "can-i", "list", "pods")


async def test_imperative_commands(kubectl):
    run, _ = kubectl
    await run("create", "namespace", "team")
    await run("create", "configmap", "m", "--from-literal=a=b", "-n", "team")
    assert await run("get", "configmap", "m", "-n", "team", "-o", "jsonpath={.data.a}") == "b"
    await run("create", "-f", "-", stdin=MANIFESTS.replace("IMAGE", "one"))
    await run("label", "resourceclaim", "c", "x=y")
    await run("annotate", "resourceclaim", "c", "x=y")
    await run("patch", "resourceclaim", "c", "--type=merge", "-p", '{"metadata":{"labels":{"z":"1"}}}')
    await run(
        "patch", "resourceclaim", "c", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/x"}]'
    )
    await run("patch", "pod", "p", "-p", '{"metadata":{"finalizers":["a.example/b"]}}')
    found = await run("get", "resourceclaims", "-l", "z=1", "-o", "name")
    assert found == "resourceclaim.resource.k8s.io/c\n"
    await run("delete", "pod", "p", "--wait=false")
    await run("patch", "pod", "p", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await run("wait", "--for=delete", "pod/p", "--timeout=5m")
    await run("delete", "namespace", "team")


async def test_tables_watches_and_descriptions(newest):
    run, watching, api = newest.run, newest.until, newest.api
    await run("create", "-f", "-", stdin=MANIFESTS.replace("IMAGE", "one"))
    status = {"status": {"allocation": allocation()}}
    found = ok(api, "PATCH", f"{CLAIMS}/c/status", status, media=MERGE)
    table = await run("get", "resourceclaims", "--no-headers")
    assert table.split()[:2] == ["c", "allocated"]
    await watching("ADDED", "get", "resourceclaims", "-w", "--no-headers", "--output-watch-events")
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "dra-reconciler.io/allocator",
        "reportingInstance": "x",
        "action": "Allocating",
        "reason": "Allocated",
        "type": "Normal",
        "note": "one device of pool p",
        "regarding": {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "name": "c",
            "namespace": "default",
            "uid": found["metadata"]["uid"],
        },
    }
    ok(api, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    described = await run("describe", "resourceclaim", "c")
    assert "one device of pool p" in described
    assert "Name:         c" in described
    version = json.loads(await run("version", "-o", "json"))["serverVersion"]
    assert (version["major"], version["minor"]) == ("1", "37")
