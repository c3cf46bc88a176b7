"""Reasons why a pod that requests Koordinator devices is pending. Source: koordinator.md, the statuses."""

from collections.abc import Mapping

from reconciler.allocation.reasons.advice import Advice, Section


def _advice(meaning: str, remedy: str) -> Advice:
    return Advice(meaning, remedy, Section.KOORDINATOR)


KOORDINATOR: Mapping[str, Advice] = {
    "InsufficientDevices": _advice(
        "No node has enough free devices, or enough free amounts on them, of the type in the message.",
        "Wait, delete pods that hold such devices, or request less.",
    ),
    "NoDevicesOfType": _advice(
        "No node has devices of a requested type.",
        "Check the Device objects of the nodes, or correct the requested resource.",
    ),
    "NoVirtualFunctions": _advice(
        "The pod needs a virtual function, and no device of that type has one.",
        "Create virtual functions on the nodes, or remove the selector from the pod's annotation.",
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
        "No group of GPUs within the required scope has enough free GPUs.",
        "Wait, or require a wider scope.",
    ),
    "MultiShareWithRequiredScope": _advice(
        "A required scope is not supported for shares of several GPUs.",
        "Request whole GPUs, or remove the required scope.",
    ),
    "JointScopeViolation": _advice(
        "The GPUs and the devices that must be allocated with them are not within the required scope.",
        "Wait until closer devices are free, or remove the required scope.",
    ),
    "NoMatchingShareTemplate": _advice(
        "No share template fits the request.",
        "Request amounts that a template of the GPU model offers.",
    ),
    "GpuShareUnsupportedModel": _advice(
        "GPUs of this model cannot be shared.", "Request whole GPUs, or another model."
    ),
    "GpuCapacityUnknown": _advice(
        "The Device of a GPU does not state the GPU's memory.",
        "Publish the memory of the GPU in the Device.",
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
