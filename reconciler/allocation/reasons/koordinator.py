"""Reasons for which a pod waits that requests Koordinator's devices. Source: koordinator.md, the statuses."""

from collections.abc import Mapping

from reconciler.allocation.reasons.advice import Advice, Whose


def _advice(meaning: str, remedy: str) -> Advice:
    return Advice(meaning, remedy, Whose.POD)


KOORDINATOR: Mapping[str, Advice] = {
    "InsufficientDevices": _advice(
        "No node has enough devices, or enough of them left, of the type that is named.",
        "Wait, delete pods that hold such devices, or ask for less.",
    ),
    "NoDevicesOfType": _advice(
        "No node has devices of a type that is requested.",
        "Look at the Device objects of the nodes, or correct the resource that is requested.",
    ),
    "NoVirtualFunctions": _advice(
        "A virtual function is wanted, and no device of that type has any.",
        "Set up virtual functions on the nodes, or take the selector out of the pod's annotation.",
    ),
    "NoFeasiblePartition": _advice(
        "No partition of the node's table is free as a whole.",
        "Wait until the GPUs of a partition are free, or ask for a smaller one.",
    ),
    "PartitionSizeUnsupported": _advice(
        "The node's table has no partition of so many GPUs.",
        "Ask for a number of GPUs that the table has.",
    ),
    "PartitionTableMissing": _advice(
        "The pod must follow a partition table, and the node's Device has none.",
        "Publish the table in the Device, or take the policy out of the pod.",
    ),
    "TopologyMissing": _advice(
        "The pod wants GPUs that are near one another, and the node's Device says nothing of topology.",
        "Publish the topology in the Device, or drop the scope from the pod's annotation.",
    ),
    "TopologyScopeUnsatisfied": _advice(
        "No group of GPUs within the scope that is required has enough of them free.",
        "Wait, or require a wider scope.",
    ),
    "MultiShareWithRequiredScope": _advice(
        "Shares of several GPUs cannot be required to lie within a scope.",
        "Ask for whole GPUs, or drop the required scope.",
    ),
    "JointScopeViolation": _advice(
        "GPUs and the devices to go with them do not lie within the scope that is required.",
        "Wait until nearer devices are free, or drop the required scope.",
    ),
    "NoMatchingShareTemplate": _advice(
        "No template of shares fits what is requested.",
        "Ask for what a template of the GPU's model offers.",
    ),
    "GpuShareUnsupportedModel": _advice(
        "GPUs of that model cannot be shared.", "Ask for whole GPUs, or for another model."
    ),
    "GpuCapacityUnknown": _advice(
        "A GPU's Device does not say how much memory it has.",
        "Publish the memory of the GPU in the Device.",
    ),
    "IsolationProviderMissing": _advice(
        "The pod asks for an isolation of shares that the node does not offer.",
        "Label the node if it offers it, or drop the label from the pod.",
    ),
    "InvalidRequestCombination": _advice(
        "The resources that are requested do not go together.",
        "Request whole GPUs or shares in one of the combinations that Koordinator documents.",
    ),
    "InvalidRequestUnit": _advice(
        "An amount is not in the unit of its resource.",
        "Request a multiple of 100 where more than one device is meant.",
    ),
    "TwoKindsOfDevices": _advice(
        "The pod asks for devices by claims and by Koordinator's resources.", "Use one of the two."
    ),
    "HoldsDevices": _advice(
        "The pod says already which devices it holds, though its gate is still there.",
        "Remove the annotation of its devices, or the gate if it shall stand.",
    ),
    "MalformedAnnotation": _advice(
        "An annotation of the pod cannot be read.", "Correct the annotation that the message names."
    ),
}
