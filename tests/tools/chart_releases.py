"""Values of releases of the chart, and the objects that it makes of them."""

import json
from copy import deepcopy
from functools import cache
from typing import Any

from tests.tools import chart

BASE: dict[str, Any] = {"ownDrivers": ["gpu.example.com"]}
"""What the base of kustomize owns"""
SHADOW: dict[str, Any] = {"mode": "shadow", "replicas": 1, **BASE}
EVERYTHING: dict[str, Any] = {
    "image": {"tag": "1.2", "digest": f"sha256:{'a' * 64}"},
    "imagePullSecrets": [{"name": "s"}],
    "ownDrivers": ["gpu.example.com"],
    "ownClasses": ["a", "b"],
    "koordinator": True,
    "makeTemplates": True,
    "resourceMap": {"example.com/npu-half": {"class": "npu.example.com", "name": "npu-half"}},
    "env": [{"name": "DRA_RECONCILER_LOG_LEVEL", "value": "debug"}],
    "envFrom": [{"configMapRef": {"name": "settings"}}],
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"a": "b"},
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "annotations": {"of": "the deployment"},
    "podAnnotations": {"of": "the pods"},
    "podLabels": {"team": "x"},
    "serviceAccount": {"annotations": {"of": "the account"}},
    "admission": {"confine": True, "gatePods": True, "announceClaims": True, "rewriteResources": True},
    "observability": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "interval": "30s",
        "runbooks": "https://git.example.org/v1/docs/runbooks.md",
    },
}


@cache
def _rendered(release: str, values: str) -> chart.Objects:
    return chart.objects(chart.texts(json.loads(values), release))


def rendered(release: str = "dra-reconciler", **values: Any) -> chart.Objects:
    """The objects of a release, without those of its hooks; the base owns a driver."""
    made = _rendered(release, json.dumps(BASE | values))
    return {key: one for key, one in made.items() if not chart.is_hook(one)}


def compared(objects: list[Any]) -> dict[tuple[str, str], Any]:
    """What both make: not the Namespace, which Helm has a flag for, nor what says how often to pull."""
    found = {}
    for one in deepcopy(objects):
        if one["kind"] != "Namespace":
            one["metadata"].pop("labels", None)
            found[one["kind"], one["metadata"]["name"]] = one
        if one["kind"] == "Deployment":
            one["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy", None)
    return found
