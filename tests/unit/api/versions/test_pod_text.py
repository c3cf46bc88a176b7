"""Pods read from their text are those that the careful way reads, or are left to it."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.api.versions.pod_text import read_pod
from reconciler.api.versions.reading import read
from tests.tools.careful_reading import carefully
from tests.tools.disturbing import disturbed

RUNNING: dict[str, Any] = {
    "metadata": {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "x"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "v", "controller": True}
        ],
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    },
    "spec": {
        "nodeName": "node",
        "containers": [
            {
                "name": "main",
                "image": "i",
                "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "gpu"}]},
                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}],
            }
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "a-gpu"}],
        "containerStatuses": [
            {"name": "main", "ready": True, "resources": {"requests": {"cpu": "200m"}}, "restartCount": 1}
        ],
    },
}
PODS: list[dict[str, Any]] = [
    RUNNING,
    {
        "metadata": {"name": "b", "finalizers": ["f"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedulingGates": [{"name": "dra-reconciler.io/allocation"}], "affinity": {}},
        "status": {"nominatedNodeName": "n", "initContainerStatuses": [{"allocatedResources": {"cpu": 1}}]},
    },
    {"metadata": {"name": "c", "labels": None}},
    {"metadata": {"name": "d"}, "spec": {"tolerations": None}, "status": {"containerStatuses": None}},
]


@pytest.mark.parametrize("raw", PODS[:3], ids=range(3))
def test_pods_as_a_server_sends_them_are_read_from_their_text(raw):
    found = read_pod(json.dumps(raw).encode(), "v1")
    assert found is not None
    assert repr(found) == carefully("Pod", raw)
    again = read({"kind": "Pod", "apiVersion": "v1", **raw})
    assert found.to_json() == {key: value for key, value in again.to_json().items() if key != "apiVersion"}


def test_reports_that_mean_the_same_share_what_is_equal():
    """A kubelet repeats the whole pod whenever a probe fails or an image is pulled."""
    later = json.loads(json.dumps(RUNNING))
    later["metadata"]["resourceVersion"] = "8"
    later["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-02T00:00:00Z"
    later["status"]["containerStatuses"][0]["restartCount"] = 2
    first, second = (read_pod(json.dumps(raw).encode(), "v1") for raw in (RUNNING, later))
    assert first is not None
    assert second is not None
    assert first.spec is second.spec
    assert first.status is second.status
    assert second.metadata.resource_version == "8"


def test_pods_of_one_template_share_their_spec():
    """The API server gives each a volume for its token, with a name of its own."""

    def made(token: str, cpu: str = "100m") -> Any:
        raw = json.loads(json.dumps(RUNNING))
        raw["spec"]["volumes"].append({"name": token, "projected": {}})
        main = raw["spec"]["containers"][0]
        main["volumeMounts"] = [{"name": token, "mountPath": "/var/run/secrets"}]
        main["resources"]["requests"]["cpu"] = cpu
        found = read_pod(json.dumps(raw).encode(), "v1")
        assert found is not None
        return found.spec

    assert made("token-x") is made("token-y")
    assert made("token-x", "200m") != made("token-x")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"metadata": {"name": ""}}',
        b'{"metadata": {"name": "a", "x": "\xff"}}',
        b'{"metadata": {"name": "a"}, "kind": "Node"}',
        b'{"metadata": {"name": "a"}, "apiVersion": "v2"}',
        b'{"metadata": {"name": "a"}, "spec": {"resourceClaims": [{"name": "c", "source": {}}]}}',
        b'{"metadata": {"name": "a"}, "spec": {"overhead": {"cpu": "many"}}}',
        b'{"metadata": {"name": "a"}, "x": %b}' % (b"[" * 9000 + b"]" * 9000),
    ],
)
def test_what_is_unusual_is_left_to_the_careful_way(text):
    assert read_pod(text, "v1") is None


NAMES = st.sampled_from(
    [
        *("metadata", "name", "labels", "finalizers", "ownerReferences", "namespace", "generation", "spec"),
        *(
            "containers",
            "volumes",
            "resourceClaims",
            "affinity",
            "priority",
            "hostNetwork",
            "status",
            "phase",
        ),
        *("startTime", "containerStatuses", "resources", "requests", "allocatedResources", "cpu"),
    ]
)


@given(disturbed(PODS, NAMES))
@example({"metadata": None})
@example({"metadata": {"name": "a", "deletionTimestamp": None}, "status": {"startTime": None}})
@example({"metadata": {"name": "a"}, "spec": None, "status": None})
def test_what_is_read_from_text_is_what_the_careful_way_reads(raw):
    found = read_pod(json.dumps(raw).encode(), "v1")
    if found is not None:
        assert repr(found) == carefully("Pod", raw)
