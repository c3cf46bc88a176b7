"""Every reason for which a claim waits, what it means, and what to do about it. One table for all.

The words are stable: they are the reasons of Events, log lines and the metric of waiting claims.
"""

from collections.abc import Mapping

from reconciler.allocation.reasons.advice import Advice, Whose
from reconciler.allocation.reasons.koordinator import KOORDINATOR
from reconciler.api.objects.plan import Reason

UNKNOWN = Advice("A reason that this release does not know.", "See the message.", Whose.CLAIM)

REASONS: Mapping[str, Advice] = {
    Reason.NO_DEVICE: Advice(
        "Fewer devices match the class and the selectors than are wanted.",
        "Compare the selectors with the attributes that the slices publish: "
        "kubectl get resourceslices -o yaml. Add devices of that kind, or widen the selectors.",
        Whose.CLAIM,
    ),
    Reason.POOL: Advice(
        "Devices would match, but their pools are incomplete or contradict themselves.",
        "Look at the driver: it has not published every slice of the newest generation. "
        "dra-reconciler doctor names the pools.",
        Whose.FLEET,
    ),
    Reason.IN_USE: Advice(
        "Devices match, but other claims hold them.",
        "Wait, add devices, or delete claims that nobody uses. The nearest miss names who holds them.",
        Whose.TIME,
    ),
    Reason.TAINTED: Advice(
        "Devices match, but carry taints that the request does not tolerate.",
        "Repair the devices or remove the DeviceTaintRule; or add a toleration to the request if it may "
        "use such devices.",
        Whose.FLEET,
    ),
    Reason.CAPACITY: Advice(
        "Devices match, but do not have the capacity that is asked for, or shares have consumed it.",
        "Ask for less, wait for shares to be freed, or add larger devices.",
        Whose.TIME,
    ),
    Reason.EXCLUDED: Advice(
        "Devices match, but what is held beside them excludes them.",
        "Wait until the devices named are freed, or use a node whose devices are in another mode: "
        "dra-reconciler modes shows them.",
        Whose.TIME,
    ),
    Reason.COUNTERS: Advice(
        "Devices match, but what they draw from shared counters is not left.",
        "Wait, or delete claims that hold parts of the same physical device; ask for a smaller partition. "
        "The explanation names the counter, the set and by how much it is short.",
        Whose.TIME,
    ),
    Reason.CONSTRAINT: Advice(
        "Each request could be met, but no node has devices that agree, or differ, as a constraint wants.",
        "Check the attribute that the constraint names: devices without it never pass. "
        "Free devices that share a value, or drop the constraint.",
        Whose.TIME,
    ),
    Reason.TOGETHER: Advice(
        "Each request could be met alone, but no node has devices for all of them at once.",
        "Wait, or spread the requests over claims of several pods. All claims of one pod must fit one node.",
        Whose.TIME,
    ),
    Reason.NO_NODE: Advice(
        "Enough devices would do, but no single node that the pod may use has enough of them.",
        "Ask for fewer devices a claim, free devices on one node, or loosen the pod's node selector.",
        Whose.TIME,
    ),
    Reason.ALIGNMENT: Advice(
        "Devices enough could be had, but none that are as near to each other as joint allocation requires.",
        "Wait until devices that share the tier are free, require a farther tier or `node`, or ask for fewer "
        "devices. The nearest miss names the tier's value that comes closest.",
        Whose.TIME,
    ),
    Reason.PARTITION: Advice(
        "Devices enough are free, but no set of them that the class's partition table lists is.",
        "Wait until a whole partition is free, list more partitions, or have the table preferred instead of "
        "honored.",
        Whose.TIME,
    ),
    Reason.GAVE_UP: Advice(
        "The search used up its steps; whether an answer exists is not known.",
        "Raise --steps, or make the requests more alike: fewer constraints and alternatives.",
        Whose.CLAIM,
    ),
    Reason.PREFERENCES_INVALID: Advice(
        "What the claim, or a class of its, says about joint allocation or partitions cannot be understood.",
        "Correct the annotation or the class's configuration at the place that the message names.",
        Whose.CLAIM,
    ),
    Reason.CLASS_NOT_FOUND: Advice(
        "A request names a DeviceClass that does not exist.",
        "Create the DeviceClass, or correct deviceClassName.",
        Whose.FLEET,
    ),
    Reason.MISSING_CLASS: Advice(
        "A request names no DeviceClass.", "Set deviceClassName in the request.", Whose.CLAIM
    ),
    Reason.FEATURE_DISABLED: Advice(
        "The claim uses a feature that is off.",
        "Turn on the feature gate that the message names, on the server and with --feature-gates, "
        "or write the claim without it.",
        Whose.CLAIM,
    ),
    Reason.UNSUPPORTED_MODE: Advice(
        "A request has an allocation mode that is not known, or neither exactly nor firstAvailable.",
        "Use allocationMode ExactCount or All.",
        Whose.CLAIM,
    ),
    Reason.UNSUPPORTED_SELECTOR: Advice(
        "A selector is of a kind that is not known.", "Write the selector in CEL.", Whose.CLAIM
    ),
    Reason.UNSUPPORTED_CONSTRAINT: Advice(
        "A constraint is of a kind that is not known.",
        "Use matchAttribute or distinctAttribute.",
        Whose.CLAIM,
    ),
    Reason.CEL_COMPILE: Advice(
        "An expression cannot be compiled.",
        "Correct the expression that the message quotes.",
        Whose.CLAIM,
    ),
    Reason.CEL_RUNTIME: Advice(
        "An expression fails on a device, most often because it reads an attribute that is not there.",
        "Guard the attribute: has(device.attributes['domain'].name) && ...; or .?name.orValue(...).",
        Whose.CLAIM,
    ),
    Reason.TOO_MANY_DEVICES: Advice(
        "The claim needs more devices than a claim can hold.",
        "Split it into several claims of at most 32 devices.",
        Whose.CLAIM,
    ),
    Reason.INCOMPLETE_POOL: Advice(
        "A request wants all devices, but slices of a pool are missing.",
        "Wait for the driver to publish the rest of the pool that the message names.",
        Whose.FLEET,
    ),
    Reason.INVALID_POOL: Advice(
        "The slices of a pool contradict one another.",
        "Correct the driver's slices; dra-reconciler doctor says what is wrong.",
        Whose.FLEET,
    ),
    Reason.CONSTRAINT_VIOLATED: Advice(
        "A request wants all devices, and they cannot all meet its constraint.",
        "Drop the constraint, or narrow the selectors to devices that meet it.",
        Whose.CLAIM,
    ),
    Reason.NODE_SELECTOR: Advice(
        "A node selector cannot be read.",
        "Correct the node selector of the slice or the pod that the message names.",
        Whose.FLEET,
    ),
    Reason.CAPACITY_INVALID: Advice(
        "An amount of capacity cannot be given as it is asked for.",
        "Ask for a positive amount that the policy of the device can express.",
        Whose.CLAIM,
    ),
    "NotOurs": Advice(
        "Devices would do, but they belong to another allocator.",
        "Name the driver or the class with --own-driver or --own-class if no other allocator gives them out.",
        Whose.FLEET,
    ),
    "ClaimNotMade": Advice(
        "The claim of a template has not been made yet.",
        "It is made by the resourceclaim controller; check that it runs and that the template exists.",
        Whose.FLEET,
    ),
    "ClaimRefused": Advice(
        "The claim on the server cannot be read.",
        "Correct the field that the message names.",
        Whose.CLAIM,
    ),
    "ClaimNotFound": Advice(
        "A pod names a claim that does not exist.", "Create the claim, or correct the pod.", Whose.CLAIM
    ),
    "ClaimDeleting": Advice(
        "A claim that is needed is being deleted.",
        "Wait until it is gone, and create it again if the pod still needs it.",
        Whose.TIME,
    ),
    "ClaimOfOtherPod": Advice(
        "A claim of that name was made for another pod.",
        "Delete the older pod or its claim, or rename the pod.",
        Whose.CLAIM,
    ),
    "NeedsSeveralShards": Advice(
        "The fleet is divided among shards, and none alone is sure to have all that is asked for.",
        "Let the class say whose devices it means (`device.driver == ...`), annotate the claim with "
        "dra-reconciler.io/pool-prefix where shards differ in pools, and keep a pod's claims in one shard.",
        Whose.CLAIM,
    ),
    "LeftToScheduler": Advice(
        "kube-scheduler took back what we allocated for the pod, and decides itself.",
        "Look at the pod's events and at the log line `allocation taken back`; nothing else is to be done.",
        Whose.TIME,
    ),
    **KOORDINATOR,
}
"""Reason -> what it means. Bounded: what is not here never becomes a label of a metric."""

OTHER = "Other"
"""Stands for a reason that is not in the table, where reasons must be bounded."""


def remedy(reason: str) -> str:
    """What to do about a reason."""
    return REASONS.get(reason, UNKNOWN).remedy


def bounded(reason: str) -> str:
    """The reason itself if it is in the table, otherwise one word for all others."""
    return str(reason) if reason in REASONS else OTHER
