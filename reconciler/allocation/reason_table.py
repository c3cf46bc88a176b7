"""The table of all reasons why a claim is pending: what each means, and what to do.

The identifiers are stable: Events, log lines and the metric of pending claims use them.
"""

from reconciler.allocation.explanation import Advice, Section
from reconciler.api.objects.plan import Reason

UNKNOWN = Advice("This release does not know the reason.", "See the message.", Section.CLAIM)

REASONS: dict[str, Advice] = {
    Reason.NO_DEVICE: Advice(
        "Fewer devices match the class and the selectors than the claim needs.",
        "Compare the selectors with what kubectl get resourceslices -o yaml shows, or add devices.",
        Section.CLAIM,
    ),
    Reason.GATE_OFF: Advice(
        "Devices match, but they use a feature whose gate is off.",
        "Enable the feature gate that the message names, on the server and with --feature-gates.",
        Section.FLEET,
    ),
    Reason.POOL: Advice(
        "Devices match, but their pools are incomplete or invalid.",
        "Check the driver; dra-reconciler doctor lists the pools and what is wrong.",
        Section.FLEET,
    ),
    Reason.IN_USE: Advice(
        "Devices match, but too few are free: other claims hold them.",
        "Wait, add devices, or delete unused claims. The nearest miss names the claims that hold devices.",
        Section.WAIT,
    ),
    Reason.TAINTED: Advice(
        "Devices match, but have taints that the request does not tolerate.",
        "Repair the devices, delete the DeviceTaintRule, or add a toleration to the request.",
        Section.FLEET,
    ),
    Reason.CAPACITY: Advice(
        "Devices match, but they have less capacity than requested, or other shares consume it.",
        "Request less, wait until shares are freed, or add larger devices.",
        Section.WAIT,
    ),
    Reason.EXCLUDED: Advice(
        "Devices match, but devices in use exclude them.",
        "Wait until the devices that the message names are free, or fix the configuration that it names; "
        "dra-reconciler modes shows the modes.",
        Section.WAIT,
    ),
    Reason.COUNTERS: Advice(
        "Devices match, but too little is free in the shared counters that they consume.",
        "Wait, delete claims that hold parts of the same physical device, or request a smaller partition.",
        Section.WAIT,
    ),
    Reason.CONSTRAINT: Advice(
        "Each request fits alone, but no node has devices that satisfy a constraint.",
        "Free devices that satisfy the constraint, or remove it. Devices without its attribute never match.",
        Section.WAIT,
    ),
    Reason.TOGETHER: Advice(
        "Each request fits alone, but no node can fit all of them together.",
        "Wait, or split the requests among several pods.",
        Section.WAIT,
    ),
    Reason.NO_NODE: Advice(
        "Enough devices match, but no node that the pod can use has enough.",
        "Free devices on one node, request fewer, relax the pod's node selector, or delete the bound pod.",
        Section.WAIT,
    ),
    Reason.NO_NODES: Advice(
        "There is no node that the claim or its pod may use.",
        "Check that nodes are not cordoned (kubectl get nodes), and compare them with what the pod requires.",
        Section.FLEET,
    ),
    Reason.ALIGNMENT: Advice(
        "Enough devices are free, but not as close together as joint allocation requires.",
        "Wait until devices that share the tier are free, require a wider tier, or request fewer devices.",
        Section.WAIT,
    ),
    Reason.PARTITION: Advice(
        "Enough devices are free, but no partition of the class's table.",
        "Wait until a whole partition is free, list more partitions, or set the table to Prefer.",
        Section.WAIT,
    ),
    Reason.PODS_COMPETE: Advice(
        "The gated pods that share a claim do not all fit on the nodes of any device.",
        "Free resources on the nodes of one device, relax the rules of the pods, or let fewer pods share it.",
        Section.WAIT,
    ),
    Reason.NODE_ROOM: Advice(
        "Devices are free, but take more of their node's CPUs or memory than pods leave.",
        "Wait for pods to end, request less, or add nodes.",
        Section.WAIT,
    ),
    Reason.NEVER: Advice(
        "The devices that match could not meet the claim even if all of them were free.",
        "Waiting does not help. Request less, correct what the message names in the claim or in the devices, "
        "or add nodes with other devices.",
        Section.CLAIM,
    ),
    Reason.GAVE_UP: Advice(
        "The search reached its step limit. It is unknown whether the claim fits.",
        "Raise --steps, or simplify the claim: use fewer constraints and alternatives.",
        Section.CLAIM,
    ),
    Reason.PREFERENCES_INVALID: Advice(
        "The joint allocation or partition settings of the claim or its class are invalid.",
        "Correct the annotation or class configuration that the message names.",
        Section.CLAIM,
    ),
    Reason.CLASS_NOT_FOUND: Advice(
        "A request names a DeviceClass that does not exist.",
        "Create the DeviceClass, or correct deviceClassName.",
        Section.FLEET,
    ),
    Reason.MISSING_CLASS: Advice(
        "A request names no DeviceClass.", "Set deviceClassName in the request.", Section.CLAIM
    ),
    Reason.FEATURE_DISABLED: Advice(
        "The claim or the pod uses a disabled feature.",
        "Enable the feature gate that the message names, or do without the feature.",
        Section.CLAIM,
    ),
    Reason.UNSUPPORTED_MODE: Advice(
        "A request has an unknown allocation mode, or neither exactly nor firstAvailable.",
        "Set allocationMode to ExactCount or All, in exactly or firstAvailable.",
        Section.CLAIM,
    ),
    Reason.UNSUPPORTED_SELECTOR: Advice(
        "A selector has an unknown type.", "Write the selector in CEL.", Section.CLAIM
    ),
    Reason.UNSUPPORTED_CONSTRAINT: Advice(
        "A constraint has an unknown type.",
        "Use matchAttribute or distinctAttribute.",
        Section.CLAIM,
    ),
    Reason.CEL_COMPILE: Advice(
        "A CEL expression does not compile.",
        "Correct the expression that the message quotes.",
        Section.CLAIM,
    ),
    Reason.CEL_RUNTIME: Advice(
        "A CEL expression fails on a device, usually because it reads a missing attribute.",
        "Check for the attribute first: has(device.attributes['domain'].name) && ...; or "
        ".?name.orValue(...).",
        Section.CLAIM,
    ),
    Reason.DERIVED_ATTRIBUTE: Advice(
        "A derived attribute fails on a device, usually because it reads a missing attribute.",
        "Check for the attribute in the expression: .?name.orValue(...). Or select fewer devices.",
        Section.CLAIM,
    ),
    Reason.TOO_MANY_DEVICES: Advice(
        "The claim needs more devices than one claim can hold.",
        "Split the claim into several claims of at most 32 devices.",
        Section.CLAIM,
    ),
    Reason.INCOMPLETE_POOL: Advice(
        "A request needs all matching devices, but slices of a pool are missing.",
        "Wait until the driver has published all slices of the pool that the message names.",
        Section.FLEET,
    ),
    Reason.INVALID_POOL: Advice(
        "The slices of a pool contradict each other.",
        "Fix the driver's slices; dra-reconciler doctor reports the errors.",
        Section.FLEET,
    ),
    Reason.CONSTRAINT_VIOLATED: Advice(
        "A request needs all matching devices, and together they violate its constraint.",
        "Remove the constraint, or narrow the selectors to devices that satisfy it.",
        Section.CLAIM,
    ),
    Reason.NODE_SELECTOR: Advice(
        "A node selector is invalid.",
        "Correct the node selector of the slice or the pod that the message names.",
        Section.FLEET,
    ),
    Reason.CAPACITY_INVALID: Advice(
        "A requested capacity is invalid.",
        "Request a positive amount that the device's request policy allows.",
        Section.CLAIM,
    ),
    "NotOurs": Advice(
        "Devices match, but they belong to another allocator.",
        "If no other allocator allocates them, set --own-driver or --own-class to their driver or class.",
        Section.FLEET,
    ),
    "ClaimNotMade": Advice(
        "The claim has not yet been created from its template.",
        "Check that the resourceclaim controller runs and that the template exists.",
        Section.FLEET,
    ),
    "ClaimRefused": Advice(
        "The claim on the server is invalid.",
        "Correct the field that the message names.",
        Section.CLAIM,
    ),
    "ClaimNotFound": Advice(
        "A pod refers to a claim that does not exist.", "Create the claim, or correct the pod.", Section.CLAIM
    ),
    "ClaimDeleting": Advice(
        "A required claim is being deleted.",
        "Wait until it is deleted. Create it again if the pod still needs it.",
        Section.WAIT,
    ),
    "ClaimOfOtherPod": Advice(
        "The claim with this name was created for another pod.",
        "Delete the older pod or its claim, or rename the pod.",
        Section.CLAIM,
    ),
    "NeedsSeveralShards": Advice(
        "No single shard is certain to have all requested devices.",
        "Select the driver in the class (`device.driver == ...`), or set dra-reconciler.io/pool-prefix.",
        Section.CLAIM,
    ),
    "NotManaged": Advice(
        "The claim has neither our label nor a gated pod.",
        "Label the claim with dra-reconciler.io/managed=true, gate its pod, or start with --all-claims.",
        Section.CLAIM,
    ),
    "ObjectsNotListed": Advice(
        "The pod needs objects that are listed on demand, and not listed yet.",
        "Wait: they are normally listed within a second.",
        Section.WAIT,
    ),
    "ObjectsNotReadable": Advice(
        "The pod needs objects that this controller may not list.",
        "Grant list and watch on the kind that the message names (deploy/base/rbac.yaml), or set "
        "--without-volumes.",
        Section.FLEET,
    ),
    "ExtendedResourcesOff": Advice(
        "kube-scheduler makes no claim for the extended resources of the pod: the feature gate is off.",
        "Enable DRAExtendedResource, or rewrite the pod: dra-reconciler migrate.",
        Section.FLEET,
    ),
    "ExtendedResourcesUnsafe": Advice(
        "kube-scheduler could choose devices for the extended resources that somebody else gives away.",
        "Rewrite the pod: dra-reconciler migrate.",
        Section.CLAIM,
    ),
    "GangUnplaced": Advice(
        "No domain has nodes and devices for enough pods of the gang together.",
        "Wait, or free what the message says is short. Or lower its minimum, or require a wider topology.",
        Section.WAIT,
    ),
    "GangTopologyUnknown": Advice(
        "The gang requires a topology key that no node and no device has.",
        "Correct the key in the PodGroup or the annotation, or label the nodes.",
        Section.FLEET,
    ),
    "LeftToScheduler": Advice(
        "kube-scheduler released our devices, and allocates for the pod itself.",
        "No action is needed. The pod's events say more.",
        Section.WAIT,
    ),
    "PodsNotBound": Advice(
        "The pod has its devices. Its affinity or spread counts pods that are not bound yet.",
        "Wait until those pods are bound. If they stay pending, their events say why.",
        Section.WAIT,
    ),
    "NodeUnsuitable": Advice(
        "The pod shares allocated devices, and does not fit on their node.",
        "Wait until the other pods that share them are bound.",
        Section.WAIT,
    ),
    "GangIncomplete": Advice(
        "Fewer pods of the gang exist than must run together.",
        "Create the missing pods, or correct the size (dra-reconciler.io/gang-size, minCount or minMember).",
        Section.WAIT,
    ),
    "GangNotFound": Advice(
        "A pod names a PodGroup, or that a CompositePodGroup, that does not exist.",
        "Create the group, or remove its name from the pods or the PodGroup.",
        Section.CLAIM,
    ),
    "GangInvalid": Advice(
        "The size, the topology or the parents of the gang cannot be used.",
        "Correct the field that the message names.",
        Section.CLAIM,
    ),
    "GangMembersDisagree": Advice(
        "Pods of one gang have annotations with different sizes or topologies.",
        "Set the same annotations in all pods of the gang.",
        Section.CLAIM,
    ),
}
"""Reason -> advice; plugins add theirs"""


def remedy(reason: str) -> str:
    """What to do about a reason."""
    return REASONS.get(reason, UNKNOWN).remedy
