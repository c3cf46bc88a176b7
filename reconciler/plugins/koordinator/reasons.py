"""Reasons why a pod that requests Koordinator devices is pending. Source: koordinator.md, the statuses."""

from collections.abc import Mapping

from reconciler.allocation.explanation import Advice, Section


def _advice(meaning: str, remedy: str) -> Advice:
    return Advice(meaning, remedy, Section.KOORDINATOR)


IN_A_GANG = "GangOfKoordinator"

KOORDINATOR: Mapping[str, Advice] = {
    IN_A_GANG: Advice(
        "A pod of the gang requests Koordinator's devices, which gangs cannot have.",
        "Use ResourceClaims, or remove the pod from the gang.",
        Section.CLAIM,
    ),
    "InsufficientDevices": _advice(
        "No node has enough free devices, or enough free amounts on them, of the type in the message.",
        "Wait, delete pods that hold such devices, or request less.",
    ),
    "NoDevicesOfType": _advice(
        "No node has devices of a requested type.",
        "Check the Device objects of the nodes, or correct the requested resource.",
    ),
    "NoMatchingDevices": _advice(
        "No node has devices of a requested type whose labels match the selector of the pod's annotation.",
        "Correct the selector, or label the devices.",
    ),
    "ExceedsNodeCapacity": _advice(
        "No node has as many or as large devices as the pod needs, even if all of them are free.",
        "Request less, or add larger nodes. Waiting does not help.",
    ),
    "UnhealthyDevices": _advice(
        "Enough devices exist, but too few of them are healthy.",
        "Repair the devices. Waiting for pods to end does not help.",
    ),
    "NoVirtualFunctions": _advice(
        "The pod needs a virtual function, and no device of that type has one that vfSelector matches.",
        "Create or label virtual functions on the nodes, or correct vfSelector in the pod's annotation.",
    ),
    "PartitionImpossible": _advice(
        "No partition of the requested size has the bandwidth or the score that the pod requires.",
        "Require less in the pod's annotation, or correct the table. Waiting does not help.",
    ),
    "NoFeasiblePartition": _advice(
        "No partition in the node's table is completely free.",
        "Wait until the GPUs of a partition are free, or request a smaller one.",
    ),
    "PartitionSizeUnsupported": _advice(
        "The node's table has no partition with this number of GPUs.",
        "Request a number of GPUs that the table lists.",
    ),
    "PartitionTableMissing": _advice(
        "The pod must use a partition table, and the node's Device has none.",
        "Publish the table in the Device, or remove the policy from the pod.",
    ),
    "TopologyMissing": _advice(
        "The pod needs GPUs that are close to each other, and the node's Device has no topology.",
        "Publish the topology in the Device, or remove the scope from the pod's annotation.",
    ),
    "TopologyScopeUnsatisfied": _advice(
        "No group of GPUs within the required scope has enough free GPUs.", "Wait, or require a wider scope."
    ),
    "TopologyScopeImpossible": _advice(
        "No group of GPUs within the required scope is large enough, even if all GPUs are free.",
        "Request fewer GPUs, or require a wider scope. Waiting does not help.",
    ),
    "MultiShareWithRequiredScope": _advice(
        "A required scope is not supported for shares of several GPUs.",
        "Request whole GPUs, or remove the required scope.",
    ),
    "JointScopeViolation": _advice(
        "The GPUs and the devices that must be allocated with them are not within the required scope.",
        "Wait until closer devices are free, or remove the required scope.",
    ),
    "JointScopeImpossible": _advice(
        "No node has the GPUs and the devices that must be allocated with them on common switches, even if "
        "all devices are free.",
        "Remove the required scope, or request fewer devices. Waiting does not help.",
    ),
    "SwitchUnknown": _advice(
        "The pod is to be alone on a PCIe switch, and the Device does not say which devices are on one.",
        "Publish topology.pcieID in the Device, or set exclusivePolicy to DeviceLevel in the annotation.",
    ),
    "PartitionPolicyUnknown": _advice(
        "The label for the partition policy has an unknown value: no GPU of the node is allocated.",
        "Set node.koordinator.sh/gpu-partition-policy to Honor or Prefer, or remove it.",
    ),
    "NoMatchingShareTemplate": _advice(
        "No share template fits the request.", "Request amounts that a template of the GPU model offers."
    ),
    "GpuShareUnsupportedModel": _advice(
        "GPUs of this model cannot be shared.", "Request whole GPUs, or another model."
    ),
    "GpuCapacityUnknown": _advice(
        "The Device of a GPU does not state the GPU's memory.", "Publish the memory of the GPU in the Device."
    ),
    "IsolationProviderMissing": _advice(
        "The pod requires an isolation of shares that the node does not offer.",
        "Label the node if it offers the isolation, or remove the label from the pod.",
    ),
    "InvalidRequestCombination": _advice(
        "The requested resources cannot be combined.",
        "Request whole GPUs or shares in one of the combinations that Koordinator documents.",
    ),
    "InvalidRequestUnit": _advice(
        "An amount does not match the unit of its resource.",
        "To request more than one device, use a multiple of 100.",
    ),
    "TwoKindsOfDevices": _advice(
        "The pod requests devices both by claims and by Koordinator resources.", "Use only one of the two."
    ),
    "HoldsDevices": _advice(
        "The pod's annotation already lists allocated devices, but its scheduling gate is still there.",
        "Remove the annotation; or remove the gate to keep the devices.",
    ),
    "MalformedAnnotation": _advice(
        "An annotation of the pod cannot be parsed, or has a value that is not allowed.",
        "Correct the annotation that the message names.",
    ),
}
