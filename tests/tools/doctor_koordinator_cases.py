"""For every rule about Koordinator's objects the smallest manifests that break it, and some that do not."""

import json
from typing import Any

from tests.tools.doctor_manifests import Case, Object, gpu, machine, node, yaml_of

DOMAIN = "scheduling.koordinator.sh"
PARTITIONS, POLICY = f"{DOMAIN}/gpu-partitions", "node.koordinator.sh/gpu-partition-policy"
HINT, JOINT, SPEC = (
    f"{DOMAIN}/{name}" for name in ("device-allocate-hint", "device-joint-allocate", "gpu-partition-spec")
)
AT_TABLE = f"metadata.annotations[{PARTITIONS}]"
IN_REQUESTS = "spec.containers[0].resources.requests"


def partitioned(table: Any) -> Object:
    return machine(gpu(0), gpu(1), annotations={PARTITIONS: json.dumps(table)})


def one(*minors: int, **fields: Any) -> Object:
    return {"minors": list(minors), **fields}


def labelled(policy: str) -> Object:
    return machine(gpu(0), labels={POLICY: policy})


def template(annotations: Object | None = None, **requests: Any) -> Object:
    """The template of a pod; `koordinator_gpu` stands for koordinator.sh/gpu."""
    amounts = {
        name.replace("_", ".sh/", 1).replace("nvidia.sh", "nvidia.com").replace("_", "-"): amount
        for name, amount in requests.items()
    }
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "metadata": {"annotations": annotations or {}, "labels": {"app": "a"}},
        "spec": {"containers": [container]},
    }


def pod(annotations: Object | None = None, **requests: Any) -> Object:
    made = template(annotations, **requests)
    return {"apiVersion": "v1", "kind": "Pod", **made, "metadata": {**made["metadata"], "name": "p"}}


def deployment(**requests: Any) -> Object:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template(**requests)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def cron_job(**requests: Any) -> Object:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template(**requests)}}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "d"}, "spec": spec}


def hinting(annotation: str, value: Any) -> str:
    return yaml_of(pod({annotation: json.dumps(value)}, koordinator_gpu=100))


