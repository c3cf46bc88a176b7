"""Every object that server and controllers store is valid by the schemas that Kubernetes publishes."""

import io
from functools import cache

import kubernetes_validate
import pytest

from reconciler.api.manifests.documents import InvalidDocument, documents
from reconciler.embedded import ApiServer, run_controllers
from tests.tools.checkout import ROOT
from tests.tools.driving import (
    CLAIMS,
    FINALIZER,
    GATE,
    MERGE,
    PODS,
    STRATEGIC,
    TEMPLATES,
    UNGATE,
    allocation,
    claim,
    node,
    ok,
    pod,
    settle,
    wants,
)

DEMO = ROOT / "reconciler/cli/demo/manifests"
RELEASES = ("1.37.0", "1.36.0")
"""The newest release with a schema of a version counts: older ones lack newer fields."""


@cache
def release_of(version, kind):
    """The release whose schemas have a kind in a version; "" for custom resources."""
    for release in RELEASES:
        try:
            kubernetes_validate.validate({"apiVersion": version, "kind": kind}, release)
        except kubernetes_validate.SchemaNotFoundError:
            continue
        except kubernetes_validate.ValidationError:
            pass
        return release
    return ""


def check_everything(api):
    """Check each version of each object that the history has, in each version of its kind."""
    checked = set()
    for kind_store in api.store:
        for change in kind_store.since(0, 100_000):
            for served in kind_store.kind.served:
                kind = kind_store.kind
                if release := release_of(str(served), kind.kind):
                    shown = kind.downgrade(change.record.object, served)
                    whole = {"apiVersion": str(served), "kind": kind.kind, **shown}
                    kubernetes_validate.validate(whole, release, strict=True)
                    checked.add(kind.kind)
    return checked


@pytest.fixture
async def api():
    server = ApiServer()
    async with run_controllers(server):
        yield server


async def test_pods_and_claims_through_their_whole_lives(api):
    ok(api, "POST", "/api/v1/nodes", node())
    ok(api, "POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": claim()["spec"]}})
    asked = wants("gpu", resourceClaimTemplateName="t")
    made = pod(schedulingGates=[GATE], resourceClaims=asked)
    made["spec"]["initContainers"] = [{"name": "first", "image": "busybox"}]
    made["metadata"]["annotations"] = {"dra-reconciler.io/run-seconds": "0"}
    ok(api, "POST", PODS, made)
    await settle(api)
    name = ok(api, "GET", CLAIMS)["items"][0]["metadata"]["name"]
    ok(api, "PATCH", f"{CLAIMS}/{name}", {"metadata": {"finalizers": [FINALIZER]}}, media=MERGE)
    ok(api, "PATCH", f"{CLAIMS}/{name}/status", {"status": {"allocation": allocation()}}, media=MERGE)
    ok(api, "PATCH", f"{PODS}/p", UNGATE, media=STRATEGIC)
    ok(api, "POST", PODS, pod("stays"))
    await settle(api)
    assert {one["status"]["phase"] for one in ok(api, "GET", PODS)["items"]} == {"Running", "Succeeded"}
    ok(api, "POST", f"{PODS}/stays/eviction", {"metadata": {"name": "stays"}})
    ok(api, "DELETE", "/api/v1/namespaces/default")
    await settle(api)
    assert check_everything(api) == {"Namespace", "Node", "Pod", "ResourceClaim", "ResourceClaimTemplate"}


async def test_the_demo(api):
    found = [one for one in documents((str(DEMO),), io.BytesIO()) if not isinstance(one, InvalidDocument)]
    api.load([one.raw for one in found])
    await settle(api)
    assert {"Node", "Pod", "ResourceClaim", "ResourceSlice", "DeviceClass"} <= check_everything(api)
