"""What we answer to a recorded case, spelled as the cases spell it. One function a kind."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.quantity import Quantity
from reconciler.errors import Malformed
from reconciler.plugins.koordinator import annotations, vocabulary
from reconciler.plugins.koordinator.choice import Ranked, Takeover, attempt, rank
from reconciler.plugins.koordinator.decision import allocate, annotation, completed
from reconciler.plugins.koordinator.demand import Demand, Failure, Instance, instances, read_demand
from reconciler.plugins.koordinator.holdings import Allocation, Holdings, recorded
from reconciler.plugins.koordinator.machine import Level, Machine, Scope, machine_of
from reconciler.plugins.koordinator.partitions import Partition, honors, read_table, table_of
from reconciler.plugins.koordinator.vocabulary import (
    Device,
    Rules,
    Scoring,
    Semantics,
    Strategy,
    device_score,
    printed,
    shares_of,
    summed,
)

Case = Mapping[str, Any]
Answer = dict[str, Any]

CONSTANTS = {
    vocabulary.NVIDIA_GPU: "NvidiaGPU",
    vocabulary.AMD_GPU: "AMDGPU",
    vocabulary.HYGON_DCU: "HygonDCU",
    vocabulary.KOORD_GPU: "KoordGPU",
    vocabulary.GPU_SHARED: "GPUShared",
    vocabulary.GPU_CORE: "GPUCore",
    vocabulary.GPU_MEMORY: "GPUMemory",
    vocabulary.GPU_MEMORY_RATIO: "GPUMemoryRatio",
    vocabulary.NPU_CORE: "HuaweiNPUCore",
    vocabulary.NPU_CPU: "HuaweiNPUCPU",
    vocabulary.NPU_DVPP: "HuaweiNPUDVPP",
    vocabulary.KOORD_RDMA: "RDMA",
    vocabulary.KOORD_FPGA: "FPGA",
}
SCOPES = {Level.NODE: "Node", Level.NUMA: "NUMANode", Level.PCIE: "PCIe"}
QUANTITIES: TypeAdapter[dict[str, Quantity]] = TypeAdapter(dict[str, Quantity])
ENTRIES: TypeAdapter[Any] = TypeAdapter(dict[str, tuple[annotations.AllocatedDevice, ...]])


def shares(resources: Mapping[str, Any]) -> dict[str, int]:
    return shares_of("case", QUANTITIES.validate_python(resources))


def allocation_of(entries: Mapping[str, Any]) -> Allocation:
    return recorded("case", ENTRIES.validate_python(entries))


def scoring_of(strategy: Mapping[str, Any] | None) -> Scoring | None:
    if strategy is None:
        return None
    weights = {entry["name"]: entry["weight"] for entry in strategy["resources"]}
    return Scoring(Strategy(strategy["type"]), weights)


def rules_of(case: Case, semantics: Semantics) -> Rules:
    args = case.get("args", {})
    return Rules(
        semantics,
        scoring_of(args.get("scoringStrategy")),
        {
            model: {name: shares(resources) for name, resources in of_model.items()}
            for model, of_model in args.get("gpuSharedResourceTemplates", {}).items()
        },
        frozenset(args.get("templateMatchedResources", ())),
        frozenset((entry["vendor"], entry["model"]) for entry in args.get("gpuShareUnsupportedModels", ())),
    )


def machine(case: Case, semantics: Semantics) -> Machine:
    name = case.get("node", "node")
    device = case["devices"][0] if case.get("devices") else {"metadata": {"name": name}}
    labels = case.get("nodeObject", {}).get("metadata", {}).get("labels") or {}
    return machine_of(Device.model_validate(device), labels, semantics)


def holdings(case: Case) -> Holdings:
    found = Holdings()
    for entry in case.get("existing", ()):
        namespace, _, name = entry["pod"].partition("/")
        found.hold(ObjectKey(namespace, name), allocation_of(entry["allocations"]), {})
    return found


def takeover(case: Case) -> Takeover:
    args = case.get("args", {})
    preemptible = {
        kind: {entry["minor"]: shares(entry["resources"]) for entry in entries}
        for kind, entries in args.get("preemptible", {}).items()
    }
    designated = allocation_of(args["designated"]) if "designated" in args else None
    return Takeover(preemptible, designated)


def demand(case: Case, rules: Rules) -> Demand | Failure | None:
    return read_demand(Pod.model_validate(case["pod"]), rules)


def failed(failure: Failure) -> Answer:
    return {"error": failure.reason, "code": failure.status.value, "message": failure.message}


def given(allocation: Allocation) -> Answer:
    return {
        kind: [
            {"minor": grant.minor, "resources": printed(grant.shares)} | extension(grant.vfs, grant.template)
            for grant in grants
        ]
        for kind, grants in allocation.items()
    }


def extension(vfs: Any, template: str) -> Answer:
    found: Answer = {"vfs": [{"busID": vf.bus_id, "minor": vf.minor} for vf in vfs]} if vfs else {}
    if template:
        found["gpuSharedResourceTemplate"] = template
    return {"extension": found} if found else {}


def each(instance: Instance, kind: str) -> Answer:
    found: Answer = {"count": instance.count, "resources": printed(instance.each)}
    return found | ({"shared": instance.shared} if kind == vocabulary.GPU else {})


def answer_allocate(case: Case, semantics: Semantics) -> Answer:
    rules = rules_of(case, semantics)
    wanted = demand(case, rules)
    if isinstance(wanted, Failure):
        return failed(wanted)
    assert wanted is not None
    trial = case["args"].get("phase") != "Reserve"
    found = allocate(
        wanted, machine(case, semantics), holdings(case), rules, takeover=takeover(case), trial=trial
    )
    return failed(found) if isinstance(found, Failure) else {"allocations": given(found)}


def answer_request(case: Case, semantics: Semantics) -> Answer:
    wanted = demand(case, rules_of(case, semantics))
    if isinstance(wanted, Failure):
        return failed(wanted)
    if wanted is None:
        return {"deviceRequests": {}}
    written = {name for requests in wanted.written.values() for name in requests}
    return {
        "deviceRequests": {kind: printed(requests) for kind, requests in wanted.requests.items()},
        "combination": sorted(CONSTANTS[name] for name in written),
        "perDevice": {vocabulary.GPU: each(wanted.gpu, vocabulary.GPU)} if wanted.gpu else {},
        "candidateTemplates": {model: list(found) for model, found in (wanted.templates or {}).items()},
    }


def answer_per_device(case: Case, semantics: Semantics) -> Answer:
    wanted = demand(case, rules_of(case, semantics))
    assert isinstance(wanted, Demand)
    if not case["devices"]:
        assert wanted.gpu is not None
        return {"perDevice": {vocabulary.GPU: each(wanted.gpu, vocabulary.GPU)}}
    found = instances(wanted, machine(case, semantics), trial=False)
    if isinstance(found, Failure):
        return failed(found)
    return {"perDevice": {kind: each(instance, kind) for kind, instance in found.items()}}


def answer_gpu_requirements(case: Case, semantics: Semantics) -> Answer:
    wanted = demand(case, rules_of(case, semantics))
    if isinstance(wanted, Failure):
        return failed(wanted)
    assert wanted is not None
    assert wanted.gpu is not None
    spec = wanted.partition
    return {
        "gpuRequirements": {
            **each(wanted.gpu, vocabulary.GPU),
            "honor": spec is not None,
            "restricted": spec is not None and spec.allocate_policy == annotations.RESTRICTED,
            "ringBusBandwidth": str(spec.ring_bus_bandwidth) if spec else None,
            "requiredTopologyScope": wanted.hint(vocabulary.GPU).required_topology_scope,
        }
    }


def answer_fill(case: Case, semantics: Semantics) -> Answer:
    found = completed(allocation_of(case["args"]["allocations"]), machine(case, semantics))
    return failed(found) if isinstance(found, Failure) else {"allocations": given(found)}


def answer_rank(case: Case, semantics: Semantics) -> Answer:
    args = case["args"]
    devices = [Ranked(entry["minor"], entry["score"], entry.get("pcieID")) for entry in args["candidates"]]
    order = rank(devices, args["preferredMinors"], args["preferredPCIEs"])
    return {"order": [device.minor for device in order]}


def answer_score_device(case: Case, semantics: Semantics) -> Answer:
    args = case["args"]
    total, free = shares(args["total"]), shares(args["free"])
    return {"score": device_score(scoring_of(args["scoringStrategy"]), shares(args["request"]), total, free)}


def node_score(
    demand: Demand, machine: Machine, holdings: Holdings, rules: Rules, takeover: Takeover
) -> int | Failure:
    """The sum over the requested types: the score of all their devices as one, with one more instance."""
    needed = instances(demand, machine, trial=True)
    if isinstance(needed, Failure):
        return needed
    at = attempt(demand, machine, holdings, rules, takeover)
    return sum(
        device_score(
            rules.scoring,
            need.each,
            summed(at.total[kind].values()),
            summed(at.free[kind].values()),
        )
        for kind, need in needed.items()
    )


def answer_score_node(case: Case, semantics: Semantics) -> Answer:
    rules = rules_of(case, semantics)
    wanted = demand(case, rules)
    assert isinstance(wanted, Demand)
    found = node_score(wanted, machine(case, semantics), holdings(case), rules, takeover(case))
    return failed(found) if isinstance(found, Failure) else {"score": found}


def answer_partition_index(case: Case, semantics: Semantics) -> Answer:
    listed = {
        int(size): tuple(Partition.model_validate(partition) for partition in of_size)
        for size, of_size in case["args"]["table"].items()
    }
    table = table_of(listed, "case")
    return {
        "index": {
            str(size): [
                {"allocationScore": score, "partitions": [list(table.minors[row]) for row in rows]}
                for score, rows in table.groups(size)
            ]
            for size in listed
        }
    }


def answer_tree(case: Case, semantics: Semantics) -> Answer:
    tree = machine(case, semantics).tree
    assert tree is not None
    return {"tree": tree_as_written(tree)}


def tree_as_written(scope: Scope) -> Answer:
    found: Answer = {"scope": SCOPES[scope.level], "minors": list(scope.minors)}
    if scope.level is Level.NUMA:
        found["numaNode"] = int(scope.name)
    if scope.level is Level.PCIE:
        found["pcieID"] = scope.name
    if scope.children:
        found["children"] = [tree_as_written(child) for child in scope.children]
    return found


def answer_parse(case: Case, semantics: Semantics) -> Answer:
    name, text = case["args"]["annotation"], case["args"]["text"]
    try:
        if name == vocabulary.PARTITIONS:
            table = read_table("case", text, semantics)
            return {"value": table and {str(n): [p.to_json() for p in of] for n, of in table.items()}}
        spec = annotations.partition_spec("case", {} if text is None else {name: text})
    except Malformed as exc:
        return {"error": f"malformed-annotation:{exc.field.rpartition('/')[2]}"}
    if spec is None:
        return {"value": None}
    bandwidth = {"ringBusBandwidth": str(spec.ring_bus_bandwidth)} if spec.ring_bus_bandwidth else {}
    return {"value": {"allocatePolicy": spec.allocate_policy, **bandwidth}}


def answer_policy(case: Case, semantics: Semantics) -> Answer:
    return {"policy": annotations.HONOR if honors(case["args"]["labels"]) else annotations.PREFER}


def plugin_annotations(allocation: Allocation, bound_at: int) -> dict[str, str]:
    """Annotations for device plugins of vendors: the bind time in nanoseconds, and the GPUs."""
    found = {f"{vocabulary.DOMAIN}bind-timestamp": str(bound_at)}
    if vocabulary.GPU in allocation:
        found[f"{vocabulary.DOMAIN}gpu-minors"] = ",".join(
            str(grant.minor) for grant in allocation[vocabulary.GPU]
        )
    return found


def answer_result(case: Case, semantics: Semantics) -> Answer:
    args = case["args"]
    allocation = allocation_of(args["allocations"])
    found = {vocabulary.ALLOCATED: annotation(allocation, machine(case, semantics))}
    if args["devicePluginAdaption"]:
        found |= plugin_annotations(allocation, args["bindTimeUnixNano"])
    return {"annotations": found}


ANSWERS: Mapping[str, Callable[[Case, Semantics], Answer]] = {
    "allocate": answer_allocate,
    "request-normalize": answer_request,
    "per-device-request": answer_per_device,
    "gpu-requirements": answer_gpu_requirements,
    "fill-gpu-memory": answer_fill,
    "rank-devices": answer_rank,
    "score-device": answer_score_device,
    "score-node": answer_score_node,
    "partition-index": answer_partition_index,
    "topology-tree": answer_tree,
    "parse-annotation": answer_parse,
    "partition-policy": answer_policy,
    "result-annotation": answer_result,
}