CASES = [
    Case("duplicate-minor", "two NICs", machine(gpu(0), gpu(1, type="rdma"), gpu(1, type="rdma"))).at(
        "spec.devices[2].minor", "rdma 1 is also spec.devices[1]"
    ),
    Case("koordinator-shape", "a table without minors", partitioned({"1": [{}]})).at(AT_TABLE, "minors"),
    Case("koordinator-shape", "a hint that is a list", hinting(HINT, [])).at(f"metadata.annotations[{HINT}]"),
    Case("api-rules", "a type", machine({"type": "gpuu", "minor": 0})).at("spec.devices[0].type", "gpuu"),
    Case("koordinator-value", "a policy", labelled("honour")).at(f"metadata.labels[{POLICY}]", "mean Honor?"),
    Case(
        "koordinator-value",
        "a policy of a node",
        {**node("n"), "metadata": {"name": "n", "labels": {POLICY: "always"}}},
    ).at(f"metadata.labels[{POLICY}]", "known are Honor, Prefer"),
    Case("koordinator-value", "a name in a table", partitioned({"1": [one(0, alocationScore=1)]})).at(
        AT_TABLE, "did you mean allocationScore?"
    ),
    Case("koordinator-value", "a name that makes the table invalid", partitioned({"1": [{"minor": [0]}]})).at(
        AT_TABLE, "did you mean minors?"
    ),
    *(
        Case("koordinator-value", name, hinting(annotation, value)).at(
            f"metadata.annotations[{annotation}]", says
        )
        for name, annotation, value, says in (
            ("a type in a hint", HINT, {"gpus": {}}, "did you mean gpu?"),
            ("a strategy", HINT, {"rdma": {"allocateStrategy": "ApplyForall"}}, "did you mean ApplyForAll?"),
            (
                "a scope",
                HINT,
                {"gpu": {"requiredTopologyScope": "Rack"}},
                "known are Device, PCIe, NUMANode, Node",
            ),
            (
                "an exclusive policy",
                HINT,
                {"gpu": {"exclusivePolicy": "PCIELevel"}},
                "did you mean PCIeLevel?",
            ),
            ("a name in a hint", HINT, {"gpu": {"selectr": {}}}, "did you mean selector?"),
            ("a joint type", JOINT, {"deviceTypes": ["gpu", "rmda"]}, "did you mean rdma?"),
            ("a joint scope", JOINT, {"requiredScope": "SameNUMA"}, "known are SamePCIe"),
            ("an allocate policy", SPEC, {"allocatePolicy": "restricted"}, "did you mean Restricted?"),
        )
    ),
    Case("partition-table", "no sizes", partitioned({})).at(AT_TABLE, "has no partitions"),
    Case("partition-table", "empty sizes", partitioned({"1": []})).at(AT_TABLE, "has no partitions"),
    Case("partition-table", "null", partitioned(None)).at(AT_TABLE, "has no partitions"),
    Case("partition-table", "a wrong size", partitioned({"1": [one(0)], "2": [one(0, 1), one(0, 0)]})).at(
        AT_TABLE, "2[1] is listed under size 2, but has 1"
    ),
    Case("partition-table", "a score as text", partitioned({"1": [one(0, allocationScore="1")]})).at(
        AT_TABLE, "release ignores the whole table"
    ),
    Case("partition-unknown-gpu", "a minor", partitioned({"1": [one(0)], "2": [one(0, 7)]})).at(
        AT_TABLE, "size 2 names minor 7; the GPUs of the Device are 0, 1"
    ),
    Case("koordinator-request", "an uneven amount", pod(koordinator_gpu=150)).at(
        f"{IN_REQUESTS}[koordinator.sh/gpu]", "150"
    ),
    Case(
        "koordinator-request",
        "one and a half of core and memory",
        pod(koordinator_gpu_core=150, koordinator_gpu_memory_ratio=150),
    ).at(
        f"{IN_REQUESTS}[koordinator.sh/gpu-core]",
        "koordinator.sh/gpu-core: 150, koordinator.sh/gpu-memory-ratio: 150",
    ),
    Case("koordinator-request", "core without memory", pod(koordinator_gpu_core=50)).at(
        f"{IN_REQUESTS}[koordinator.sh/gpu-core]"
    ),
    Case("koordinator-request", "of a Deployment", deployment(koordinator_rdma=150)).at(
        f"spec.template.{IN_REQUESTS}[koordinator.sh/rdma]"
    ),
    Case("koordinator-request", "of a CronJob", cron_job(koordinator_rdma=150)).at(
        f"spec.jobTemplate.spec.template.{IN_REQUESTS}[koordinator.sh/rdma]"
    ),
    Case("koordinator-units", "a number of GPUs", pod(koordinator_gpu=2)).at(
        f"{IN_REQUESTS}[koordinator.sh/gpu]", "is 2 percent of a GPU; 200 is 2 whole"
    ),
    Case("koordinator-units", "memory without a unit", pod(koordinator_gpu_memory=16)).at(
        f"{IN_REQUESTS}[koordinator.sh/gpu-memory]", "16 bytes"
    ),
    Case("koordinator-units", "percent of whole GPUs", pod(nvidia_gpu=200)).at(
        f"{IN_REQUESTS}[nvidia.com/gpu]", "200 whole GPUs"
    ),
]

SOUND = yaml_of(
    {
        **partitioned({"1": [one(0), one(1)], "2": [one(0, 1, ringBusBandwidth="400Gi", allocationScore=1)]}),
        "status": {},
    },
    {**labelled("Honor"), "kind": "Node", "apiVersion": "v1", "spec": {}},
    pod(
        {
            HINT: json.dumps(
                {"rdma": {"allocateStrategy": "ApplyForAll", "exclusivePolicy": ""}, "gpu": None}
            ),
            JOINT: json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}),
            SPEC: "{}",
        },
        koordinator_gpu=200,
        koordinator_rdma=1,
    ),
    deployment(koordinator_gpu_core=50, koordinator_gpu_memory="16Gi"),
    cron_job(nvidia_gpu=8),
    {**deployment(), "kind": "Other"},
)

QUIET = [
    Case(check, "sound objects", SOUND)
    for check in (
        "unknown-field", "koordinator-shape", "koordinator-value",
        "partition-table", "partition-unknown-gpu", "koordinator-request",
        "koordinator-units", "api-rules",
    )
]  # fmt: skip
